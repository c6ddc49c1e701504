// Buckets of gradients in parts: memory from the first gradient until the sum is kept.
#include <algorithm>

#include "warptape/core/at_line.h"
#include "warptape/core/error.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/dist/data_parallel/buckets.h"

namespace wt::dist::detail {

using optim::detail::Arena;
using optim::detail::Slot;

namespace {

// Begun and not finished: the next one waits for the oldest of them, so that a backward which is
// faster than the network does not fill the memory with what is to be sent.
constexpr size_t kUnderWay = 2;

}  // namespace

void Buckets::provide(Leaf*, void* seat) {
  const Seat& s = *static_cast<Seat*>(seat);
  s.owner->lend(s);
}

void Buckets::lend(const Seat& seat) {
  Bucket& b = buckets_[seat.bucket];
  const Slot& slot = arenas_->all()[b.arena].slots[seat.slot];
  if (!armed_)
    throw UsageError(str("[DataParallel] a backward() of the loss itself reaches ", slot.entry.name,
                         ", and gradients are kept in parts of all ranks' sums", at_line(),
                         "\n  Try ddp.backward(loss), or TrainStep"));
  if (b.begun) throw_twice(seat);
  make_room(b);
  arenas_->lend_gradient(slot, b.grad.impl()->storage,
                         (slot.offset - b.begin) * item_size(b.grad.dtype()));
}

void Buckets::make_room(Bucket& b) {
  if (b.grad.defined()) return;
  while (finished_ < next_ && buckets_[order_[finished_]].work.done()) finish_oldest();
  const Arena& a = arenas_->all()[b.arena];
  const optim::detail::StorageRef memory =
      optim::detail::zeroed(arenas_->device(), b.count * item_size(a.dtype), Category::gradient);
  b.grad = optim::detail::flat_over(memory.get(), 0, b.count, a.dtype);
}

void Buckets::take_back(const Bucket& b) noexcept {
  const Arena& a = arenas_->all()[b.arena];
  for (size_t s = b.first_slot; s < b.first_slot + b.n_slots; ++s)
    arenas_->take_back_gradient(a.slots[s]);
}

// A gradient that comes later asks for memory, and finds that the sum has begun.
void Buckets::begin_sums(Bucket& b) {
  take_back(b);
  while (next_ - finished_ >= kUnderWay) finish_oldest();
  make_room(b);
  compress(b);
  if (b.half.defined()) b.grad = Tensor();
  b.work = reduce(b.half.defined() ? b.half : b.grad);
}

void Buckets::finish_oldest() {
  const NoGrad no_grad;
  keep_sums(buckets_[order_[finished_]]);
  ++finished_;
}

void Buckets::keep_sums(Bucket& b) {
  b.work.wait();
  b.work = Work();
  const CategoryScope scope(Category::gradient);
  Tensor sums = own_piece(comm_, b.half.defined() ? b.half : b.grad);
  if (b.half.defined()) {
    sums = sums.to(b.kept.dtype(), Frame{});
    const double factor = compress_factor();
    if (factor != 1) sums.mul_(factor, Frame{});
  }
  if (b.adds)
    b.kept.add_(sums, {}, Frame{});
  else
    b.kept.copy_(sums, Frame{});
  b.adds = true;
  b.grad = b.half = Tensor();
}

// Whether there are sums that go on, of an earlier backward(); those of other parameters become
// zero then.
bool Buckets::keep_written(const Bucket& b) {
  const Arena& a = arenas_->all()[b.arena];
  const auto is_written = [](const Slot& s) {
    const Leaf* l = leaf_of(s.entry.tensor.impl());
    return l && l->written;
  };
  const auto first = a.slots.begin() + std::ptrdiff_t(b.first_slot);
  const auto last = first + std::ptrdiff_t(b.n_slots);
  if (std::none_of(first, last, is_written)) return false;
  const i64 n = b.kept.numel(), begin = b.begin + n * comm_.rank();
  for (auto s = first; s != last; ++s) {
    const i64 from = std::max(s->offset, begin);
    const i64 count = std::min(s->offset + s->padded, begin + n) - from;
    if (is_written(*s) || count <= 0 || arenas_->device().is_meta) continue;
    fill_zero(range_of(b.kept, from - begin, count).impl()->data, arenas_->device(),
              count * item_size(a.dtype));
  }
  return true;
}

void Buckets::add_nothing() {
  const i64 early = early_;
  arm(op_, true);
  early_ = early;
  begin_rest();
  wait();
}

void Buckets::drop() noexcept {
  if (!in_parts()) return;
  for (Bucket& b : buckets_) {
    take_back(b);
    b.grad = b.half = Tensor();
    b.work = Work();
  }
  next_ = finished_ = 0;
}

}  // namespace wt::dist::detail
