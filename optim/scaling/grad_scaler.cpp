#include "warptape/optim/grad_scaler.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/at_line.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/stream.h"
#include "warptape/kernels/grad_norm.h"
#include "warptape/kernels/loss_scale.h"
#include "warptape/kernels/run.h"
#include "warptape/optim/arena.h"

namespace wt::optim {

namespace info {
constexpr OpInfo grad_scaler{.name = "grad_scaler", .derivative = Derivative::none};
}

namespace {

constinit std::atomic<u32> scaler_ids{0};

Launch launch_on(Device d) { return {&info::grad_scaler, mode.native_stream, nullptr, d}; }

// One check for options and loaded state.
void check(const LossScale& s) {
  const auto refuse = [](const char* name, const char* range, double v) {
    throw UsageError(str("[GradScaler] ", name, " must be ", range, ", got ", v, at_line()));
  };
  const auto positive = [](double v) { return v > 0 && std::isfinite(v); };
  if (!positive(s.min_scale)) refuse("min_scale", "above 0", s.min_scale);
  if (!(s.scale >= s.min_scale && s.scale <= wt::detail::kLargestScale))
    refuse("init_scale", "from min_scale to 2^127", s.scale);
  if (!(s.growth_factor > 1 && std::isfinite(s.growth_factor)))
    refuse("growth_factor", "above 1", s.growth_factor);
  if (!(s.backoff_factor > 0 && s.backoff_factor < 1))
    refuse("backoff_factor", "in (0, 1)", s.backoff_factor);
  if (s.growth_interval < 1) refuse("growth_interval", "at least 1", double(s.growth_interval));
  if (s.growth_tracker < 0) refuse("growth_tracker", "at least 0", double(s.growth_tracker));
}

LossScale from_options(const GradScalerOptions& o) {
  LossScale s{.growth_factor = o.growth_factor,
              .backoff_factor = o.backoff_factor,
              .growth_interval = o.growth_interval,
              .min_scale = o.min_scale};
  wt::detail::set_scale(s, o.init_scale);
  check(s);
  if (!o.enabled) wt::detail::set_scale(s, 1);
  return s;
}

struct Field {
  const char* name;
  double LossScale::*number;
  i64 LossScale::*count;
};
constexpr Field kFields[] = {
    {"scale", &LossScale::scale, nullptr},
    {"growth_factor", &LossScale::growth_factor, nullptr},
    {"backoff_factor", &LossScale::backoff_factor, nullptr},
    {"min_scale", &LossScale::min_scale, nullptr},
    {"growth_interval", nullptr, &LossScale::growth_interval},
    {"growth_tracker", nullptr, &LossScale::growth_tracker},
};

}  // namespace

// Before a device is known the values wait on the host.
struct GradScaler::Memory {
  LossScale host{};
  detail::StorageRef block;

