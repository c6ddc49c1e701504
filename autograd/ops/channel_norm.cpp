// Normalisation by channels. Batch, group and instance normalisation are one operator but for which
// elements share a statistic (`groups` of kernels/channel_norm.h), and whether it is a constant.
#include "warptape/autograd/ops/channel_norm.h"

#include <optional>

#include "warptape/autograd/backward.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/op_saving.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/internal/dtype_checks.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/save_policy.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/kernels/channel_norm.h"
#include "warptape/kernels/running_stats.h"

namespace wt {
namespace info {
constexpr OpInfo batch_norm{.name = "batch_norm", .autocast = Autocast::f32};
constexpr OpInfo group_norm{.name = "group_norm", .autocast = Autocast::f32};
constexpr OpInfo instance_norm{.name = "instance_norm", .autocast = Autocast::f32};
}  // namespace info

namespace {

struct ChannelNormAttributes {
  i64 groups;  // 0: a channel's statistics are over all samples
  double eps;
  bool constant;    // the statistics do not depend on x
  i8 weight, bias;  // their operands; -1: none
};
enum : int { kSavedX, kSavedStats, kSavedWeight, kSavedBias };  // slots; the last for `again` alone

DType wide_dtype(DType t) { return t == DType::f64 ? t : DType::f32; }

// --- from tensors to the kernels' arguments ---

// The geometry of [N, C, d...] as [N, C, S]. False where the last axes do not lie evenly.
bool merge_places(const Geometry& g, Geometry& to) {
  to = g;
  to.ndim = 3;
  i64 size = 1, step = 1;
  for (int d = g.ndim; d-- > 2;) {
    if (g.shape[d] == 1) continue;
    if (size == 1)
      step = g.strides[d];
    else if (g.numel > 0 && g.strides[d] != size * step)
      return false;
    size *= g.shape[d];
  }
  to.shape[2] = size;
  to.strides[2] = step;
  finish_geometry(to);
  return true;
}

// A tensor as [N, C, S], copied where it cannot be seen so. Lives as long as the view is used.
class Channels {
 public:
  explicit Channels(const TensorImpl* p) : impl_(p) {
    if (merge_places(p->geometry, seen_)) return;
    const NoGrad no_grad;
    copy_ = contiguous(Tensor(detail::retained(const_cast<TensorImpl*>(p))));
    impl_ = copy_.impl();
    merge_places(impl_->geometry, seen_);
  }
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;
  View view() const { return {impl_->data, &seen_}; }
  bool copied() const { return copy_.defined(); }

 private:
  const TensorImpl* impl_;
  Tensor copy_;
  Geometry seen_;
};

// A new tensor of x's shape and dtype, in x's order of axes where that has one piece a channel.
Tensor new_like_channels(const TensorImpl* x) {
  Geometry merged;
  if (!merge_places(x->geometry, merged)) return Tensor(new_like(x));
  return Tensor(new_in_order(x, dtype_of(x)));
}
// gy in the order of `like`: the fast kernels read both alike.
Tensor in_order_of(const Tensor& gy, const Tensor& like) {
  const Geometry &a = gy.impl()->geometry, &b = like.impl()->geometry;
  bool alike = true;
  for (int d = 0; d < a.ndim; ++d) alike &= a.shape[d] == 1 || a.strides[d] == b.strides[d];
  if (alike) return gy;
  Tensor copy(new_in_order(like.impl(), gy.dtype()));
  detail::copy_into(copy.impl(), gy.impl());
  return copy;
}

i64 statistics_of(const Geometry& x, i64 groups) {
  return groups ? x.shape[0] * groups : x.shape[1];
}
i64 values_of(const Geometry& x, i64 groups) {  // that share a statistic
  const i64 statistics = statistics_of(x, groups);
  return statistics ? x.numel / statistics : 0;
}

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

// --- running statistics ---

// Where they lie, and their new values, made before anything is written.
struct Running {
  Tensor mean, var, count;           // the user's; undefined: none
  std::optional<double> momentum{};  // none: by the count
  Tensor new_mean{}, new_var{}, new_count{};

