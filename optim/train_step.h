// A whole training step as a transaction.
//
//   TrainStep step{net, opt, {.clip_norm = 1.0, .schedule = optim::warmup(500, optim::cosine(N))}};
//   for (const auto& batch : loader)
//     step(batch, [&](const data::Batch& b) { return cross_entropy(net(b.x), b.y); });
//
// A step either happens or leaves parameters, registered buffers, optimizer state and random state
// as they were: when it throws at any point (out of memory, a bad label), and when it skips (a loss
// or gradient that is not finite, an error of another rank). One device flag guards every write, so
// the host need not know. The next step works.
//
// On a device with a queue (cuda, simt with WT_SIMT_STREAMS=lazy) the host hears of a skipped step
// when it reads a StepResult or waits: what was skipped counts as attempted then, steps after it
// skip until the host has heard, and of the host's random state only dropout's is taken back
// (sync_random()).
//
// With graph = true a step is one graph. The first one runs eagerly, the second one too with the
// graph's memory, the third one is captured (core/graph.h): snapshots of buffers, forward,
// backward, norm, decision, update, counts. It and all later ones are a replay: the batch is copied
// into the graph's own tensors, one launch follows, and nothing comes back. loss_of is called in a
// capture for the last time: what it computes on the host stays as it was. Rates, counts, the
// schedule and dropout's calls lie on the device and go on.
//
// A captured step is one on a device with a queue, simt's too: the host hears of a skipped step
// when it reads a StepResult. A batch of another shape, another loss_of (its type), another mode of
// a module or of the thread (train(), autocast, variants) is captured anew, up to
// TrainStepOptions::graph_shapes; one more throws UsageError. Parameters that moved, or a new seed,
// replace the graphs. What a graph cannot hold (item(), rand(), a copy from the host in loss_of)
// makes such steps run eagerly from then on; one warning names operator and line.
#pragma once
#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "warptape/autograd/autocast.h"
#include "warptape/core/batch.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/owned.h"
#include "warptape/core/random.h"
#include "warptape/kernels/step_record.h"
#include "warptape/optim/grad_scaler.h"
#include "warptape/optim/gradient_exponents.h"
#include "warptape/optim/optimizer.h"
#include "warptape/optim/overflow_watch.h"
#include "warptape/optim/reducer.h"

namespace wt {

// nn::Loss, or anything of the kind: a sum over items and the weight (their number, say) that
// divides it; the weight is a number or a 0-d tensor.
template <class L>
concept LossLike = requires(const L& l) {
  { l.sum } -> std::convertible_to<const Tensor&>;
  l.weight;
};

// How a step computes, what it does with losses and gradients that are not finite, and who else
// takes part.
struct TrainStepOptions {
  // f16, bf16: the forward runs under AutocastScope, on 16-bit copies of the f32 parameters that
  // every update writes beside them; parameters, gradients, losses and the optimizer's state stay
  // f32. f16 is scaled (loss_scale below). f32: as the model is.
  DType precision = DType::f32;
  i64 micro_batches = 1;       // at most the batch's size; their losses and gradients add up
  double clip_norm = 0;        // of the mean loss's gradient; 0: no clipping
  optim::Schedule schedule{};  // given to the optimizer
  // Capture the step as one graph and replay it, as said above. Eager on the cpu.
  bool graph = false;
  // A loss or gradient that is not finite. stop: throw NumericError, nothing changed; skip: the
  // step changes nothing but `attempted`; ignore: step anyway. With f16 a step is skipped and the
  // scale lowered as long as that can help; `stop` throws at loss_scale.min_scale, `skip` never
  // does, ignore is refused. Losses whose weights add up to 0 (a batch of padding) are not finite
  // either; they lower no scale.
  NonFinite on_nonfinite = NonFinite::stop;
  // Called before that NumericError, where the host knows at once (no queue): gradients are those
  // of the refused step, which has not been rolled back yet.
  std::function<void(const StepRecord&)> before_stop = {};
  optim::Reducer* reducer = nullptr;      // other ranks; not owned
  double ema_decay = 0;                   // above 0: opt.track_ema(ema_decay)
  i64 graph_shapes = 8;                   // batches of so many shapes get a graph each
  optim::GradScalerOptions loss_scale{};  // of precision f16
  bool ema_copy_first = false;            // EmaOptions::copy_first, with ema_decay
};

// How far the gradients of micro-batches are from those of the whole batch.
struct GradientAgreement {
  double difference = 0;            // |parts - whole| / |whole|, 2-norms over all parameters
  std::string parameter{};          // the one that differs most
  double parameter_difference = 0;  // the same of that one
  bool agrees = false;              // no more than roundings of the step's precision explain
};

// What a step did. Reading waits for the device, once, and throws what the device found meanwhile
// (IndexError, NumericError). Records are kept for kStepRing steps; an older one throws UsageError.
class WT_API StepResult {
 public:
  StepResult() = default;
  // Of step number `attempt`, whose record is in `block`, a TrainStep's memory.
  StepResult(Tensor block, i64 attempt) : block_(std::move(block)), attempt_(attempt) {}
  // The number of this step, from 0; known at once. -1: no step was made.
  i64 attempt() const { return attempt_; }
  // The mean loss of the batch: sum of losses / sum of weights.
  double loss() const { return read().loss; }
  // The 2-norm of the mean loss's gradient before clipping; NaN: it was not computed.
  double grad_norm() const { return read().grad_norm; }
  // The rate that the step used, of group 0.
  double lr() const { return read().lr; }
  // How many steps had been applied after this one.
  i64 applied() const { return read().applied; }
  // Whether it changed nothing but the attempted count.
  bool skipped() const { return read().skipped != 0; }
  // What the loss was multiplied by; 1: there is no loss scale.
  double scale() const { return read().scale; }
  // All of this at once. Throws UsageError without a step, PlacementError on the meta device.
  StepRecord read() const;

