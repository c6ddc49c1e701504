#include "warptape/optim/doctor/listener.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string_view>

#include "warptape/autograd/node.h"
#include "warptape/core/half.h"
#include "warptape/core/stream.h"
#include "warptape/core/tensor_impl.h"
#include "warptape/kernels/conv.h"
#include "warptape/kernels/cross_entropy.h"
#include "warptape/kernels/matmul.h"
#include "warptape/kernels/nll.h"
#include "warptape/kernels/optim_rule.h"
#include "warptape/kernels/pointwise.h"
#include "warptape/kernels/resize.h"
#include "warptape/optim/doctor/rule.h"

namespace wt::doctor {
namespace {

// Names of the contracts whose arguments begin with RuleArgs; ema_step is no update.
bool is_update(std::string_view contract) {
  return contract.ends_with("_step") && contract != "ema_step";
}

bool is_convolution(std::string_view contract) {
  return contract == "conv_forward" || contract == "conv_backward_input" ||
         contract == "conv_backward_weight";
}

// The value of element i of a dense view, of those dtypes that losses and relus have.
double value_at(const View& v, i64 i) {
  switch (v.dtype()) {
    case DType::f64:
      return v.as<const double>()[i];
    case DType::f32:
      return double(v.as<const float>()[i]);
    case DType::f16:
      return double(float(v.as<const Half>()[i]));
    case DType::bf16:
      return double(float(v.as<const BFloat16>()[i]));
    default:
      return NAN;
  }
}

bool all_zero(const Tensor& t) {
  if (!is_readable(t.device())) return true;  // it may be: nobody is accused
  const View v = view_of(t.impl());
  if (!v.dense()) return false;
  for (i64 i = 0; i < v.numel(); ++i)
    if (!(value_at(v, i) == 0)) return false;
  return true;
}

// Gradients of the step before are there.
bool has_gradient(const Tensor& parameter) {
  const Tensor g = parameter.grad();
  return g.defined() && !all_zero(g);
}

// The fewest backwards that a parameter has got since `then`, of those that got any; `then` is now.
i64 backwards_since(const std::vector<Tensor>& parameters, std::vector<u32>& then) {
  then.resize(parameters.size());
  i64 fewest = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Leaf* leaf = leaf_of(parameters[i].impl());
    if (!leaf) continue;
    const i64 more = i64(u32(leaf->backwards - then[i]));
    then[i] = leaf->backwards;
    if (more > 0) fewest = fewest ? std::min(fewest, more) : more;
  }
  return fewest;
}

}  // namespace

bool is_readable(Device d) { return !d.is_meta && !stream_backend(d); }

Listener::Listener(const Subject& s, Evidence& e) : subject_(s), e_(e) {
  const auto row_of = [&](const nn::NamedTensor& p) -> ParameterSeen& {
    for (size_t i = 0; i < parameters_.size(); ++i)
      if (parameters_[i].impl() == p.tensor.impl()) return e_.parameters[i];
    parameters_.push_back(p.tensor);
    e_.parameters.push_back({.name = p.name,
                             .elements = p.tensor.numel(),
                             .axes = p.tensor.ndim(),
                             .dtype = p.tensor.dtype(),
                             .of_net = false});
    return e_.parameters.back();
  };
  if (s.net)
    for (const nn::NamedTensor& p : s.net->named_parameters()) row_of(p).of_net = true;
  for (optim::Optimizer* o : s.optimizers) {
    Owner owner{o, {}, o->attempted()};
    for (const nn::NamedTensor& p : o->parameters()) {
      ++row_of(p).optimizers;
      owner.parameters.push_back(p.tensor);
    }
    (void)backwards_since(owner.parameters, owner.backwards);
    owners_.push_back(std::move(owner));
  }
  for (size_t i = 0; i < parameters_.size(); ++i)
    e_.parameters[i].wants_gradient = parameters_[i].requires_grad();
}

void Listener::begin_step() {
  step_ = {};
  step_looked_ = false;
  in_walk_ = false;
  sequence_ = mode.sequence;
  lookups_ = nn::detail::name_lookups();
  relu_calls_.clear();
}

StepSeen Listener::end_step() {
  look_at_updates();
  look_at_gradients();
  step_.recorded = i64(mode.sequence - sequence_);
  const nn::detail::NameLookups& lookups = nn::detail::name_lookups();
  step_.lookups = lookups.count - lookups_.count;
  step_.lookup_us = 1e-3 * double(lookups.ns - lookups_.ns);
  if (measuring_ && owners_.empty()) step_.updates = advances_;
  advances_ = 0;
  if (measuring_) e_.updates += step_.updates;
  return step_;
}