  bool moves() const { return mean.defined(); }

  // From batch statistics: mean [statistics], and variance [statistics] over `values` each.
  void prepare(const View& batch_mean, const View& variance, i64 values, const Launch& l) {
    new_mean = empty_like(mean), new_var = empty_like(var);
    if (count.defined()) new_count = empty_like(count);
    const auto view = [](const Tensor& t) { return t.defined() ? view_of(t.impl()) : View{}; };
    run(RunningStatsArgs{view(new_mean), view(new_var), view(new_count), view(mean), view(var),
                         view(count), batch_mean, variance, momentum.value_or(-1),
                         double(values) / double(values - 1)},
        l);
  }
  // Only once, also when a checkpointed function runs again (copy_).
  void write() {
    mean.copy_(new_mean);
    var.copy_(new_var);
    if (count.defined()) count.copy_(new_count);
  }
};

// Statistics of running ones, as channel_stats writes them: [3, C].
Tensor constant_stats(const Tensor& mean, const Tensor& var, double eps, DType t) {
  const Tensor m = to_dtype(mean, t), rstd = rsqrt(add(to_dtype(var, t), eps));
  return stack({m, zeros_like(m), rstd});
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
    const bool again = detail::keeps_recipes();
    s.save_input_if(a.weight >= 0 && (again || s.wants(0)), a.weight);
    if (again) s.save_input_if(a.bias >= 0, a.bias);
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
    run(ChannelNormForwardArgs{out.view(), x.view(), view_of(stats.impl()), weight, bias, a.groups},
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
  if (saved[kSavedWeight].defined()) weight = contiguous(saved[kSavedWeight]);
  if (saved[kSavedBias].defined()) bias = contiguous(saved[kSavedBias]);
  const auto view = [](const Tensor& t) { return t.defined() ? view_of(t.impl()) : View{}; };
  Result y = seen.copied() ? s.result(shape_of(s.geometry(0)), x.dtype()) : s.result_in_order();
  const Channels out(y.impl());
  if (x.numel() > 0)
    run(ChannelNormForwardArgs{out.view(), seen.view(), view(saved[kSavedStats]), view(weight),
                               view(bias), a.groups},
        s.launch());
  return s.finish(std::move(y));
}

// --- backward ---

// The same gradients from operators that record, in the dtype that the kernels compute in.
void channel_norm_composite(Backward& g, const ChannelNormAttributes& a) {
  const Tensor& saved = g.saved(kSavedX);
  const DType t = saved.dtype(), wide = wide_dtype(t);
  const i64 n = saved.size(0), c = saved.size(1), places = c && n ? saved.numel() / (n * c) : 0;
  const Shape cells{n, c, places};
  // What shares a statistic lies along `axes` of `seen`.
  const Shape seen = a.groups ? Shape{n, a.groups, c / a.groups * places} : cells;
  const Dims axes = a.groups ? Dims{2} : Dims{0, 2};
  const auto mean_of = [&](const Tensor& v) { return mean(v, axes, {.keep_dim = true}); };
  const Tensor x = reshape(to_dtype(saved, wide), seen);
  const Tensor gy = reshape(to_dtype(g.grad(), wide), cells);
  Tensor centre, rstd;
  if (a.constant) {
    const Tensor stats = g.saved(kSavedStats).reshape({3, 1, c, 1});
    centre = stats.select(0, 0), rstd = stats.select(0, 2);
  } else {
    centre = mean_of(x);
    rstd = rsqrt(add(mean_of(square(sub(x, centre))), a.eps));
  }
  const Tensor h = mul(sub(x, centre), rstd);
  const auto put = [&](int operand, const Tensor& of_cells) {
    if (operand >= 0 && g.wants(u32(operand)))
      g.put(u32(operand), to_dtype(sum(of_cells, {0, 2}), t));
  };
  put(a.weight, mul(gy, reshape(h, cells)));
  put(a.bias, gy);
  if (!g.wants(0)) return;
  Tensor gh = gy;
  if (g.has_saved(kSavedWeight))
    gh = mul(gy, to_dtype(g.saved(kSavedWeight), wide).reshape({1, c, 1}));
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

void channel_norm_backward(Backward& g) {
  const auto a = g.attribute<ChannelNormAttributes>();
  if (g.recording()) return channel_norm_composite(g, a);
  const Tensor &saved = g.saved(kSavedX), &stats = g.saved(kSavedStats);
  const i64 n = saved.size(0), c = saved.size(1);
  const bool parameters =
      (a.weight >= 0 && g.wants(u32(a.weight))) || (a.bias >= 0 && g.wants(u32(a.bias)));
  Tensor gx = new_like_channels(saved.impl());
  const Tensor ordered = in_order_of(g.grad(), gx);
  const Channels x(saved.impl()), gy(ordered.impl()), out(gx.impl());
  const Launch launch = g.launch();
  Tensor sums;
  if (parameters || !a.constant) {
    sums = empty(a.groups ? Shape{2, n, c} : Shape{2, c},
                 {.dtype = stats.dtype(), .device = stats.device()});
    run(ChannelNormSumsArgs{view_of(sums.impl()), gy.view(), x.view(), view_of(stats.impl()),
                            a.groups},
        launch);
    put_parameters(g, a, sums, saved.dtype());
  }
  if (!g.wants(0)) return;
  Tensor weight;
  if (g.has_saved(kSavedWeight)) weight = contiguous(g.saved(kSavedWeight));
  if (saved.numel() > 0)
    run(ChannelNormBackwardArgs{out.view(), gy.view(), x.view(), view_of(stats.impl()),
                                weight.defined() ? view_of(weight.impl()) : View{},
                                a.constant ? View{} : view_of(sums.impl()), a.groups},
        launch);
  g.put(0, std::move(gx));
}

}  // namespace

Tensor batch_norm(const In& x, const BatchNormOptions& o) {
  const NormOperands in(x, o.weight, o.bias);
  OpScope s(info::batch_norm, in.list, in.size);
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
  return channel_norm(s, {0, o.eps, !own, in.weight, in.bias}, constant, running);
}

Tensor group_norm(const In& x, i64 groups, const GroupNormOptions& o) {
  const NormOperands in(x, o.weight, o.bias);
  OpScope s(info::group_norm, in.list, in.size);
  check_x(s, o.eps);
  const Geometry& g = s.geometry(0);
  if (groups < 1 || g.shape[1] % groups != 0)
    s.fail<ShapeError>(str("groups ", groups, " does not divide the ", g.shape[1], " channels"));
  check_channels(s, o.weight, "weight");
  check_channels(s, o.bias, "bias");
  if (g.numel == groups) s.fail<ShapeError>("needs more than one value a group, got 1");
  Running none{};
  return channel_norm(s, {groups, o.eps, false, in.weight, in.bias}, {}, none);
}

Tensor instance_norm(const In& x, const InstanceNormOptions& o) {
  const NormOperands in(x, o.weight, o.bias);
  OpScope s(info::instance_norm, in.list, in.size);
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
  return channel_norm(s, {groups, o.eps, !o.use_input_stats, in.weight, in.bias}, constant,
                      running);
}

namespace detail {
OpSavings channel_norm_savings() {
  static constexpr OpSaving kSavings[] = {
      {.op = &info::batch_norm, .again = channel_norm_again, .operand_slot = kSavedX},
      {.op = &info::group_norm, .again = channel_norm_again, .operand_slot = kSavedX},
      {.op = &info::instance_norm, .again = channel_norm_again, .operand_slot = kSavedX}};
  return kSavings;
}
OpInfos channel_norm_ops() {
  static constexpr const OpInfo* kOps[] = {&info::batch_norm, &info::group_norm,
                                           &info::instance_norm};
  return kOps;
}
}  // namespace detail

}  // namespace wt