 private:
  Tensor block_;
  i64 attempt_ = -1;
};

// One training step as a transaction: forward, backward, clipping, update and counts happen, or
// nothing does but the attempted count.
class WT_API TrainStep {
 public:
  // Keeps references to `opt` and to the module's state. Throws UsageError for options out of
  // range; with a graph NotAvailable for gradients in parts (zero = 2), and what the reducer's
  // require_capture() throws.
  TrainStep(const nn::ModuleBase& net, optim::Optimizer& opt, TrainStepOptions options = {});
  ~TrainStep();
  TrainStep(const TrainStep&) = delete;
  TrainStep& operator=(const TrainStep&) = delete;

  // One step: loss_of(part) for each micro-batch, backward, update. A batch is a data::Batch, a
  // Tensor or std::array<Tensor, N> with samples along the first axis, or any copyable type with
  // size() (samples), narrow(begin, n) (a batch of some of them) and tensors() (a Tensor* of each,
  // through which it is moved to the model's device): core/batch.h. Gradients are afterwards those
  // of the sum of the losses (the update divides by the weight). A loss_of that returns a plain
  // Tensor is the loss of the whole batch: with several micro-batches it throws UsageError (wrap it
  // as nn::Loss{t, weight}). Throws UsageError for an empty batch and a loss that is not one
  // element, and whatever the step threw, everything being as before.
  template <class Batch, class F>
  StepResult operator()(const Batch& batch, F&& loss_of, Frame at = Frame::here()) {
    check_batch_type<Batch>();
    const FrameScope frame(at);
    const i64 size = or_give_up([&] { return detail::batch_size(batch); });
    if (captured_) return captured_step(batch, size, loss_of);
    begin(size);
    try {
      run_parts(batch, loss_of);
      return finish();
    } catch (const OutOfMemory& e) {
      abandon();
      throw told_of_step(e);
    } catch (...) {
      abandon();
      throw;
    }
  }

  // Whether micro-batches add up: the gradients of this batch cut into micro_batches against those
  // of the whole, without a step; nothing has changed afterwards. They differ where a loss gives a
  // weight that is not what its sum is divided by, and where a sample's loss depends on its
  // neighbours (batch statistics) or on its place (dropout): call net.eval() to leave these out.
  // Waits for the device. Throws UsageError for micro_batches of 1, NotAvailable for gradients in
  // parts. Of several ranks all call it together, and each compares its own part of the batch.
  template <class Batch, class F>
  GradientAgreement verify(const Batch& batch, F&& loss_of, Frame at = Frame::here()) {
    check_batch_type<Batch>();
    const FrameScope frame(at);
    begin_verify(detail::batch_size(batch));
    try {
      const i64 parts = parts_;
      parts_ = 1;
      run_parts(batch, loss_of);
      keep_gradients();
      parts_ = parts;
      run_parts(batch, loss_of);
      const GradientAgreement found = compare_gradients();
      roll_back();
      return found;
    } catch (...) {
      roll_back();
      throw;
    }
  }