void Listener::look_at_gradients() {
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (!e_.parameters[i].reached && parameters_[i].requires_grad() &&
        parameters_[i].grad().defined())
      e_.parameters[i].reached = true;
}

void Listener::look_at_updates() {
  for (Owner& o : owners_) {
    const i64 steps = o.optimizer->attempted();
    if (steps == o.steps) continue;
    const i64 backwards = backwards_since(o.parameters, o.backwards);
    if (measuring_) {
      step_.updates += steps - o.steps;
      e_.added_up += backwards;
      if (o.seen_step && !o.zeroed) ++e_.not_zeroed;
    }
    o.steps = steps;
    o.seen_step = true;
    o.zeroed = false;
  }
}

// Between two updates an optimizer's gradients have to be gone, or 0, where some backward begins.
void Listener::begin_walk(const profiler::Range& r) {
  look_at_updates();
  for (Owner& o : owners_)
    if (!o.zeroed) o.zeroed = std::none_of(o.parameters.begin(), o.parameters.end(), has_gradient);
  if (subject_.net) e_.net_training = subject_.net->is_training();
  if (!measuring_) return;
  ++e_.walks;
  const std::string_view first = r.name;
  e_.scaled_walks += first == "mul" || first == "div";
}

void Listener::begin(const profiler::Range& r) noexcept {
  if (std::this_thread::get_id() != thread_) return;
  try {
    if (evaluating_)
      hear_evaluation(r);
    else
      hear(r);
  } catch (...) {  // what cannot be looked at is not looked at
  }
  ++depth_;
}

void Listener::end(const profiler::Range&) noexcept {
  if (std::this_thread::get_id() != thread_) return;
  if (depth_ > 0) --depth_;
  if (!relu_out_) return;
  try {
    look_at_relu();
  } catch (...) {}
  relu_out_ = {};
}

void Listener::hear(const profiler::Range& r) {
  if (r.kind == profiler::Kind::kernel) return hear_kernel(r);
  const bool backward = r.kind == profiler::Kind::backward;
  if (depth_ == 0) {
    if (backward && !in_walk_) begin_walk(r);
    in_walk_ = backward;
  }
  step_.walked += backward;
}

void Listener::hear_evaluation(const profiler::Range& r) {
  if (r.kind != profiler::Kind::kernel) return;
  const std::string_view name = r.name;
  e_.evaluation.dropouts += name == "dropout";
  e_.evaluation.statistics += name == "running_stats";
}

void Listener::hear_kernel(const profiler::Range& r) {
  const std::string_view name = r.name;
  ++step_.launches;
  step_.launched_bytes += r.bytes;
  if (name == "step_advance") ++advances_;
  if (is_update(name) && !step_looked_) {
    // A loop may drop its gradients behind the update.
    step_looked_ = true;
    look_at_gradients();
  }
  if (!r.args) return;
  if (is_update(name)) {
    const double* const factor = static_cast<const RuleArgs*>(r.args)->grad_factor;
    e_.factor |= factor != nullptr;
    e_.last_factor = !factor ? 1 : is_readable(r.device) ? *factor : NAN;
  } else if (name == "matmul" || is_convolution(name)) {
    product(r);
  } else if (name == "cross_entropy_forward") {
    const auto& a = *static_cast<const CrossEntropyForwardArgs*>(r.args);
    e_.classes = a.logits.size(a.axis), e_.class_items = a.labels.numel();
    logits(a.logits, a.axis, a.labels.numel(), r.device);
    labels(a.labels, a.ignore_index, e_.classes, r);
  } else if (name == "nll_forward") {
    const auto& a = *static_cast<const NllForwardArgs*>(r.args);
    e_.classes = a.log_probs.size(a.axis), e_.class_items = a.labels.numel();
    labels(a.labels, a.ignore_index, e_.classes, r);
  } else if (name == "relu") {
    const auto& a = *static_cast<const PointwiseArgs<pw::Relu>*>(r.args);
    if (!is_readable(r.device) || !a.out.dense()) return;
    relu_out_ = a.out;
    relu_key_ = {r.frame, r.mode_id, relu_calls_[{r.frame, r.mode_id}]++};
  } else if (name == "resize" && !in_walk_) {
    // An axis at a time: an image has two.
    const auto& a = *static_cast<const ResizeArgs*>(r.args);
    const double ratio = double(a.out.numel()) / double(std::max<i64>(1, a.in.numel()));
    if (ratio * ratio <= e_.upscaled) return;
    e_.upscaled = ratio * ratio;
    e_.upscaled_at = describe_frame(r.frame);
  }
}

