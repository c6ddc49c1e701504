#include "warptape/dist/data_parallel/buckets.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "warptape/core/at_line.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/stream.h"

namespace wt::dist::detail {

using optim::detail::Arena;
using optim::detail::Arenas;
using optim::detail::Slot;

// --- ranges ---

void Buckets::add_bucket(size_t arena, const optim::Sharding::Range& r) {
  order_.push_back(buckets_.size());
  const size_t first_seat = seats_.size() - arenas_->all()[arena].slots.size();
  for (size_t s = r.first_slot; s < r.first_slot + r.n_slots; ++s)
    seats_[first_seat + s] = {.owner = this, .bucket = buckets_.size(), .slot = s};
  buckets_.push_back({.arena = arena,
                      .first_slot = r.first_slot,
                      .n_slots = r.n_slots,
                      .begin = r.begin,
                      .count = r.count,
                      .grad = {}});
}

// From the end of each arena: gradients of what was registered last come first.
void Buckets::cut(const Arenas& arenas) {
  for (size_t k = 0; k < arenas.all().size(); ++k) {
    const Arena& a = arenas.all()[k];
    seats_.resize(seats_.size() + a.slots.size());
    if (options_.shards) {
      for (auto r = a.ranges.rbegin(); r != a.ranges.rend(); ++r) add_bucket(k, *r);
      continue;
    }
    std::vector<i64> sizes;
    for (const Slot& s : a.slots) sizes.push_back(s.padded);
    for (const Group& g :
         groups_from_end(sizes, item_size(a.dtype), k == 0 ? options_.first_bytes : options_.bytes,
                         options_.bytes)) {
      const Slot& last = a.slots[g.first + g.n - 1];
      const i64 begin = a.slots[g.first].offset;
      add_bucket(k, {g.first, g.n, begin, last.offset + last.padded - begin});
    }
  }
}

void Buckets::make_views() {
  for (Bucket& b : buckets_) {
    const Arena& a = arenas_->all()[b.arena];
    b.grad = b.half = b.kept = Tensor();
    b.work = Work();
    if (in_parts()) {
      const auto r = std::find_if(a.ranges.begin(), a.ranges.end(),
                                  [&](const auto& x) { return x.begin == b.begin; });
      const i64 at = a.pieces[size_t(r - a.ranges.begin())].state * item_size(a.dtype);
      b.kept = optim::detail::flat_over(a.grad.get(), at, b.count / comm_.size(), a.dtype);
      continue;
    }
    b.grad = optim::detail::flat_over(a.grad.get(), b.begin * item_size(a.dtype), b.count, a.dtype);
    b.kept = options_.shards ? own_piece(comm_, b.grad) : b.grad;
  }
}

void Buckets::follow(Arenas& arenas) {
  const bool same = arenas_ == &arenas && generation_ == arenas.generation();
  arenas_ = &arenas;
  if (buckets_.empty()) cut(arenas);
  if (!same) {
    generation_ = arenas.generation();
    make_views();
  }
  size_t i = 0;
  for (const Arena& a : arenas.all())
    for (const Slot& s : a.slots) listen(seats_[i++], s);
}

// A leaf that was frozen and free again is another one, without a hook.
void Buckets::listen(Seat& seat, const Slot& slot) {
  Leaf* const l = leaf_of(slot.entry.tensor.impl());
  if (!l || l->ready_context == &seat) return;
  if (l->ready)
    throw UsageError(str("[DataParallel] parameter ", slot.entry.name,
                         " belongs to another DataParallel already", at_line(),
                         "\n  Try ending that one first"));
  l->ready = &Buckets::ready;
  if (in_parts()) l->provide = &Buckets::provide;
  l->ready_context = &seat;
}

void Buckets::let_go() noexcept {
  if (!arenas_) return;
  drop();
  size_t i = 0;
  for (const Arena& a : arenas_->all())
    for (const Slot& s : a.slots) {
      Leaf* const l = leaf_of(s.entry.tensor.impl());
      if (l && l->ready_context == &seats_[i]) {
        l->ready = l->provide = nullptr;
        l->ready_context = nullptr;
      }
      ++i;
    }
}

std::vector<Buckets::Range> Buckets::ranges() const {
  std::vector<Range> all;
  for (const size_t k : order_) {
    const Bucket& b = buckets_[k];
    const Arena& a = arenas_->all()[b.arena];
    all.push_back({&a, b.first_slot, b.n_slots, b.count * item_size(a.dtype)});
  }
  return all;
}

// --- a step ---

void Buckets::arm(ReduceOp op, bool adds) {
  for (Bucket& b : buckets_) {
    b.arrived = 0;
    b.begun = b.elsewhere = false;
    b.work = Work();
    if (in_parts()) b.adds = adds || keep_written(b);
  }
  for (Seat& s : seats_) s.arrived = false;
  complete_.clear();
  next_ = finished_ = 0;
  early_ = 0;
  op_ = op;
  armed_ = true;
}

void Buckets::ready(Leaf* l, void* seat) {
  Seat& s = *static_cast<Seat*>(seat);
  if (s.owner->armed_) s.owner->arrived(s, l);
}

// A leaf is ready, too, where nothing came of its uses: its slot holds an earlier step's then.
void Buckets::arrived(Seat& seat, const Leaf* l) {
  Bucket& b = buckets_[seat.bucket];
  if (b.begun) throw_twice(seat);
  if (!l->written || seat.arrived) return;
  seat.arrived = true;
  if (b.arrived++ == 0)
    b.stream = mode.stream;
  else
    b.elsewhere |= b.stream != mode.stream;
  if (b.arrived == b.n_slots) complete_.push_back(seat.bucket);
  begin_complete();
}

void Buckets::throw_twice(const Seat& seat) const {
  const Bucket& b = buckets_[seat.bucket];
  throw UsageError(str("[DataParallel] a gradient of ",
                       arenas_->all()[b.arena].slots[seat.slot].entry.name,
                       " came after the sum over all ranks had begun: one backward() reached it "
                       "twice",
                       at_line(), "\n  Try no_sync() for all backwards but the last"));
}

// Those whose turn has come.
void Buckets::begin_complete() {
  while (next_ < order_.size()) {
    Bucket& next = buckets_[order_[next_]];
    // The sum starts after what is queued on the current stream, and no other one.
    if (next.arrived < next.n_slots || next.elsewhere || next.stream != mode.stream) return;
    begin(next);
    ++next_;
    ++early_;
  }
}

void Buckets::begin_rest() {
  for (; next_ < order_.size(); ++next_) begin(buckets_[order_[next_]]);
}

// f16 ends at 65504, and a sum of n elements must not.
double Buckets::compress_factor() const {
  if (options_.compress != DType::f16 || op_ != ReduceOp::sum) return 1;
  return std::exp2(std::ceil(std::log2(double(comm_.size()))));
}

Work Buckets::reduce(const Tensor& t) {
  if (!options_.shards) return comm_.start_all_reduce(t, op_, Frame{});
  return comm_.start_reduce_scatter(own_piece(comm_, t), t, op_, Frame{});
}

void Buckets::begin(Bucket& b) {
  b.begun = true;
  if (comm_.size() == 1) return;
  const NoGrad no_grad;
  if (in_parts()) return begin_sums(b);
  compress(b);
  b.work = reduce(b.half.defined() ? b.half : b.grad);
}

// The copy that travels, where one does.
void Buckets::compress(Bucket& b) {
  if (!is_half(options_.compress) || b.grad.dtype() != DType::f32) return;
  const CategoryScope scope(Category::gradient);
  if (!b.half.defined())
    b.half = empty({b.count}, {.dtype = options_.compress, .device = b.grad.device()}, Frame{});
  const double factor = compress_factor();
  if (factor != 1) b.grad.mul_(1 / factor, Frame{});
  b.half.copy_(b.grad, Frame{});
}

void Buckets::finish(Bucket& b) {
  b.work.wait();
  b.work = Work();
  if (!b.half.defined()) return;
  b.kept.copy_(options_.shards ? own_piece(comm_, b.half) : b.half, Frame{});
  const double factor = compress_factor();
  if (factor != 1) b.kept.mul_(factor, Frame{});
}

void Buckets::wait() {
  const NoGrad no_grad;
  if (in_parts()) {
    while (finished_ < next_) finish_oldest();
  } else if (comm_.size() > 1) {
    for (const size_t k : order_) finish(buckets_[k]);
  }
  disarm();
  for (const Bucket& b : buckets_) {
    const Arena& a = arenas_->all()[b.arena];
    for (size_t s = b.first_slot; s < b.first_slot + b.n_slots; ++s)
      a.slots[s].cell->wrote(mode.frame);
  }
}

void Buckets::learn_order() {
  std::vector<size_t> mine = complete_;
  for (const size_t k : order_)  // those with unreached parameters come last
    if (std::find(mine.begin(), mine.end(), k) == mine.end()) mine.push_back(k);
  const Tensor t = empty({i64(mine.size())}, {.dtype = DType::i64, .device = Device::cpu()});
  std::copy(mine.begin(), mine.end(), t.mutable_data<i64>());
  comm_.control().broadcast(t, 0, Frame{});
  const i64* const from = t.data<i64>();
  order_.assign(from, from + mine.size());
}

}  // namespace wt::dist::detail
