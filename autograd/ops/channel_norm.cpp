// Normalisation by channels. Batch, group and instance normalisation are one operator but for which
// elements share a statistic (`groups` of kernels/channel_norm.h), and whether it is a constant.
#include "warptape/autograd/ops/channel_norm.h"

#include <algorithm>
#include <optional>

#include "warptape/autograd/backward.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/op_saving.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/internal/channels.h"
#include "warptape/autograd/ops/internal/dtype_checks.h"
#include "warptape/autograd/ops/internal/fused.h"
#include "warptape/autograd/ops/internal/reduced_axes.h"
#include "warptape/autograd/ops/internal/running_statistics.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/save_policy.h"
#include "warptape/autograd/saved_by_rule.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/kernels/channel_norm.h"

namespace wt {
namespace info {
constexpr OpInfo batch_norm{.name = "batch_norm", .autocast = Autocast::f32};
constexpr OpInfo group_norm{.name = "group_norm", .autocast = Autocast::f32};
constexpr OpInfo instance_norm{.name = "instance_norm", .autocast = Autocast::f32};
constexpr OpInfo fused_batch_norm{.name = "fused_batch_norm", .autocast = Autocast::f32};
constexpr OpInfo fused_group_norm{.name = "fused_group_norm", .autocast = Autocast::f32};
constexpr OpInfo fused_instance_norm{.name = "fused_instance_norm", .autocast = Autocast::f32};
}  // namespace info

namespace {

struct ChannelNormAttributes {
  i64 groups;  // 0: a channel's statistics are over all samples
  double eps;
  bool constant;    // the statistics do not depend on x
  i8 weight, bias;  // their operands; -1: none
  Activation activation;
};
// Slots. Without an activation the last is for `again` alone.
enum : int { kNormX, kNormStats, kNormWeight, kNormBias };

DType wide_dtype(DType t) { return t == DType::f64 ? t : DType::f32; }

// --- checks ---

void check_x(const OpScope& s, double eps) {
  const Geometry& x = s.geometry(0);
  detail::require_floating(s);
  if (x.ndim < 2) s.fail<ShapeError>(str("x must be [N, C] or [N, C, ...], got ", shape_of(x)));
  if (!(eps >= 0)) s.fail<UsageError>(str("eps must be at least 0, got ", eps));
}
void check_channels(const OpScope& s, const Tensor& t, const char* name) {
  if (!t.defined()) return;
  const i64 channels = s.geometry(0).shape[1];
  if (t.shape() != Shape{channels})
    s.fail<ShapeError>(str(name, " must be [", channels, "], one a channel, got ", t.shape()));
}
void check_statistic(const OpScope& s, const Tensor& t, const char* name) {
  check_channels(s, t, name);
  if (!is_floating(t.dtype()) || !computes(t.dtype()))
    s.fail<DtypeError>(str(name, " must be floating, got ", dtype_name(t.dtype())));
  if (t.device() != s.device())
    s.fail<PlacementError>(
        str(name, " is on ", to_string(t.device()), ", x on ", to_string(s.device())));
  if (t.requires_grad()) s.fail<UsageError>(str(name, " must not require grad: it is a buffer"));
}
// Both running statistics or none.
void check_running(const OpScope& s, const Tensor& mean, const Tensor& var, bool needed) {
  if (mean.defined() != var.defined())
    s.fail<UsageError>("running_mean and running_var go together, one of them is missing");
  if (!mean.defined() && needed)
    s.fail<UsageError>("there are no running statistics to normalise with", "training");
  if (!mean.defined()) return;
  check_statistic(s, mean, "running_mean");
  check_statistic(s, var, "running_var");
}
void check_momentum(const OpScope& s, double momentum) {
  if (!(momentum >= 0 && momentum <= 1))
    s.fail<UsageError>(str("momentum must be in [0, 1], got ", momentum));
}

// --- forward ---

// x, and those of weight and bias that are given.
struct NormOperands {
  std::optional<In> parameters[2];
  const In* list[3];
  int size = 1;
  i8 weight = -1, bias = -1;
  NormOperands(const In& x, const Tensor& w, const Tensor& b) : list{&x} {
    weight = add(w), bias = add(b);
  }
  i8 add(const Tensor& t) {
    if (!t.defined()) return -1;
    list[size] = &parameters[size - 1].emplace(t);
    return i8(size++);
  }
};

void channel_norm_backward(Backward& g);

View parameter_view(const OpScope& s, int operand, std::optional<Tensor>& copy) {
  if (operand < 0) return {};
  const TensorImpl* p = s.impl(operand);
  if (p->geometry.dense) return view_of(p);
  const NoGrad no_grad;
  copy = contiguous(Tensor(detail::retained(s.impl(operand))));
  return view_of(copy->impl());
}

// Everything was checked. `constant`: [3, C] statistics that x has no part in, or undefined.
Tensor channel_norm(OpScope& s, const ChannelNormAttributes& a, const Tensor& constant,
                    Running& running) {
  const Geometry& shape = s.geometry(0);
  const i64 statistics = statistics_of(shape, a.groups);
  const DType wide = wide_dtype(shape.dtype);
  const FrameScope lines(s.frame());
  const Channels x(s.impl(0));
  std::optional<Tensor> dense_weight, dense_bias;
  const View weight = parameter_view(s, a.weight, dense_weight);
  const View bias = parameter_view(s, a.bias, dense_bias);
  const TensorOptions o{.dtype = wide, .device = s.device()};
  const Tensor stats = constant.defined() ? constant : empty({3, statistics}, o);
  const Tensor variance = running.moves() ? empty({statistics}, o) : Tensor();
  if (s.recording()) {
    s.save_input(0);
    s.save_extra(Tensor(alias_of(stats.impl())));
    const bool all = detail::keeps_recipes() || a.activation != Activation::none;
    s.save_input_if(a.weight >= 0 && (all || s.wants(0)), a.weight);
    if (all) s.save_input_if(a.bias >= 0, a.bias);
  }
  Result y = x.copied() ? s.result(shape_of(shape), shape.dtype) : s.result_in_order();
  const Channels out(y.impl());
  s.record(channel_norm_backward);
  s.set_attribute(a);
  if (shape.numel > 0) {
    if (!constant.defined())
      run(ChannelStatsArgs{view_of(stats.impl()),
                           variance.defined() ? view_of(variance.impl()) : View{}, x.view(),
                           a.groups, a.eps},
          s.launch());
    if (running.moves()) {
      const NoGrad no_grad;
      running.prepare(view_of(stats.select(0, 0).impl()), view_of(variance.impl()),
                      values_of(shape, a.groups), s.launch());
    }
    run(ChannelNormForwardArgs{out.view(), x.view(), view_of(stats.impl()), weight, bias, a.groups,
                               a.activation},
        s.launch());
  }
  if (running.moves() && shape.numel > 0) {
    const NoGrad no_grad;
    running.write();
  }
  return s.finish(std::move(y));
}

// From the statistics of the first time: running ones are left alone.
Tensor channel_norm_again(Node& n, const Tensor& x, const Tensor* saved) {
  const auto a = n.attribute<ChannelNormAttributes>();
  const In in(x);
  OpScope s(*n.info, in);
  const Channels seen(x.impl());
  Tensor weight, bias;
  if (saved[kNormWeight].defined()) weight = contiguous(saved[kNormWeight]);
  if (saved[kNormBias].defined()) bias = contiguous(saved[kNormBias]);
  const auto view = [](const Tensor& t) { return t.defined() ? view_of(t.impl()) : View{}; };
  Result y = seen.copied() ? s.result(shape_of(s.geometry(0)), x.dtype()) : s.result_in_order();
  const Channels out(y.impl());
  if (x.numel() > 0)
    run(ChannelNormForwardArgs{out.view(), seen.view(), view(saved[kNormStats]), view(weight),
                               view(bias), a.groups, a.activation},
        s.launch());
  return s.finish(std::move(y));
}

// --- backward ---

// The same gradients from operators that record, in the dtype that the kernels compute in.
void channel_norm_composite(Backward& g, const ChannelNormAttributes& a) {
  const Tensor& saved = g.saved(kNormX);
  const DType t = saved.dtype(), wide = wide_dtype(t);
  const i64 n = saved.size(0), c = saved.size(1), places = c && n ? saved.numel() / (n * c) : 0;
  const Shape cells{n, c, places};
  // What shares a statistic lies along `axes` of `seen`.
  const Shape seen = a.groups ? Shape{n, a.groups, c / a.groups * places} : cells;
  const Dims axes = a.groups ? Dims{2} : Dims{0, 2};
  const auto mean_of = [&](const Tensor& v) { return mean(v, axes, {.keep_dim = true}); };
  const Tensor x = reshape(to_dtype(saved, wide), seen);
  Tensor gy = reshape(to_dtype(g.grad(), wide), cells);
  Tensor distance, rstd;
  if (a.constant) {
    const Tensor stats = g.saved(kNormStats).reshape({3, 1, c, 1});
    distance = sub(x, stats.select(0, 0)), rstd = stats.select(0, 2);
  } else {
    distance = detail::centred(x, axes);
    rstd = rsqrt(add(mean_of(square(distance)), a.eps));
  }
  const Tensor h = mul(distance, rstd);
  const auto parameter = [&](int slot) { return to_dtype(g.saved(slot), wide).reshape({1, c, 1}); };
  if (a.activation != Activation::none) {
    Tensor z = reshape(h, cells);
    if (g.has_saved(kNormWeight)) z = mul(z, parameter(kNormWeight));
    if (g.has_saved(kNormBias)) z = add(z, parameter(kNormBias));
    gy = recorded_gradient(a.activation, gy, z, z);  // is_told_from_result(): from z, too
  }
  const auto put = [&](int operand, const Tensor& of_cells) {
    if (operand >= 0 && g.wants(u32(operand)))
      g.put(u32(operand), to_dtype(sum(of_cells, {0, 2}), t));
  };
  put(a.weight, mul(gy, reshape(h, cells)));
  put(a.bias, gy);
  if (!g.wants(0)) return;
  Tensor gh = gy;
  if (g.has_saved(kNormWeight)) gh = mul(gy, parameter(kNormWeight));
  gh = reshape(gh, seen);
  Tensor gx = gh;
  if (!a.constant) gx = sub(sub(gh, mean_of(gh)), mul(h, mean_of(mul(gh, h))));
  g.put(0, to_dtype(reshape(mul(rstd, gx), saved.shape()), t));
}

// Gradients of weight and bias from the sums of gy * h and gy.
void put_parameters(Backward& g, const ChannelNormAttributes& a, const Tensor& sums, DType t) {
  for (int k = 0; k < 2; ++k) {
    const int operand = k ? a.weight : a.bias;
    if (operand < 0 || !g.wants(u32(operand))) continue;
    const Tensor of = sums.select(0, k);
    g.put(u32(operand), to_dtype(of.ndim() == 2 ? sum(of, 0) : of.clone(), t));
  }
}

// gy in the order of x, which the fast kernels read both in; gx is where they write. Where nobody
// else sees gy, or what had to be copied, that is the same memory.
Tensor in_order_for(Tensor gy, const TensorImpl* x, Tensor& gx) {
  const Geometry &a = gy.impl()->geometry, &b = x->geometry;
  const bool plain = !(mode.slow & kSlowSliced) && a.dtype == b.dtype;
  if (plain && b.dense && std::equal(a.strides, a.strides + a.ndim, b.strides) &&
      detail::is_sole(gy.impl())) {
    detail::count_saved(memory::SavingRule::reuse, gy.impl()->storage->bytes);
    gx = gy;
    return gy;
  }
  gx = new_like_channels(x);
  if (is_in_order_of(gy, gx)) return gy;
  if (!plain) return in_order_of(gy, gx);
  detail::copy_into(gx.impl(), gy.impl());
  return gx;
}

void channel_norm_backward(Backward& g) {
  const auto a = g.attribute<ChannelNormAttributes>();
  if (g.recording()) return channel_norm_composite(g, a);
  const Tensor &saved = g.saved(kNormX), &stats = g.saved(kNormStats);
  const i64 n = saved.size(0), c = saved.size(1);
  const bool parameters =
      (a.weight >= 0 && g.wants(u32(a.weight))) || (a.bias >= 0 && g.wants(u32(a.bias)));
  Tensor gx;
  const Tensor arrived = in_order_for(g.take_grad(), saved.impl(), gx);
  const Channels x(saved.impl()), gy(arrived.impl()), out(gx.impl());
  const Launch launch = g.launch();
  Tensor weight, bias;
  if (g.has_saved(kNormWeight)) weight = contiguous(g.saved(kNormWeight));
  if (a.activation != Activation::none && g.has_saved(kNormBias))
    bias = contiguous(g.saved(kNormBias));
  const auto view = [](const Tensor& t) { return t.defined() ? view_of(t.impl()) : View{}; };
  Tensor sums;
  if (parameters || !a.constant) {
    sums = empty(a.groups ? Shape{2, n, c} : Shape{2, c},
                 {.dtype = stats.dtype(), .device = stats.device()});
    run(ChannelNormSumsArgs{view_of(sums.impl()), gy.view(), x.view(), view_of(stats.impl()),
                            a.groups, a.activation, view(weight), view(bias)},
        launch);
    put_parameters(g, a, sums, saved.dtype());
  }
  if (!g.wants(0)) return;
  if (saved.numel() > 0)
    run(ChannelNormBackwardArgs{out.view(), gy.view(), x.view(), view_of(stats.impl()),
                                view(weight), a.constant ? View{} : view_of(sums.impl()), a.groups,
                                a.activation, view(bias)},
        launch);
  g.put(0, std::move(gx));
}

// --- the operators, with an activation or none ---

Tensor batch_norm_of(const OpInfo& op, const In& x, Activation f, const BatchNormOptions& o) {
  const NormOperands in(x, o.weight, o.bias);
  OpScope s(op, in.list, in.size);
  check_x(s, o.eps);
  check_channels(s, o.weight, "weight");
  check_channels(s, o.bias, "bias");
  check_running(s, o.running_mean, o.running_var, false);
  if (o.momentum) check_momentum(s, *o.momentum);
  const Tensor& count = o.num_batches_tracked;
  const bool has_running = o.running_mean.defined(), own = o.training || !has_running;
  if (count.defined() && (count.dtype() != DType::i64 || count.ndim() != 0))
    s.fail<ShapeError>("num_batches_tracked must be one i64 number (0-d)");
  if (count.defined() && count.device() != s.device())
    s.fail<PlacementError>(str("num_batches_tracked is on ", to_string(count.device())));
  if (o.training && has_running && !o.momentum && !count.defined())
    s.fail<UsageError>("the average of all batches needs num_batches_tracked");
  if (const i64 values = values_of(s.geometry(0), 0); own && values < 2)
    s.fail<ShapeError>(str("training needs more than one value a channel, got ", values));
  Running running{};
  if (o.training && has_running) running = {o.running_mean, o.running_var, count, o.momentum};
  Tensor constant;
  if (!own) {
    const NoGrad no_grad;
    constant = constant_stats(o.running_mean, o.running_var, o.eps, wide_dtype(s.dtype()));
  }
  return channel_norm(s, {0, o.eps, !own, in.weight, in.bias, f}, constant, running);
}

Tensor group_norm_of(const OpInfo& op, const In& x, i64 groups, Activation f,
                     const GroupNormOptions& o) {
  const NormOperands in(x, o.weight, o.bias);
  OpScope s(op, in.list, in.size);
  check_x(s, o.eps);
  const Geometry& g = s.geometry(0);
  if (groups < 1 || g.shape[1] % groups != 0)
    s.fail<ShapeError>(str("groups ", groups, " does not divide the ", g.shape[1], " channels"));
  check_channels(s, o.weight, "weight");
  check_channels(s, o.bias, "bias");
  if (g.numel == groups) s.fail<ShapeError>("needs more than one value a group, got 1");
  Running none{};
  return channel_norm(s, {groups, o.eps, false, in.weight, in.bias, f}, {}, none);
}

Tensor instance_norm_of(const OpInfo& op, const In& x, Activation f, const InstanceNormOptions& o) {
  const NormOperands in(x, o.weight, o.bias);
  OpScope s(op, in.list, in.size);
  check_x(s, o.eps);
  check_channels(s, o.weight, "weight");
  check_channels(s, o.bias, "bias");
  check_running(s, o.running_mean, o.running_var, !o.use_input_stats);
  check_momentum(s, o.momentum);
  const Geometry& g = s.geometry(0);
  i64 places = 1;
  for (int d = 2; d < g.ndim; ++d) places *= g.shape[d];
  if (o.use_input_stats && places < 2)
    s.fail<ShapeError>(str("needs more than one place a channel, got ", places));
  Running running{};
  Tensor constant;
  if (o.use_input_stats) {
    if (o.running_mean.defined()) running = {o.running_mean, o.running_var, {}, o.momentum};
  } else {
    const NoGrad no_grad;
    constant = constant_stats(o.running_mean, o.running_var, o.eps, wide_dtype(s.dtype()));
  }
  const i64 groups = o.use_input_stats ? g.shape[1] : 0;
  return channel_norm(s, {groups, o.eps, !o.use_input_stats, in.weight, in.bias, f}, constant,
                      running);
}

}  // namespace

Tensor batch_norm(const In& x, const BatchNormOptions& o) {
  return batch_norm_of(info::batch_norm, x, Activation::none, o);
}
Tensor group_norm(const In& x, i64 groups, const GroupNormOptions& o) {
  return group_norm_of(info::group_norm, x, groups, Activation::none, o);
}
Tensor instance_norm(const In& x, const InstanceNormOptions& o) {
  return instance_norm_of(info::instance_norm, x, Activation::none, o);
}
Tensor fused_batch_norm(const In& x, Activation f, const BatchNormOptions& o) {
  return batch_norm_of(info::fused_batch_norm, x, f, o);
}
Tensor fused_group_norm(const In& x, i64 groups, Activation f, const GroupNormOptions& o) {
  return group_norm_of(info::fused_group_norm, x, groups, f, o);
}
Tensor fused_instance_norm(const In& x, Activation f, const InstanceNormOptions& o) {
  return instance_norm_of(info::fused_instance_norm, x, f, o);
}

namespace detail {
OpSavings channel_norm_savings() {
  static constexpr auto offer = [](const OpInfo& op) {
    return OpSaving{.op = &op, .again = channel_norm_again, .operand_slot = kNormX};
  };
  static constexpr OpSaving kSavings[] = {
      offer(info::batch_norm),       offer(info::group_norm),
      offer(info::instance_norm),    offer(info::fused_batch_norm),
      offer(info::fused_group_norm), offer(info::fused_instance_norm)};
  return kSavings;
}
OpInfos channel_norm_ops() {
  static constexpr const OpInfo* kOps[] = {&info::batch_norm,       &info::group_norm,
                                           &info::instance_norm,    &info::fused_batch_norm,
                                           &info::fused_group_norm, &info::fused_instance_norm};
  return kOps;
}
}  // namespace detail

}  // namespace wt