void Listener::product(const profiler::Range& r) {
  std::vector<i64> sizes;
  DType t;
  if (std::string_view(r.name) == "matmul") {
    const auto& a = *static_cast<const MatmulArgs*>(r.args);
    sizes = {a.m, a.n, a.k};
    t = a.dtype;
  } else {
    // All three kinds begin with the shape.
    const ConvShape& s = *static_cast<const ConvShape*>(r.args);
    sizes = {s.in_channels, s.out_channels};
    t = s.dtype;
    std::vector<i64> shape{s.batch, s.in_channels, s.out_channels, s.groups};
    for (int i = 0; i < 3; ++i) shape.insert(shape.end(), {s.in[i], s.kernel[i], s.stride[i]});
    if (shapes_.insert(std::move(shape)).second) ++step_.new_shapes;
  }
  if (!measuring_) return;
  ProductsSeen& p = e_.products;
  const bool half = t == DType::f16 || t == DType::bf16;
  (half ? p.half : t == DType::f64 ? p.f64 : p.f32) += r.flops;
  if (!half || std::all_of(sizes.begin(), sizes.end(), [](i64 n) { return n % 8 == 0; })) return;
  p.odd += r.flops;
  if (!p.odd_example.empty()) return;
  for (const i64 n : sizes) p.odd_example += str(p.odd_example.empty() ? "" : " x ", n);
  p.odd_example += " at " + describe_frame(r.frame);
}

// Whether rows are probabilities: between 0 and 1, with 1 as their sum.
void Listener::logits(const View& x, int axis, i64 rows, Device d) {
  if (!is_readable(d) || !x.dense() || axis != x.ndim() - 1 || rows == 0) return;
  const i64 classes = x.size(axis);
  ++logit_calls_;
  if (classes < 2) return;
  for (i64 row = 0; row < std::min<i64>(rows, 64); ++row) {
    double sum = 0;
    for (i64 c = 0; c < classes; ++c) {
      const double v = value_at(x, row * classes + c);
      if (!(v >= 0 && v <= 1)) return;
      sum += v;
    }
    if (std::abs(sum - 1) > 0.01) return;
  }
  ++probability_calls_;
}

void Listener::labels(const View& y, i64 ignored, i64 classes, const profiler::Range& r) {
  class_losses_.emplace(r.frame, r.mode_id);
  e_.class_losses = i64(class_losses_.size());
  if (!is_readable(r.device) || !y.dense() || y.dtype() != DType::i64) return;
  Evidence::OutsideLabels& o = e_.outside;
  o.read = true;
  const auto is_outside = [&](i64 v) { return v != ignored && (v < 0 || v >= classes); };
  const std::span<const i64> all(y.as<const i64>(), size_t(y.numel()));
  if (o.seen || std::none_of(all.begin(), all.end(), is_outside)) return;
  o = {.seen = true, .read = true, .least = classes, .most = -1, .classes = classes};
  for (const i64 v : all)
    if (v != ignored) o.least = std::min(o.least, v), o.most = std::max(o.most, v);
}

// Units lie along axis 1 of matrices and images, along the last axis of sequences.
void Listener::look_at_relu() {
  const View& y = relu_out_;
  if (y.ndim() < 2 || y.numel() == 0) return;
  const int axis = y.ndim() == 3 ? 2 : 1;
  const i64 units = y.size(axis);
  i64 inner = 1;
  for (int a = axis + 1; a < y.ndim(); ++a) inner *= y.size(a);
  ReluSeen& seen = relus_[relu_key_];
  if (seen.alive.empty()) seen.alive.assign(size_t(units), 0);
  if (i64(seen.alive.size()) != units) {  // not the same units every time: nothing is said of them
    std::fill(seen.alive.begin(), seen.alive.end(), 1);
    return;
  }
  for (i64 i = 0; i < y.numel(); ++i)
    if (value_at(y, i) > 0) seen.alive[size_t(i / inner % units)] = 1;
}

void Listener::finish() {
  for (auto& [key, seen] : relus_) {
    const std::string module = module_path_of(std::get<1>(key));
    seen.place = (module.empty() ? "relu" : module) + " at " + describe_frame(std::get<0>(key));
    e_.relus.push_back(std::move(seen));
  }
  relus_.clear();
  e_.probabilities = logit_calls_ > 0 && probability_calls_ == logit_calls_;
  const double steps = double(std::max<size_t>(1, e_.steps.size()));
  for (double* v : {&e_.products.f64, &e_.products.f32, &e_.products.half, &e_.products.odd})
    *v /= steps;
}

}  // namespace wt::doctor
