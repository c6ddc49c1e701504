// Memory that flows one way between threads: one makes tensors, another frees them. Each thread
// keeps what it frees for itself, so without this the free lists of the second would grow for ever
// while the first takes new memory. Internal to the library.
#pragma once
#include <span>

#include "warptape/core/storage.h"
#include "warptape/core/tensor_impl.h"

namespace wt {

class Tensor;

namespace detail {

// What one thread has sent, or been sent, and not had back or given back: blocks by size class.
struct MemoryAccount {
  i32 blocks[kSizeClasses]{};
  i32 tensors = 0;

  // Counts defined tensors that change hands together, as far as nobody else has a part of them.
  // They may share memory, or be the same. Sorts the list.
  void add(std::span<Tensor*> together) noexcept;
};

// Give free lists back to the system (core/storage.cpp).
void trim_blocks(Storage*& list);
void trim_impls(TensorImpl*& list);

// The caller sees to it that one thread at a time uses it.
class MemoryExchange {
 public:
  MemoryExchange() = default;
  ~MemoryExchange();  // what lies in it goes back to the system: the threads that took it are gone
  MemoryExchange(const MemoryExchange&) = delete;
  MemoryExchange& operator=(const MemoryExchange&) = delete;

  // Moves free memory of this thread here, up to what it owes.
  void give(MemoryAccount& owed);
  // Moves memory from here to this thread's, up to what it is owed.
  void take(MemoryAccount& owed);

 private:
  Storage* blocks_[kSizeClasses]{};
  TensorImpl* tensors_ = nullptr;
};

}  // namespace detail
}  // namespace wt
