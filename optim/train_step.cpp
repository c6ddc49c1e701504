#include "warptape/optim/train_step.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/graph/graph_capture.h"
#include "warptape/core/mailbox.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/stream.h"
#include "warptape/kernels/copy.h"
#include "warptape/kernels/grad_norm.h"
#include "warptape/kernels/loss_scale.h"
#include "warptape/kernels/run.h"
#include "warptape/nn/module_state.h"
#include "warptape/optim/arena.h"
#include "warptape/optim/captured_step.h"

namespace wt {

namespace info {
constexpr OpInfo train_step{.name = "train_step", .derivative = Derivative::none};
}

namespace {

Launch launch_on(Device d) { return {&info::train_step, mode.native_stream, nullptr, d}; }
// Null on meta.
StepBlock* step_block(const Tensor& block) { return static_cast<StepBlock*>(block.impl()->data); }
template <class T>
T* field(const Tensor& block, size_t at) {
  char* const begin = static_cast<char*>(block.impl()->data);
  return begin ? reinterpret_cast<T*>(begin + at) : nullptr;
}
// The host knows what a kernel did as soon as it is launched.
bool is_synchronous(Device d) { return stream_backend(d) == nullptr && !detail::recording_graph(); }

template <class T>
T read_field(const Tensor& block, size_t at) {
  T v;
  copy_bytes(&v, Device::cpu(), field<T>(block, at), block.device(), sizeof v);
  return v;
}
void lower_stop(const Tensor& block) {
  fill_zero(field<i32>(block, offsetof(StepBlock, stop)), block.device(), sizeof(i32));
}

[[noreturn]] void throw_non_finite(i32 found, const std::string& parameter, bool scaled) {
  if (found & kFoundNoWeight)
    throw NumericError(
        "[TrainStep] the weights of the batch's losses add up to 0: it has no item that counts, "
        "and "
        "a mean of none is 0 / 0\n  The step changed nothing\n  Try leaving out batches whose "
        "labels "
        "are all ignored, or on_nonfinite = skip");
  throw NumericError(
      str("[TrainStep] the ", found & kFoundBadLoss ? "loss" : "gradient", " is not finite",
          scaled ? ", and the loss scale is at its smallest already" : "",
          parameter.empty() ? "" : "\n  first in the gradient of " + parameter,
          "\n  The step changed nothing\n  Try ", scaled ? "bf16, which has f32's range, " : "",
          "a lower learning rate, or AnomalyMode to "
          "find the line"));
}

template <class F>
void for_each_buffer(const nn::detail::ModuleState& m, const F& f) {
  for (const auto& slot : m.slots)
    if (slot->is_buffer && slot->tensor.defined()) f(slot);
  for (const auto& child : m.children) for_each_buffer(*child.second, f);
}

}  // namespace

// --- results ---

StepRecord StepResult::read() const {
  if (!block_.defined()) throw UsageError("[StepResult] no step was made");
  if (block_.device().is_meta)
    throw PlacementError("[StepResult] a step on the meta device has no values");
  wt::detail::before_wait("StepResult", block_.device());
  const SyncGuard counted(OnSync::allow);
  // All of it at once, the mailbox's flag as the newest step saw it included: each copy is a round
  // trip.
  const auto block = read_field<StepBlock>(block_, 0);
  const StepRecord& r = block.ring[attempt_ % kStepRing];
  if (block.bad_index || is_synchronous(block_.device())) check_mailbox(block_.device());
  if (block.stop) {
    lower_stop(block_);
    throw_non_finite(block.stop, "", block.seed != 0);  // `found` is the newest step's
  }
  if (r.attempt != attempt_)
    throw UsageError(str("[StepResult] step ", attempt_, " was read after ", kStepRing,
                         " more: its record is gone"));
  return r;
}

// --- the step ---

TrainStep::TrainStep(const nn::ModuleBase& net, optim::Optimizer& opt, TrainStepOptions options)
    : net_module_(net),
      net_(net.state()),
      opt_(opt),
      options_(std::move(options)),
      snapshots_(std::make_unique<Snapshots>()) {
  if (options_.precision != DType::f32 && !is_half(options_.precision))
    throw UsageError(str("[TrainStep] precision must be f32, f16 or bf16, got ",
                         dtype_name(options_.precision)));
  if (options_.precision == DType::f16) {
    if (options_.on_nonfinite == NonFinite::ignore)
      throw UsageError(
          "[TrainStep] on_nonfinite = ignore with precision f16: a gradient that the scale made "
          "inf would be applied; use skip or stop");
    scaler_ = std::make_unique<optim::GradScaler>(options_.loss_scale);
  }
  if (options_.graph) captured_ = std::make_unique<CapturedSteps>(options_);
  if (options_.graph && opt_.arenas().parts_gradients())
    throw NotAvailable(
        "[TrainStep] graph = true with gradients in parts, which have memory within a backward "
        "alone\n  Try zero = 1");
  if (options_.micro_batches < 1)
    throw UsageError(
        str("[TrainStep] micro_batches must be at least 1, got ", options_.micro_batches));
  if (!(options_.clip_norm >= 0))
    throw UsageError(str("[TrainStep] clip_norm must be at least 0, got ", options_.clip_norm));
  if (!(options_.ema_decay >= 0 && options_.ema_decay < 1))
    throw UsageError(str("[TrainStep] ema_decay must be in [0, 1), got ", options_.ema_decay));
  if (options_.schedule) opt_.set_schedule(options_.schedule);
  if (options_.ema_decay > 0)
    opt_.track_ema({.decay = options_.ema_decay, .copy_first = options_.ema_copy_first});
  prepare_memory();
}

TrainStep::~TrainStep() = default;

void TrainStep::prepare_memory() {
  opt_.prepare();
  if (is_half(options_.precision)) opt_.keep_half(options_.precision);
  scaler_block();  // on the parameters' device from here on
  const Device d = opt_.device();
  if (block_.defined() && block_.device() == d) return;
  const CategoryScope scope(Category::optimizer);
  Tensor block = zeros({i64(sizeof(StepBlock))}, {.dtype = DType::u8, .device = d});
  block_ = std::move(block);
  call_base_ = optim::detail::scalar_over(block_.impl()->storage,
                                          i64(offsetof(StepBlock, call_base)), DType::i64);
  base_known_ = false;
}

void TrainStep::begin(i64 batch_size) {
  or_give_up([&] { begin_alone(batch_size); });
  reduces_ = options_.reducer != nullptr;
}

void TrainStep::begin_alone(i64 batch_size) {
  reduces_ = false;
  if (batch_size < 1) throw UsageError("[TrainStep] the batch is empty");
  parts_ = std::min(options_.micro_batches, batch_size);
  samples_ = batch_size;
  opt_.arenas().zero_grad();
  prepare_memory();
  // What an earlier operator left there is not this step's failure.
  if (is_synchronous(opt_.device())) check_mailbox(opt_.device());
  take_snapshots();
  enter_random();
}

// --- whether micro-batches add up ---

void TrainStep::begin_verify(i64 batch_size) {
  if (options_.micro_batches < 2)
    throw UsageError(
        "[TrainStep] verify() compares micro-batches with the whole batch: "
        "micro_batches is 1");
  check_whole_gradients("verify");
  begin_alone(batch_size);
}

// Of what makes backwards of this rank alone.
void TrainStep::check_whole_gradients(const char* caller) const {
  if (opt_.arenas().parts_gradients())
    throw NotAvailable(str("[TrainStep] ", caller, "() makes a backward of this rank alone, and ",
                           "gradients are kept in parts of all ranks' sums\n  Try zero = 1"));
}

struct TrainStep::Gradients {
  std::vector<std::vector<double>> list{};  // a parameter each
};

// The gradients that are there, divided as an update would; then everything is as it was when the
// verification began.
TrainStep::Gradients TrainStep::take_gradients() {
  const auto block = read_field<StepBlock>(block_, 0);
  check_mailbox(opt_.device());
  const double factor = 1 / (block.weight * (scaler_ ? block.seed : 1));
  Gradients all;
  for (const nn::NamedTensor& p : opt_.parameters()) {
    all.list.emplace_back();
    if (const Tensor g = p.tensor.grad(); g.defined()) all.list.back() = g.to_vector<double>();
    for (double& v : all.list.back()) v *= factor;
  }
  restore_snapshots();
  *generator_ = generator_before_;
  enter_random();
  opt_.arenas().zero_grad();
  return all;
}

void TrainStep::keep_gradients() { kept_.reset(new Gradients(take_gradients())); }

GradientAgreement TrainStep::compare_gradients() {
  const std::vector<std::vector<double>> parts = take_gradients().list,
                                         whole = std::move(kept_->list);
  kept_.reset();
  // A wrong weight is off by several per cent; sums in another order by far less than these.
  const DType t = options_.precision;
  const double bound = t == DType::bf16 ? 0.1 : t == DType::f16 ? 0.02 : 1e-4;
  const std::vector<nn::NamedTensor> names = opt_.parameters();
  GradientAgreement found;
  double difference = 0, norm = 0;
  for (size_t k = 0; k < whole.size(); ++k) {
    double d = 0, n = 0;
    const size_t size = std::max(whole[k].size(), parts[k].size());
    for (size_t i = 0; i < size; ++i) {
      const double a = whole[k].empty() ? 0 : whole[k][i], b = parts[k].empty() ? 0 : parts[k][i];
      d += (a - b) * (a - b);
      n += a * a;
    }
    difference += d;
    norm += n;
    const double relative = d == 0 ? 0 : std::sqrt(d / n);
    if (found.parameter.empty() || !(relative <= found.parameter_difference)) {
      found.parameter = names[k].name;
      found.parameter_difference = relative;
    }
  }
  found.difference = difference == 0 ? 0 : std::sqrt(difference / norm);
  found.agrees = found.difference <= bound;
  return found;
}

// --- random state ---

// Dropout inside the step counts its calls from a device scalar. The device's own count goes on
// where it was unless the host drew, or was seeded, in between.
void TrainStep::enter_random() {
  generator_ = &generator();
  generator_before_ = *generator_;
  if (!(base_known_ && generator_before_ == generator_left_)) {
    const i64 calls = i64(generator_before_.calls(RandomStream::dropout));
    copy_bytes(call_base_.impl()->data, block_.device(), &calls, Device::cpu(), sizeof calls);
  }
  generator_->enter_step(call_base_);
}

// After the step. What the host does not know yet counts as applied.
void TrainStep::leave_random(i64 dropout_calls, bool skipped) {
  if (skipped) {
    *generator_ = generator_before_;
  } else {
    generator_->enter_step({});
    generator_->set_calls(RandomStream::dropout,
                          generator_before_.calls(RandomStream::dropout) + u64(dropout_calls));
  }
  generator_left_ = *generator_;
  base_known_ = true;
  ++call_base_.impl()->cell->version;  // a graph of this step cannot be walked with the next base
}

void TrainStep::sync_random() {
  Generator& g = generator();
  if (!base_known_ || block_.device().is_meta || !(g == generator_left_)) return;
  g.set_calls(RandomStream::dropout, u64(read_field<i64>(block_, offsetof(StepBlock, call_base))));
  generator_left_ = g;
}

void TrainStep::take_snapshots() {
  size_t i = 0;
  for_each_buffer(*net_, [&](const std::shared_ptr<nn::detail::ParamSlot>& slot) {
    if (i == snapshots_->list.size()) snapshots_->list.emplace_back();
    Snapshot& s = snapshots_->list[i];
    ++i;
    if (s.slot == slot && s.is_current()) return;
    const Tensor& t = slot->tensor;
    if (t.device() != opt_.device() || !t.is_contiguous())
      throw UsageError(str("[TrainStep] buffer ", slot->name, " must be contiguous and on ",
                           to_string(opt_.device()), ": ", describe(t)));
    if (!s.copy.defined() || s.copy.impl()->key != t.impl()->key || s.copy.shape() != t.shape()) {
      const CategoryScope scope(Category::buffer);
      s.copy = Tensor();
      s.copy = Tensor(new_like(t.impl()));
    }
    s.slot = slot;
    s.tensor = t;
    run(CopyArgs{view_of(s.copy.impl()), view_of(t.impl())}, launch_on(opt_.device()));
    s.remember();
  });
  snapshots_->list.resize(i);
}

void TrainStep::move_to_device(Tensor& t) const {
  if (t.defined() && t.device() != opt_.device()) t = t.to(opt_.device());
}

void TrainStep::check_plain_tensor() const {
  if (parts_ > 1)
    throw UsageError(
        "[TrainStep] with several micro-batches the weight of each loss must be known, and this "
        "is a plain Tensor\n  Try returning Loss{t, weight}");
}

void TrainStep::add(Tensor sum, const Tensor& weight, double weight_value, i64 part) {
  const auto check = [&](const char* what, const Tensor& t) {
    if (!t.defined() || t.numel() != 1 || t.device() != opt_.device())
      throw UsageError(str("[TrainStep] the ", what, " of the loss must be one element on ",
                           to_string(opt_.device()), ", got ", describe(t)));
  };
  check("sum", sum);
  if (weight.defined()) check("weight", weight);
  const auto readable = [](const Tensor& t) {
    const NoGrad no_grad;
    const DType d = t.dtype();
    return d == DType::f32 || d == DType::f64 || d == DType::i64 ? t : t.to(DType::f64);
  };
  const Tensor s = readable(sum), w = weight.defined() ? readable(weight) : Tensor();
  run(LossAddArgs{.sum = s.impl()->data,
                  .sum_dtype = s.dtype(),
                  .weight = w.defined() ? w.impl()->data : nullptr,
                  .weight_dtype = w.defined() ? w.dtype() : DType::f64,
                  .weight_value = weight_value,
                  .step = step_block(block_),
                  .first = part == 0},
      launch_on(opt_.device()));
  backward(sum, part);
}

void TrainStep::backward(const Tensor& sum, i64 part) {
  if (options_.reducer) {
    if (reduces_ && part == 0) options_.reducer->begin_step(options_.micro_batches);
    options_.reducer->begin_backward(reduces_ && part == parts_ - 1);
  }
  if (!scaler_) return sum.backward({}, Frame{});
  if (part == 0) seed_loss();
  // A 16-bit seed would be the overflow that the scale is to find.
  const bool wide = sum.dtype() == DType::f32 || sum.dtype() == DType::f64;
  const Tensor root = wide ? sum : to_dtype(sum, DType::f32);
  const Tensor seed = root.dtype() == DType::f64
                          ? optim::detail::scalar_over(block_.impl()->storage,
                                                       offsetof(StepBlock, seed), DType::f64)
                          : optim::detail::scalar_over(block_.impl()->storage,
                                                       offsetof(StepBlock, seed_f32), DType::f32);
  detail::backward_scaled(root, seed.reshape(root.shape()), scaler_->id(), {}, Frame{});
}

// What the backward of every micro-batch, on every rank, begins with.
void TrainStep::seed_loss() {
  LossSeedArgs args{
      .step = step_block(block_), .scaler = scaler_block(), .parts = parts_, .samples = samples_};
  args.fix = options_.reducer == nullptr;
  run(args, launch_on(opt_.device()));
  if (!options_.reducer) return;
  const Tensor power = optim::detail::scalar_over(block_.impl()->storage,
                                                  offsetof(StepBlock, seed_power), DType::i32);
  // The version is the whole block's, and backward is about to read another part of it: the count
  // of calls that a dropout has saved.
  u32& version = power.impl()->cell->version;
  const u32 before = version;
  options_.reducer->max(power);
  version = before;
  args.propose = false, args.fix = true;
  run(args, launch_on(opt_.device()));
}

TrainStep::ScaleScope::ScaleScope(TrainStep& s, double wanted) : step(s) {
  if (!s.scaler_) return;
  before = s.scaler_->exchange_scale(wanted);
  scale = wanted > 0 ? wanted : before;
}
TrainStep::ScaleScope::~ScaleScope() {
  if (before > 0) step.scaler_->exchange_scale(before);
}

optim::GradScaler& TrainStep::scaler() {
  if (!scaler_)
    throw UsageError(str("[TrainStep] precision ", dtype_name(options_.precision),
                         " has no loss scale; f16 has one"));
  return *scaler_;
}

StepFlags TrainStep::skip_flag() const {
  return {{field<i32>(block_, offsetof(StepBlock, skip)), nullptr, nullptr}};
}

void TrainStep::reduce_gradients() {
  optim::detail::Arenas& arenas = opt_.arenas();
  arenas.zero_unwritten();
  std::vector<char> reached = arenas.written_slots();
  options_.reducer->any(reached);
  arenas.also_reached(reached);
  if (!options_.reducer->sum_gradients()) {
    for (const optim::detail::Arena& a : arenas.all())
      options_.reducer->sum(optim::detail::Arenas::flat(a, a.grad.get(), a.dtype));
  }
  options_.reducer->sum(optim::detail::flat_over(
      block_.impl()->storage, i64(offsetof(StepBlock, loss_sum)), 2, DType::f64));
}

StepResult TrainStep::finish() {
  const Device d = opt_.device();
  opt_.prepare();
  if (options_.reducer) {
    reduce_gradients();
    opt_.prepare();  // with what only other ranks have reached
  }
  const bool wants_norm = options_.clip_norm > 0 || options_.on_nonfinite != NonFinite::ignore;
  const i64 n = wants_norm ? opt_.add_norm() : 0;
  run(StepDecideArgs{.partials = wants_norm ? opt_.partials() : nullptr,
                     .count = n,
                     .max_norm = options_.clip_norm,
                     .norm = nullptr,
                     .factor = nullptr,
                     .step = step_block(block_),
                     .on_found = options_.on_nonfinite,
                     .mailbox = opt_.mailbox(),
                     .scaler = scaler_block()},
      launch_on(d));
  if (options_.reducer)
    options_.reducer->max(optim::detail::scalar_over(block_.impl()->storage,
                                                     i64(offsetof(StepBlock, skip)), DType::i32));
  reduces_ = false;
  bool skipped = false;
  if (is_synchronous(d) && !d.is_meta) {
    skipped = read_field<i32>(block_, offsetof(StepBlock, skip)) != 0;
    if (skipped) [[unlikely]] {
      check_mailbox(d);
      report_found(read_field<i32>(block_, offsetof(StepBlock, found)));
    }
  }
  const i64 dropout_calls = i64(generator_->calls(RandomStream::dropout));
  opt_.apply(field<double>(block_, offsetof(StepBlock, factor)), skip_flag(), step_block(block_),
             dropout_calls, scaler_block(), skipped);
  restore_where_skipped();
  if (skipped) restore_snapshots();  // identities too
  leave_random(dropout_calls, skipped);
  return StepResult(block_, opt_.attempted() - 1);
}

// Policy stop, where the host knows at once. Names the first bad gradient.
void TrainStep::report_found(i32 found) {
  // A scaled step stops at the smallest scale only.
  if (!found || !read_field<i32>(block_, offsetof(StepBlock, stop))) return;
  lower_stop(block_);
  if (options_.before_stop)
    options_.before_stop({.loss = read_field<double>(block_, offsetof(StepBlock, loss)),
                          .grad_norm = read_field<double>(block_, offsetof(StepBlock, grad_norm)),
                          .lr = opt_.rate(),
                          .attempt = opt_.attempted(),
                          .applied = opt_.applied(),
                          .skipped = 1,
                          .found = found,
                          .scale = scaler_ ? scaler_->get_scale() : 1});
  throw_non_finite(found, opt_.arenas().first_non_finite(), bool(scaler_));
}

// Enqueued on the device: buffers go back under the same flag that guards the parameters.
void TrainStep::restore_where_skipped() {
  for (Snapshot& s : snapshots_->list) {
    if (s.is_current()) continue;
    const Tensor& now = s.slot->tensor;
    if (!now.defined() || now.impl()->key != s.copy.impl()->key || now.shape() != s.copy.shape() ||
        !now.is_contiguous())
      continue;  // replaced by something else altogether
    const Geometry& g = now.impl()->geometry;
    run(StepRestoreArgs{now.impl()->data, s.copy.impl()->data, bytes_for(g.numel, g.dtype),
                        skip_flag()},
        launch_on(opt_.device()));
    now.impl()->cell->wrote(mode.frame);
  }
}

// By the host, identities included.
void TrainStep::restore_snapshots() noexcept {
  for (Snapshot& s : snapshots_->list) {
    if (s.is_current()) continue;
    s.slot->tensor = s.tensor;
    TensorImpl* p = s.tensor.impl();
    const Device d = device_of(p);
    if (!d.is_meta)
      copy_bytes(p->data, d, s.copy.impl()->data, d,
                 bytes_for(p->geometry.numel, p->geometry.dtype));
    p->cell->wrote(mode.frame);
    s.remember();
  }
}

void TrainStep::roll_back() noexcept {
  restore_snapshots();
  *generator_ = generator_before_;
  opt_.arenas().zero_grad();
  // Where the host is ahead it may hold the error of an earlier step, which nobody has heard of.
  if (is_synchronous(opt_.device())) clear_mailbox(opt_.device());
}

// As long as other ranks' step waits for this one's part of it, it cannot end there either.
void TrainStep::abandon() noexcept {
  if (std::exchange(reduces_, false)) give_up();
  roll_back();
}

void TrainStep::give_up() const noexcept {
  if (options_.reducer) options_.reducer->give_up();
}

// The error with what the step knows: which one it was, and what keeps its numbers.
OutOfMemory TrainStep::told_of_step(const OutOfMemory& e) const {
  std::string text = e.what() + std::strlen(e.kind()) + 2;
  constexpr const char* kEnd = "\n  Nothing was changed";
  const size_t end = text.find(kEnd);
  if (end == text.npos) return e;  // not of an allocation
  return OutOfMemory(str(
      text.substr(0, end), kEnd, ": parameters, buffers and optimizer state are as before step ",
      opt_.attempted() + 1, "\n  Try micro_batches = ", 2 * parts_,
      ", which computes the same from smaller parts of the batch, or checkpoint()"));
}

}  // namespace wt
