#include "warptape/core/memory_exchange.h"

#include "warptape/core/tensor.h"

namespace wt::detail {
namespace {

template <class T>
void move(T*& from, T*& to, i32& owed) {
  while (owed > 0 && from) {
    T* const first = from;
    from = first->next;
    first->next = to;
    to = first;
    --owed;
  }
}

template <class T>
void move_all(T*& from, T*& to) {
  while (from) {
    i32 one = 1;
    move(from, to, one);
  }
}

}  // namespace

void MemoryAccount::add(const Tensor& t) {
  const TensorImpl* const p = t.impl();
  if (!p || !p->refs.sole() || p->storage->special || !p->storage->refs.sole()) return;
  ++blocks[p->storage->size_class];
  ++tensors;
}

MemoryExchange::~MemoryExchange() {
  for (int c = 0; c < kSizeClasses; ++c) move_all(blocks_[c], thread_memory.free_blocks[c]);
  move_all(tensors_, thread_impls.free);
}

void MemoryExchange::give(MemoryAccount& owed) {
  for (int c = 0; c < kSizeClasses; ++c)
    move(thread_memory.free_blocks[c], blocks_[c], owed.blocks[c]);
  move(thread_impls.free, tensors_, owed.tensors);
}

void MemoryExchange::take(MemoryAccount& owed) {
  if (!thread_memory.registered) return;  // nothing would free it at the thread's end
  for (int c = 0; c < kSizeClasses; ++c)
    move(blocks_[c], thread_memory.free_blocks[c], owed.blocks[c]);
  move(tensors_, thread_impls.free, owed.tensors);
}

}  // namespace wt::detail