  // Where a step that was skipped met inf or NaN first: makes it once more, with checks behind
  // every module and every gradient, and takes everything back. `scale` is what the step had
  // (StepResult::scale()); 0: the present one. Random state should be as before that step. Waits
  // for the device. Modules that return something other than a Tensor are not looked at. Throws
  // NotAvailable for gradients in parts. Of several ranks all call it together, and each looks at
  // its own part of the batch.
  template <class Batch, class F>
  OverflowReport explain(const Batch& batch, F&& loss_of, double scale = 0,
                         Frame at = Frame::here()) {
    check_batch_type<Batch>();
    const FrameScope frame(at);
    check_whole_gradients("explain");
    begin_alone(detail::batch_size(batch));
    const ScaleScope scaled(*this, scale);
    optim::detail::OverflowWatch watch(net_module_);
    try {
      const AnomalyMode anomaly;
      run_parts(batch, loss_of);
      watch.look_at_gradients(opt_.parameters());
    } catch (const NumericError& e) {
      watch.backward(e);
    } catch (...) {
      roll_back();
      throw;
    }
    roll_back();
    OverflowReport found = watch.report();
    found.scale = scaled.scale;
    return found;
  }

  // Binary exponents of the last step's gradients (of the mean loss, before clipping), a row a
  // parameter, whether it was skipped or not: what f16 loses of them without the loss scale and
  // with it. One kernel an arena when it is asked for; steps pay nothing. Waits for the device.
  // Throws UsageError where there are no gradients: before the first step, after one that threw,
  // after verify() and explain(); NotAvailable for an optimizer whose state is in parts.
  GradientExponents gradient_exponents(Frame at = Frame::here());

  // All steps of the optimizer so far, those that were skipped too; known at once.
  i64 attempted() const { return opt_.attempted(); }
  // The steps of the optimizer that changed parameters; waits for the device.
  i64 applied() const { return opt_.applied(); }
  // Makes the generator what the device says: a skip that the host has not seen took its dropout
  // calls back. Waits for the device; call it before saving random state.
  void sync_random();
  // The loss's scaler: its state belongs into a checkpoint. Throws UsageError unless precision is
  // f16.
  optim::GradScaler& scaler();

  // Whether TrainStepOptions::graph was set.
  bool graph() const { return bool(captured_); }
  // How many graphs are replayed, one a kind of batch; 0 without TrainStepOptions::graph.
  i64 captures() const;
  // Why steps run eagerly although a graph was wanted, naming operator and line; empty if none
  // does.
  const std::string& why_eager() const;

 private:
  struct Snapshot;
  struct Snapshots;
  struct Gradients;  // of the mean loss
  struct CapturedSteps;
  struct CapturedEntry;

  template <class Batch, class F>
  StepResult captured_step(const Batch& batch, i64 size, F& loss_of) {
    static char kind;  // its address stands for the types
    Batch placed = batch;
    std::vector<Tensor*> tensors;
    detail::for_each_tensor(placed, [&](Tensor& t) { tensors.push_back(&t); });
    return run_captured(tensors, size, &kind, [&] { run_parts(placed, loss_of); });
  }
  // captured_step.cpp. `tensors` are those of the batch that `forward` reads: they are put on the
  // device, in the graph's own memory where there is one.
  StepResult run_captured(const std::vector<Tensor*>& tensors, i64 size, const void* kind,
                          const std::function<void()>& forward);
  StepResult run_in_phase(const std::vector<Tensor*>& tensors, i64 size, const void* kind,
                          const std::function<void()>& forward);
  StepResult run_eagerly(const std::vector<Tensor*>& tensors, i64 size,
                         const std::function<void()>& forward);
  bool still_stands(const CapturedEntry& e);
  void place_batch(const std::vector<Tensor*>& tensors, CapturedEntry& e);
  bool capture(CapturedEntry& e, i64 size, const std::function<void()>& forward);
  void check_buffers(CapturedEntry& e);
  void agree_on_capture(CapturedEntry& e);
  void replay_with_others(CapturedEntry& e);
  StepResult replay(CapturedEntry& e);

