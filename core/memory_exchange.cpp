#include "warptape/core/memory_exchange.h"

#include <algorithm>
#include <utility>

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

}  // namespace

void MemoryAccount::add(std::span<Tensor*> together) noexcept {
  const auto all_of = [](const RefCount& refs, u32 here) {
    return refs.value.load(std::memory_order_acquire) == here;
  };
  // Those of one block lie side by side, and among them the handles of one tensor.
  const auto place = [](const Tensor* t) { return std::pair(t->impl()->storage, t->impl()); };
  std::sort(together.begin(), together.end(),
            [&](const Tensor* a, const Tensor* b) { return place(a) < place(b); });
  for (size_t i = 0; i < together.size();) {
    const Storage* const s = place(together[i]).first;
    u32 parts = 0;
    while (i < together.size() && place(together[i]).first == s) {
      const TensorImpl* const p = together[i]->impl();
      u32 handles = 0;
      for (; i < together.size() && together[i]->impl() == p; ++i) ++handles;
      if (all_of(p->refs, handles)) ++parts;
    }
    tensors += i32(parts);
    if (parts > 0 && !s->special && all_of(s->refs, parts)) ++blocks[s->size_class];
  }
}

MemoryExchange::~MemoryExchange() {
  for (Storage*& list : blocks_) trim_blocks(list);
  trim_impls(tensors_);
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
