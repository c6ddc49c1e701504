#include "warptape/optim/train_step.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "warptape/core/copy_bytes.h"
#include "warptape/core/graph_capture.h"
#include "warptape/core/mailbox.h"
#include "warptape/core/stream.h"
#include "warptape/kernels/copy.h"
#include "warptape/kernels/run.h"
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

[[noreturn]] void throw_non_finite(i32 found, const std::string& parameter) {
  throw NumericError(
      str("[TrainStep] the ", found & kFoundBadLoss ? "loss" : "gradient", " is not finite",
          parameter.empty() ? "" : "\n  first in the gradient of " + parameter,
          "\n  The step changed nothing\n  Try a lower learning rate, or AnomalyMode to find the "
          "line"));
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
  const auto block = read_field<StepBlock>(block_, 0);  // at once: each copy is a round trip
  const StepRecord& r = block.ring[attempt_ % kStepRing];
  check_mailbox(block_.device());
  if (block.stop) {
    lower_stop(block_);
    throw_non_finite(block.stop, "");  // `found` is the newest step's
  }
  if (r.attempt != attempt_)
    throw UsageError(str("[StepResult] step ", attempt_, " was read after ", kStepRing,
                         " more: its record is gone"));
  return r;
}

// --- the step ---

TrainStep::TrainStep(const nn::ModuleBase& net, optim::Optimizer& opt, TrainStepOptions options)
    : net_(net.state()), opt_(opt), options_(std::move(options)) {
  if (options_.precision != DType::f32)
    throw NotAvailable(str("[TrainStep] precision ", dtype_name(options_.precision),
                           " needs loss scaling, which is not there yet: use f32"));
  if (options_.graph) captured_ = std::make_unique<CapturedSteps>(options_);
  if (options_.micro_batches < 1)
    throw UsageError(
        str("[TrainStep] micro_batches must be at least 1, got ", options_.micro_batches));
  if (!(options_.clip_norm >= 0))
    throw UsageError(str("[TrainStep] clip_norm must be at least 0, got ", options_.clip_norm));
  if (!(options_.ema_decay >= 0 && options_.ema_decay < 1))
    throw UsageError(str("[TrainStep] ema_decay must be in [0, 1), got ", options_.ema_decay));
  if (options_.schedule) opt_.set_schedule(options_.schedule);
  if (options_.ema_decay > 0) opt_.track_ema(options_.ema_decay);
  prepare_memory();
}

TrainStep::~TrainStep() = default;

void TrainStep::prepare_memory() {
  opt_.prepare();
  const Device d = opt_.device();
  if (block_.defined() && block_.device() == d) return;
  const CategoryScope scope(Category::optimizer);
  Tensor block = zeros({i64(sizeof(StepBlock))}, {.dtype = DType::u8, .device = d});
  block_ = std::move(block);
  call_base_ = optim::detail::scalar_over(block_.impl()->storage,
                                          i64(offsetof(StepBlock, call_base)), DType::i64);
  base_known_ = false;
}

i64 TrainStep::begin(i64 batch_size) {
  if (batch_size < 1) throw UsageError("[TrainStep] the batch is empty");
  parts_ = std::min(options_.micro_batches, batch_size);
  opt_.zero_grad();
  prepare_memory();
  // What an earlier operator left there is not this step's failure.
  if (is_synchronous(opt_.device())) check_mailbox(opt_.device());
  take_snapshots();
  enter_random();
  return parts_;
}

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
    if (i == snapshots_.size()) snapshots_.emplace_back();
    Snapshot& s = snapshots_[i];
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
  snapshots_.resize(i);
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
  sum.backward({}, Frame{});
}

StepFlags TrainStep::skip_flag() const {
  return {{field<i32>(block_, offsetof(StepBlock, skip)), nullptr, nullptr}};
}

void TrainStep::reduce_gradients() {
  optim::detail::Arenas& arenas = opt_.arenas();
  arenas.zero_unwritten();
  for (const optim::detail::Arena& a : arenas.all()) {
    Geometry g{};
    set_contiguous(g, &a.elements, 1, a.dtype);
    options_.reducer->sum(optim::detail::tensor_over(a.grad.get(), 0, g));
  }
  Geometry pair{};
  const i64 two = 2;
  set_contiguous(pair, &two, 1, DType::f64);
  options_.reducer->sum(
      optim::detail::tensor_over(block_.impl()->storage, i64(offsetof(StepBlock, loss_sum)), pair));
}

StepResult TrainStep::finish() {
  const Device d = opt_.device();
  opt_.prepare();
  if (options_.reducer) reduce_gradients();
  const bool wants_norm = options_.clip_norm > 0 || options_.on_nonfinite != NonFinite::ignore;
  const i64 n = wants_norm ? opt_.add_norm() : 0;
  run(StepDecideArgs{.partials = wants_norm ? opt_.partials() : nullptr,
                     .count = n,
                     .max_norm = options_.clip_norm,
                     .norm = nullptr,
                     .factor = nullptr,
                     .step = step_block(block_),
                     .on_found = options_.on_nonfinite,
                     .mailbox = opt_.mailbox()},
      launch_on(d));
  if (options_.reducer)
    options_.reducer->max(optim::detail::scalar_over(block_.impl()->storage,
                                                     i64(offsetof(StepBlock, skip)), DType::i32));
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
             dropout_calls);
  restore_where_skipped();
  if (skipped) restore_snapshots();  // identities too
  leave_random(dropout_calls, skipped);
  return StepResult(block_, opt_.attempted() - 1);
}

// Policy stop, where the host knows at once. Names the first bad gradient.
void TrainStep::report_found(i32 found) {
  if (!found || options_.on_nonfinite != NonFinite::stop) return;
  lower_stop(block_);
  if (options_.before_stop)
    options_.before_stop({.loss = read_field<double>(block_, offsetof(StepBlock, loss)),
                          .grad_norm = read_field<double>(block_, offsetof(StepBlock, grad_norm)),
                          .lr = opt_.rate(),
                          .attempt = opt_.attempted(),
                          .applied = opt_.applied(),
                          .skipped = 1,
                          .found = found});
  std::string name;
  for (const nn::NamedTensor& p : opt_.parameters()) {
    const Tensor g = p.tensor.grad();
    if (!g.defined() || !name.empty()) continue;
    const std::vector<double> values = g.to_vector<double>();
    if (!std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); }))
      name = p.name;
  }
  throw_non_finite(found, name);
}

// Enqueued on the device: buffers go back under the same flag that guards the parameters.
void TrainStep::restore_where_skipped() {
  for (Snapshot& s : snapshots_) {
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
  for (Snapshot& s : snapshots_) {
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
  opt_.zero_grad();
  // Where the host is ahead it may hold the error of an earlier step, which nobody has heard of.
  if (is_synchronous(opt_.device())) clear_mailbox(opt_.device());
}

}  // namespace wt