  void begin(i64 batch_size);        // a step
  void begin_alone(i64 batch_size);  // what sums nothing over ranks
  void begin_verify(i64 batch_size);
  void check_whole_gradients(const char* caller) const;
  Gradients take_gradients();
  void keep_gradients();
  GradientAgreement compare_gradients();  // with those that were kept
  template <class Batch, class F>
  void run_parts(const Batch& batch, F& loss_of) {
    const i64 size = detail::batch_size(batch);
    for (i64 i = 0; i < parts_; ++i) {
      const i64 from = size * i / parts_, to = size * (i + 1) / parts_;
      Batch part = parts_ == 1 ? batch : detail::narrow_batch(batch, from, to - from);
      detail::for_each_tensor(part, [&](Tensor& t) { move_to_device(t); });
      accept(in_precision([&] { return call_users(loss_of, std::as_const(part)); }), i);
    }
  }
  void add(Tensor sum, const Tensor& weight, double weight_value, i64 part);
  StepResult finish();
  void roll_back() noexcept;
  void abandon() noexcept;
  void give_up() const noexcept;
  // What throws before a step has begun. Other ranks may be in theirs already.
  template <class F>
  auto or_give_up(F f) const {
    try {
      return f();
    } catch (...) {
      give_up();
      throw;
    }
  }
  OutOfMemory told_of_step(const OutOfMemory& e) const;
  void prepare_memory();
  void take_snapshots();
  void enter_random();
  void leave_random(i64 dropout_calls, bool skipped);
  void restore_where_skipped();
  void restore_snapshots() noexcept;
  StepFlags skip_flag() const;
  void reduce_gradients();
  void report_found(i32 found);
  void move_to_device(Tensor& t) const;

  // Not a constraint: it would only say that no operator() fits.
  template <class B>
  static constexpr void check_batch_type() {
    static_assert(std::copyable<B>, "TrainStep: a batch is copied before it is cut and moved");
    static_assert(detail::TellsTensors<B>,
                  "TrainStep: the batch needs tensors(), a range of Tensor*, through which it is "
                  "moved to the model's device (core/batch.h shows it)");
    static_assert(detail::TellsSize<B>, "TrainStep: the batch needs size(), its samples");
    static_assert(detail::Narrows<B>,
                  "TrainStep: the batch needs narrow(begin, n), some of its samples, for "
                  "micro-batches");
  }
  // What the callback computes bears its own lines, not the step's: errors, leaks and profiles are
  // about them.
  template <class F, class B>
  static auto call_users(F& loss_of, const B& part) {
    struct OwnLines {
      const FrameId before = std::exchange(mode.frame, 0);
      ~OwnLines() { mode.frame = before; }
    } own_lines;
    return loss_of(part);
  }
  template <class L>
  void accept(L&& loss, i64 part) {
    if constexpr (LossLike<L>) {
      if constexpr (std::convertible_to<decltype(loss.weight), double>)
        add(std::forward<L>(loss).sum, Tensor(), double(loss.weight), part);
      else
        add(std::forward<L>(loss).sum, loss.weight, 0, part);
    } else {
      check_plain_tensor();
      add(Tensor(std::forward<L>(loss)), Tensor(), 1, part);
    }
  }
  void check_plain_tensor() const;
  // f() as the forward runs: under autocast, or where f16 is refused because nothing scales it.
  template <class F>
  auto in_precision(F f) const {
    const UnscaledScope unscaled(!scaler_);
    if (options_.precision == DType::f32) return f();
    const AutocastScope autocast(options_.precision);
    return f();
  }
  struct WT_GUARD UnscaledScope {
    explicit UnscaledScope(bool on) : before(mode.unscaled_step) { mode.unscaled_step = on; }
    ~UnscaledScope() { mode.unscaled_step = before; }
    const bool before;
  };
  void backward(const Tensor& sum, i64 part);
  void seed_loss();
  LossScale* scaler_block() const { return scaler_ ? scaler_->on_device(opt_.device()) : nullptr; }

  // Another loss scale for the scope, if there is one at all.
  struct WT_GUARD ScaleScope {
    ScaleScope(TrainStep& step, double scale);
    ~ScaleScope();
    TrainStep& step;
    double scale = 1, before = 0;
  };

  Owned<optim::GradScaler> scaler_;  // of f16
  nn::ModuleBase net_module_;
  std::shared_ptr<nn::detail::ModuleState> net_;
  optim::Optimizer& opt_;
  TrainStepOptions options_;
  Tensor block_;  // a StepBlock on the model's device, as bytes
  Owned<Snapshots> snapshots_;
  Owned<Gradients> kept_;
  Generator* generator_ = nullptr;
  Generator generator_before_;
  Tensor call_base_;          // StepBlock::call_base
  Generator generator_left_;  // as the last step left it
  bool base_known_ = false;   // the device's count goes with generator_left_
  i64 parts_ = 1, samples_ = 0;
  bool reduces_ = false;           // a step with a reducer, whose last call has not returned
  Owned<CapturedSteps> captured_;  // graph = true
};

}  // namespace wt
