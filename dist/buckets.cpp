#include "warptape/dist/buckets.h"

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

// From the end of each arena: gradients of what was registered last come first.
void Buckets::cut(const Arenas& arenas) {
  i64 limit = options_.first_bytes;
  for (size_t k = 0; k < arenas.all().size(); ++k) {
    const Arena& a = arenas.all()[k];
    const size_t first_seat = seats_.size();
    seats_.resize(first_seat + a.slots.size());
    for (size_t end = a.slots.size(); end > 0;) {
      size_t begin = end;
      i64 bytes = 0;
      while (begin > 0) {
        const i64 more = a.slots[begin - 1].padded * item_size(a.dtype);
        if (begin < end && bytes + more > limit) break;
        bytes += more;
        --begin;
      }
      Bucket b{.arena = k,
               .first_slot = begin,
               .n_slots = end - begin,
               .begin = 0,
               .count = 0,
               .grad = {}};
      b.begin = a.slots[begin].offset;
      b.count = bytes / item_size(a.dtype);
      order_.push_back(buckets_.size());
      for (size_t s = begin; s < end; ++s)
        seats_[first_seat + s] = {.owner = this, .bucket = buckets_.size(), .slot = s};
      buckets_.push_back(std::move(b));
      limit = options_.bytes;
      end = begin;
    }
  }
}

// In ranges of equal size, from the end, wherever parameters begin in them.
void Buckets::cut_shards(const Arenas& arenas) {
  for (size_t k = 0; k < arenas.all().size(); ++k) {
    const Arena& a = arenas.all()[k];
    const size_t first_seat = seats_.size();
    for (size_t s = 0; s < a.slots.size(); ++s)
      seats_.push_back({.owner = this, .bucket = 0, .n_buckets = 0, .slot = s});
    const std::vector<ZeroShards::Piece> ranges = options_.shards->buckets(a.elements);
    for (auto r = ranges.rbegin(); r != ranges.rend(); ++r) {
      Bucket b{.arena = k,
               .first_slot = 0,
               .n_slots = 0,
               .begin = r->begin,
               .count = r->count,
               .grad = {}};
      for (size_t s = 0; s < a.slots.size(); ++s) {
        const Slot& slot = a.slots[s];
        if (slot.offset + slot.padded <= b.begin || slot.offset >= b.begin + b.count) continue;
        if (b.n_slots++ == 0) b.first_slot = s;
        Seat& seat = seats_[first_seat + s];
        if (seat.n_buckets++ == 0) seat.bucket = buckets_.size();
      }
      order_.push_back(buckets_.size());
      buckets_.push_back(std::move(b));
    }
  }
}

void Buckets::make_views() {
  for (Bucket& b : buckets_) {
    const Arena& a = arenas_->all()[b.arena];
    Geometry g{};
    set_contiguous(g, &b.count, 1, a.dtype);
    b.grad = optim::detail::tensor_over(a.grad.get(), b.begin * item_size(a.dtype), g);
    b.half = b.piece = Tensor();
    b.work = Work();
    if (!options_.shards) continue;
    const i64 piece = b.count / comm_.size();
    b.piece = range_of(b.grad, {piece * comm_.rank(), piece});
  }
}

void Buckets::follow(const Arenas& arenas) {
  if (buckets_.empty()) options_.shards ? cut_shards(arenas) : cut(arenas);
  if (arenas_ != &arenas || generation_ != arenas.generation()) {
    arenas_ = &arenas;
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
  l->ready_context = &seat;
}

void Buckets::let_go() noexcept {
  if (!arenas_) return;
  size_t i = 0;
  for (const Arena& a : arenas_->all())
    for (const Slot& s : a.slots) {
      Leaf* const l = leaf_of(s.entry.tensor.impl());
      if (l && l->ready_context == &seats_[i]) l->ready = nullptr, l->ready_context = nullptr;
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

void Buckets::arm(ReduceOp op) {
  for (Bucket& b : buckets_) {
    b.arrived = 0;
    b.begun = b.elsewhere = false;
    b.work = Work();
  }
  for (Seat& s : seats_) s.arrived = false;
  complete_.clear();
  next_ = 0;
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
  const std::span mine(&buckets_[seat.bucket], seat.n_buckets);
  for (const Bucket& b : mine)
    if (b.begun)
      throw UsageError(str("[DataParallel] a gradient of ",
                           arenas_->all()[b.arena].slots[seat.slot].entry.name,
                           " came after the sum over all ranks had begun: one backward() reached "
                           "it twice",
                           at_line(), "\n  Try no_sync() for all backwards but the last"));
  if (!l->written || seat.arrived) return;
  seat.arrived = true;
  for (Bucket& b : mine) {
    if (b.arrived++ == 0)
      b.stream = mode.stream;
    else
      b.elsewhere |= b.stream != mode.stream;
    if (b.arrived == b.n_slots) complete_.push_back(size_t(&b - buckets_.data()));
  }
  begin_complete();
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
  const i64 piece = t.numel() / comm_.size();
  return comm_.start_reduce_scatter(range_of(t, {piece * comm_.rank(), piece}), t, op_, Frame{});
}

void Buckets::begin(Bucket& b) {
  b.begun = true;
  if (comm_.size() == 1) return;
  const NoGrad no_grad;
  if (is_half(options_.compress) && b.grad.dtype() == DType::f32) {
    const CategoryScope scope(Category::gradient);
    if (!b.half.defined())
      b.half = empty({b.count}, {.dtype = options_.compress, .device = b.grad.device()}, Frame{});
    const double factor = compress_factor();
    if (factor != 1) b.grad.mul_(1 / factor, Frame{});
    b.half.copy_(b.grad, Frame{});
    b.work = reduce(b.half);
  } else {
    b.work = reduce(b.grad);
  }
}

void Buckets::finish(Bucket& b) {
  b.work.wait();
  b.work = Work();
  if (!b.half.defined()) return;
  Tensor to = b.piece.defined() ? b.piece : b.grad;
  const i64 n = to.numel();
  to.copy_(b.piece.defined() ? range_of(b.half, {n * comm_.rank(), n}) : b.half, Frame{});
  const double factor = compress_factor();
  if (factor != 1) to.mul_(factor, Frame{});
}

void Buckets::wait() {
  const NoGrad no_grad;
  if (comm_.size() > 1)
    for (const size_t k : order_) finish(buckets_[k]);
  disarm();
  for (const Bucket& b : buckets_) {
    const Arena& a = arenas_->all()[b.arena];
    for (size_t s = b.first_slot; s < b.first_slot + b.n_slots; ++s)
      a.slots[s].grad.impl()->cell->wrote(mode.frame);
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