  LossScale* data() const { return static_cast<LossScale*>(block->data); }
};

struct GradScaler::Stages {
  std::vector<std::pair<const Optimizer*, Stage>> list{};
};

GradScaler::GradScaler(const GradScalerOptions& options, const CallLine&)
    : options_(options),
      id_(++scaler_ids),
      memory_(std::make_unique<Memory>()),
      stages_(std::make_unique<Stages>()) {
  memory_->host = from_options(options);
}
GradScaler::~GradScaler() = default;

// --- memory ---

LossScale* GradScaler::on_device(Device d) const {
  Memory& m = *memory_;
  if (m.block && m.block->device == d) return m.data();
  const LossScale now = read();
  detail::StorageRef block = detail::zeroed(d, sizeof(LossScale), Category::optimizer);
  m.block = std::move(block);
  write(now);
  return m.data();
}

LossScale GradScaler::read() const {
  const Memory& m = *memory_;
  if (!m.block || m.block->device.is_meta) return m.host;
  LossScale now;
  copy_bytes(&now, Device::cpu(), m.data(), m.block->device, sizeof now);
  return now;
}

void GradScaler::write(const LossScale& values) const {
  Memory& m = *memory_;
  m.host = values;
  if (m.block && !m.block->device.is_meta)
    copy_bytes(m.data(), m.block->device, &values, Device::cpu(), sizeof values);
}

double GradScaler::exchange_scale(double scale) const {
  LossScale now = read();
  const double before = now.scale;
  if (scale > 0) {
    wt::detail::set_scale(now, scale);
    write(now);
  }
  return before;
}

Tensor GradScaler::seed(Device d, DType t) const {
  on_device(d);
  Storage* const s = memory_->block.get();
  return t == DType::f64 ? detail::scalar_over(s, offsetof(LossScale, scale), DType::f64)
                         : detail::scalar_over(s, offsetof(LossScale, scale_f32), DType::f32);
}

LossScale GradScaler::read_checked() const {
  LossScale now = read();
  if (!now.exhausted) return now;
  now.exhausted = 0;
  write(now);
  throw NumericError(
      str("[GradScaler] gradients are inf or NaN at the smallest scale, ", now.min_scale,
          ": this is not the scale's doing any more", at_line(),
          "\n  Try bf16, which has f32's range, a lower learning rate, or AnomalyMode to find the "
          "line"));
}

// --- a step ---

ScaledLoss GradScaler::scale(const Loss& loss, Frame at) const { return {*this, loss.mean(at)}; }
ScaledLoss GradScaler::scale(const Tensor& loss, Frame at) const {
  const FrameScope frame(at);
  if (!loss.defined() || loss.numel() != 1)
    throw ShapeError(str("[GradScaler] scale() takes a loss of one element, got ",
                         loss.defined() ? describe(loss) : "an undefined tensor", at_line()));
  return {*this, loss};
}

void ScaledLoss::backward(BackwardOptions options, Frame at) const {
  const FrameScope frame(at);
  const DType t = loss_.dtype();
  // A 16-bit seed would be the overflow that the scale is to find.
  const Tensor root = t == DType::f32 || t == DType::f64 ? loss_ : to_dtype(loss_, DType::f32);
  const Tensor seed = scaler_.seed(root.device(), root.dtype()).reshape(root.shape());
  wt::detail::backward_scaled(root, seed, scaler_.id(), options, at);
}

GradScaler::Stage* GradScaler::stage_of(const Optimizer& opt) {
  for (auto& [o, stage] : stages_->list)
    if (o == &opt) return &stage;
  return nullptr;
}

// What n partial sums of the written gradients' norm say.
void GradScaler::decide(Optimizer& opt, i64 n, bool unscaled) const {
  run(StepDecideArgs{.partials = opt.partials(),
                     .count = n,
                     .max_norm = 0,
                     .norm = opt.own_norm(),
                     .factor = static_cast<double*>(opt.own_factor().impl()->data),
                     .step = nullptr,
                     .on_found = NonFinite::skip,
                     .mailbox = nullptr,
                     .scaler = on_device(opt.device()),
                     .unscaled = unscaled,
                     .found = opt.own_found()},
      launch_on(opt.device()));
}

void GradScaler::unscale_(Optimizer& opt, Frame at) {
  const FrameScope frame(at);
  if (const Stage* s = stage_of(opt))
    throw UsageError(
        str("[GradScaler] unscale_() ",
            *s == Stage::unscaled ? "was called for this optimizer already" : "after step()",
            " since the last update()", at_line(),
            "\n  Try one unscale_() between the last backward() and step()"));
  opt.prepare();
  opt.check_gradients("unscale_", id_);
  LossScale* const scaler = on_device(opt.device());
  const i64 n = opt.add_norm([&](const detail::Run& r, double* partials) {
    run(GradUnscaleArgs{r.grad(), r.count, r.arena->dtype, scaler, partials},
        launch_on(opt.device()));
  });
  decide(opt, n, true);
  opt.arenas().mark_unscaled();
  stages_->list.emplace_back(&opt, Stage::unscaled);
}

void GradScaler::step(Optimizer& opt, const StepOptions& options, Frame at) {
  const FrameScope frame(at);
  Stage* stage = stage_of(opt);
  if (stage && *stage == Stage::stepped)
    throw UsageError(
        str("[GradScaler] step() was called for this optimizer already since the last "
            "update()",
            at_line(), "\n  Try update() after every step()"));
  if (!stage && options.grad_factor.defined())
    throw UsageError(str("[GradScaler] step() with a grad_factor, and the gradients are scaled",
                         at_line(), "\n  Try scaler.unscale_(opt) before the factor is computed"));
  opt.prepare();
  opt.check_step("step", id_);
  const double* factor = nullptr;  // unscale_() has looked already
  if (!stage && options_.enabled) {
    decide(opt, opt.add_norm(), false);
    factor = static_cast<const double*>(opt.own_factor().impl()->data);
  }
  opt.apply_step(options, factor, options_.enabled ? opt.own_found() : nullptr);
  if (stage)
    *stage = Stage::stepped;
  else
    stages_->list.emplace_back(&opt, Stage::stepped);
}

void GradScaler::update(Frame at) {
  const FrameScope frame(at);
  const bool stepped = std::any_of(stages_->list.begin(), stages_->list.end(),
                                   [](const auto& s) { return s.second == Stage::stepped; });
  if (!stepped)
    throw UsageError(str("[GradScaler] update() without a step() since the last one", at_line(),
                         "\n  Try scaler.step(opt) before it"));
  stages_->list.clear();
  if (!options_.enabled) return;
  Memory& m = *memory_;
  const Device d = m.block->device;
  run(LossScaleUpdateArgs{m.data()}, launch_on(d));
  if (!stream_backend(d) && !d.is_meta) read_checked();
}

// --- state ---

double GradScaler::get_scale(Frame at) const {
  const FrameScope frame(at);
  return read_checked().scale;
}
i64 GradScaler::get_growth_tracker(Frame at) const {
  const FrameScope frame(at);
  return read().growth_tracker;
}

std::vector<nn::NamedTensor> GradScaler::state_dict(Frame at) const {
  const FrameScope frame(at);
  const LossScale now = read();
  std::vector<nn::NamedTensor> all;
  for (const Field& f : kFields)
    all.push_back({str("scaler.", f.name), f.number
                                               ? full({}, now.*f.number, {.dtype = DType::f64})
                                               : full({}, now.*f.count, {.dtype = DType::i64})});
  return all;
}

void GradScaler::load_state_dict(const std::vector<nn::NamedTensor>& values, Frame at) {
  const FrameScope frame(at);
  LossScale loaded;
  for (const Field& f : kFields) {
    const std::string name = str("scaler.", f.name);
    const auto v = std::find_if(values.begin(), values.end(),
                                [&](const nn::NamedTensor& t) { return t.name == name; });
    if (v == values.end())
      throw UsageError(str("[GradScaler] load_state_dict() without ", name, at_line()));
    if (f.number)
      loaded.*f.number = v->tensor.item();
    else
      loaded.*f.count = detail::count_of(values, name);
  }
  check(loaded);
  wt::detail::set_scale(loaded, loaded.scale);
  write(loaded);
  stages_->list.clear();
}

}  // namespace wt::optim
