// Backwards of loops without TrainStep.
#include <cmath>

#include "warptape/autograd/ops.h"
#include "warptape/core/at_line.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/dist/data_parallel/data_parallel_state.h"
#include "warptape/dist/stage_step.h"

namespace wt::dist {

using optim::detail::Arena;
using optim::detail::Slot;

DataParallel::NoSync DataParallel::no_sync() { return NoSync(s_->no_sync); }

namespace {

// Gradients other than the zeros that fit anything.
bool has_gradients(const optim::Optimizer& opt) {
  for (const Arena& a : opt.arenas().all())
    for (const Slot& s : a.slots)
      if (const Leaf* l = leaf_of(s.entry.tensor.impl());
          l && l->written && l->scaler != kAnyScaler)
        return true;
  return false;
}

// Of all leaves, ever.
u64 backwards_of(const optim::Optimizer& opt) {
  u64 n = 0;
  for (const Arena& a : opt.arenas().all())
    for (const Slot& s : a.slots)
      if (const Leaf* l = leaf_of(s.entry.tensor.impl())) n += l->backwards;
  return n;
}

}  // namespace

// A window: the backwards since zero_grad() or the last step.
void DataParallel::State::open_window(Kind k) {
  opt.prepare();
  const bool kept = has_gradients(opt);
  if (!kept || opt.arenas().pending_backwards() == 0) {
    kind = Kind::none;
    summed = kept;
    weight = Tensor();
    rounds = 0;
  } else if (seen != backwards_of(opt)) {
    kind = Kind::mean;  // as a backward() of a mean loss
  }
  if (kind != Kind::none && kind != k)
    throw UsageError(
        str("[DataParallel] a Loss and a Tensor in one step, or a backward() of the loss itself: ",
            "what they are divided by differs", at_line(),
            "\n  Try ddp.backward() with a Loss for all backwards of a step"));
  if (summed && shards && !buckets.in_parts())
    throw UsageError(str("[DataParallel] gradients that are summed in this rank's pieces alone ",
                         "cannot be added to: zero = 1", at_line(),
                         "\n  Try zero_grad() before it, and no_sync() for all backwards of a step "
                         "but the last"));
  if (k == Kind::weighted && summed)
    throw UsageError(str("[DataParallel] a Loss cannot be added to gradients that are a mean over ",
                         "the ranks already", at_line(),
                         "\n  Try zero_grad() before it, and no_sync() for all backwards of a step "
                         "but the last"));
  kind = k;
}

template <class F>
void DataParallel::State::run_backward(DataParallel& self, Kind k, const Tensor& loss_weight,
                                       F&& backward) {
  open_window(k);
  const bool last = no_sync == 0;
  try {
    begin_backward(last, k == Kind::mean ? ReduceOp::mean : ReduceOp::sum);
    backward();
    if (!last && buckets.in_parts()) end_rounds();
    if (k == Kind::weighted) {
      const NoGrad no_grad;
      const Tensor w = loss_weight.to(DType::f64, Frame{});
      weight = weight.defined() ? weight + w : w.clone(Frame{});
    }
    if (last) finish_window(self);
    seen = backwards_of(opt);
  } catch (...) {
    if (last || buckets.in_parts()) self.give_up();
    throw;
  }
}

void DataParallel::State::finish_window(DataParallel& self) {
  optim::detail::Arenas& arenas = opt.arenas();
  arenas.zero_unwritten();
  std::vector<char> reached = arenas.written_slots();
  self.any(reached);
  arenas.also_reached(reached);
  self.sum_gradients();
  summed = true;
  if (kind != Kind::weighted) return;
  const NoGrad no_grad;
  self.sum(weight);
  buckets.follow(arenas);  // a single rank's have not yet
  buckets.for_each([&](Tensor& g) {
    const Tensor divisor = weight.to(g.dtype(), Frame{});
    g.copy_(g / divisor, Frame{});
  });
}

void DataParallel::backward(const Tensor& loss, Frame at) {
  const FrameScope frame(at);
  s_->run_backward(*this, State::Kind::mean, {}, [&] { loss.backward({}, Frame{}); });
}

void DataParallel::backward(const Loss& loss, Frame at) {
  const FrameScope frame(at);
  s_->run_backward(*this, State::Kind::weighted, loss.weight,
                   [&] { loss.sum.backward({}, Frame{}); });
}

void DataParallel::backward(const Tensor& loss, const optim::GradScaler& scaler, Frame at) {
  const FrameScope frame(at);
  s_->run_backward(*this, State::Kind::mean, {},
                   [&] { scaler.scale(loss, Frame{}).backward({}, Frame{}); });
}

void DataParallel::backward(const Loss& loss, const optim::GradScaler& scaler, Frame at) {
  const FrameScope frame(at);
  s_->run_backward(*this, State::Kind::weighted, loss.weight,
                   [&] { scaler.scale(loss.sum, Frame{}).backward({}, Frame{}); });
}

Loss DataParallel::reduce(const Loss& loss, Frame at) {
  const FrameScope frame(at);
  const NoGrad no_grad;
  State& s = *s_;
  s.opt.prepare();
  if (s.buckets.in_parts())
    throw NotAvailable(str("[DataParallel] reduce() takes gradients that are whole, and zero = 2 ",
                           "has none outside of its own backward()", at_line(),
                           "\n  Try zero = 1"));
  if (s.kind == State::Kind::outside && s.seen == backwards_of(s.opt))
    throw UsageError(
        str("[DataParallel] reduce() without a backward since the last one: the "
            "gradients are all ranks' already",
            at_line()));
  s.kind = State::Kind::outside;
  const Tensor bad = detail::mailbox_raised(s.opt).to(loss.sum.device(), Frame{});
  const auto number = [](const Tensor& t) { return reshape(t.to(DType::f64, Frame{}), {1}); };
  const Tensor all = cat({number(loss.sum), number(loss.weight), bad});
  try {
    s.begin_backward(true, ReduceOp::sum);
    s.finish_window(*this);
    sum(all);
  } catch (...) {
    give_up();
    throw;
  }
  s.seen = backwards_of(s.opt);
  const Tensor nan = full({}, std::nan(""), {.dtype = DType::f64, .device = all.device()});
  return Loss(where(gt(all[2], 0.0), nan, all[0]), all[1]);
}

}  // namespace wt::dist
