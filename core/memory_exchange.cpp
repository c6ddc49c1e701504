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

}  // namespace

void MemoryAccount::add(const Tensor& x, const Tensor& y) {
  const TensorImpl *const p = x.impl(), *const q = y.impl();
  const auto ours = [](const RefCount& refs, u32 here) {
    return refs.value.load(std::memory_order_acquire) == here;
  };
  const auto add_block = [&](const Storage* s, u32 here) {
    if (!s->special && ours(s->refs, here)) ++blocks[s->size_class];
  };
  if (p && p == q) {
    if (!ours(p->refs, 2)) return;
    ++tensors;
    return add_block(p->storage, 1);
  }
  const bool shared = p && q && p->storage == q->storage;
  for (const TensorImpl* t : {p, q}) {
    if (!t || !ours(t->refs, 1)) continue;
    ++tensors;
    if (!shared) add_block(t->storage, 1);
  }
  if (shared) add_block(p->storage, 2);
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
