// Memory that one thread took and another freed. Every block, tensor and node knows the thread that
// took it from the system (its home): what ends on another thread waits here for a thread that
// needs such a block, so that tensors may flow from thread to thread for ever. Internal to the
// library.
#pragma once
#include "warptape/core/storage.h"
#include "warptape/core/tensor_impl.h"

namespace wt::detail {

// Whether freed memory is kept at all: that would hide use after free from ASan.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kPools = false;
#else
inline constexpr bool kPools = true;
#endif

// The numbers that threads go by: 1 up, the lowest that is free. 0 is a thread that took nothing
// yet. So many threads at once share the last number, and what they free for one another stays
// with them.
inline constexpr u8 kLastHome = 254;
u8 take_home();
void leave_home(u8 home);
// What this thread takes from the system belongs to: while it ends, another one, so that all of it
// is given back.
WT_HOT u8 home_of_new() { return thread_memory.home != 0 ? thread_memory.home : kLastHome; }

// Up to `most` of a common list become this thread's (while it ends, one: nothing looks at its
// lists again). The caller holds the list's mutex.
template <class T>
T* take_some(T*& from, i64& count, i64 most) {
  T* list = nullptr;
  for (i64 i = 0; i < (thread_memory.ended ? 1 : most) && from; ++i, --count) {
    T* p = from;
    from = p->next;
    p->home = home_of_new();
    p->next = list;
    list = p;
  }
  return list;
}

// --- blocks of the cpu ---
// Of another thread's. That thread takes it off its live bytes when it next looks: else these, and
// with them its peak, would grow for as long as it hands tensors on.
void return_block(Storage* s);
// This thread looks.
void take_off_freed();
// Of all threads, what nobody has taken off yet: off the sum of their counters.
void take_off_all_freed(MemoryCounters& cpu);
// One of this size class, or null.
Storage* returned_block(u32 size_class);
// Gives blocks of `list` back to the system: all, or those that nobody used since the last time.
void trim_blocks(Storage*& list);
void trim_unused_blocks(Storage*& list);
// cpu blocks that were taken from the system and not given back: their bytes, headers excluded.
std::atomic<i64>& reserved_bytes();

// --- tensors ---
void return_impl(TensorImpl* p);
TensorImpl* returned_impls();  // a list, to be kept; null: none
void trim_impls(TensorImpl*& list);

// All that waits goes back to the system.
void trim_returned();

}  // namespace wt::detail
