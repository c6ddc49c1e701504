// Normalisation.
#include "warptape/autograd/ops/norm.h"

#include <limits>

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
#include "warptape/kernels/layer_norm.h"
#include "warptape/kernels/rms_norm.h"

namespace wt {
namespace info {
constexpr OpInfo layer_norm{.name = "layer_norm", .autocast = Autocast::f32};
constexpr OpInfo rms_norm{.name = "rms_norm", .autocast = Autocast::f32};
}  // namespace info

namespace {

struct LayerNormAttributes {
  int axes;  // the last ones, which are normalised
  double eps;
};
// Operands, and slots of the node.
enum : int { kX, kWeight, kBias };
enum : int { kSavedX, kSavedStats, kSavedWeight, kSavedBias };  // the last for `again` alone

// --- from tensors to the kernels' arguments ---

// A tensor as rows: its last `axes` axes are one. Where they do not lie evenly, or are no
// neighbours and must be, it is copied. Lives as long as the view is used.
class RowsOf {
 public:
  RowsOf(const TensorImpl* p, int axes, bool neighbours = false) : impl_(p) {
    if ((!neighbours || p->geometry.dense) && merge(axes)) return;
    const NoGrad no_grad;
    copy_ = contiguous(Tensor(detail::retained(const_cast<TensorImpl*>(p))));
    impl_ = copy_.impl();
    merge(axes);
  }
  RowsOf(const RowsOf&) = delete;
  RowsOf& operator=(const RowsOf&) = delete;
  View view() const { return {impl_->data, &rows_}; }

 private:
  bool merge(int axes) {
    const Geometry& g = impl_->geometry;
    const int lead = g.ndim - axes;
    i64 length = 1, step = 1;
    for (int d = g.ndim; d-- > lead;) {
      if (g.shape[d] == 1) continue;
      if (length == 1)
        step = g.strides[d];
      else if (g.numel > 0 && g.strides[d] != length * step)  // without elements: any strides
        return false;
      length *= g.shape[d];
    }
    rows_ = g;
    rows_.ndim = u8(lead + 1);
    rows_.shape[lead] = length;
    rows_.strides[lead] = step;
    finish_geometry(rows_);
    return true;
  }
  const TensorImpl* impl_;
  Tensor copy_;
  Geometry rows_;
};

// --- forward ---

void check_norm(const OpScope& s, const Shape& normalized, double eps) {
  const Geometry& x = s.geometry(kX);
  detail::require_floating(s);
  if (normalized.empty()) s.fail<ShapeError>("normalized_shape has no axis, at least 1 is needed");
  const int lead = x.ndim - normalized.ndim();
  if (lead < 0 || Shape(x.shape + lead, normalized.ndim()) != normalized)
    s.fail<ShapeError>(str("the last axes of x ", Shape(x.shape, x.ndim),
                           " \u2260 normalized_shape ", normalized));
  for (int i = kWeight; i < s.size(); ++i) {
    const Shape got(s.geometry(i).shape, s.geometry(i).ndim);
    if (got != normalized)
      s.fail<ShapeError>(
          str(i == kWeight ? "weight " : "bias ", got, " \u2260 normalized_shape ", normalized));
  }
  if (!(eps >= 0)) s.fail<UsageError>(str("eps must be at least 0, got ", eps));
}

// Saves x, the weight where its value matters, and room for what a backward reads of every row: its
// mean (0 for rms_norm), and rstd. Returns that room; nothing when nothing is recorded.
View save_for_backward(OpScope& s, const RowsOf& x, bool weighted) {
  if (!s.recording()) return {};
  i64 shape[2] = {2, 1};
  for (int k = 0; k + 1 < x.view().ndim(); ++k) shape[1] *= x.view().size(k);
  const DType t = s.dtype() == DType::f64 ? DType::f64 : DType::f32;
  Tensor stats(new_contiguous(shape, 2, t, s.device()));
  const View room = view_of(stats.impl());
  s.save_input(kX);
  s.save_extra(std::move(stats));
  const bool again = detail::keeps_recipes();
  s.save_input_if(weighted && (again || s.wants(kX)), kWeight);
  if (again) s.save_input_if(s.size() > kBias, kBias);
  return room;
}

void layer_norm_backward(Backward& g);

Tensor layer_norm_forward(OpScope& s, const Shape& normalized, double eps) {
  check_norm(s, normalized, eps);
  const int axes = normalized.ndim();
  const RowsOf x(s.impl(kX), axes);
  std::optional<RowsOf> weight, bias;
  if (s.size() > kWeight) weight.emplace(s.impl(kWeight), axes, true);
  if (s.size() > kBias) bias.emplace(s.impl(kBias), axes, true);
  const View stats = save_for_backward(s, x, weight.has_value());
  Result y = s.result_like();
  const RowsOf out(y.impl(), axes);
  s.record(layer_norm_backward);
  s.set_attribute(LayerNormAttributes{axes, eps});
  run(LayerNormForwardArgs{out.view(), stats, x.view(), weight ? weight->view() : View{},
                           bias ? bias->view() : View{}, eps},
      s.launch());
  return s.finish(std::move(y));
}

Tensor layer_norm_again(Node& n, const Tensor& x, const Tensor* saved) {
  const auto a = n.attribute<LayerNormAttributes>();
  const Shape last(x.impl()->geometry.shape + x.ndim() - a.axes, a.axes);
  if (saved[kSavedBias].defined())
    return layer_norm(x, last, saved[kSavedWeight], saved[kSavedBias], {.eps = a.eps});
  if (saved[kSavedWeight].defined())
    return layer_norm(x, last, saved[kSavedWeight], {.eps = a.eps});
  return layer_norm(x, last, {.eps = a.eps});
}

// --- backward ---

// The same gradients from operators that record, in the dtype that the kernels compute in.
void layer_norm_composite(Backward& g, const LayerNormAttributes& a) {
  const Tensor& saved = g.saved(kSavedX);
  const DType t = saved.dtype(), wide = t == DType::f64 ? t : DType::f32;
  const Tensor x = to_dtype(saved, wide), gy = to_dtype(g.grad(), wide);
  std::vector<i64> axes;
  for (int d = x.ndim() - a.axes; d < x.ndim(); ++d) axes.push_back(d);
  const auto mean_of = [&](const Tensor& v) { return mean(v, axes, {.keep_dim = true}); };
  const Tensor centred = sub(x, mean_of(x));
  const Tensor rstd = rsqrt(add(mean_of(square(centred)), a.eps));
  const Tensor h = mul(centred, rstd);
  if (g.wants(kX)) {
    const Tensor gh =
        g.has_saved(kSavedWeight) ? mul(gy, to_dtype(g.saved(kSavedWeight), wide)) : gy;
    const Tensor along = mul(h, mean_of(mul(gh, h)));
    g.put(kX, to_dtype(mul(rstd, sub(sub(gh, mean_of(gh)), along)), t));
  }
  const u32 operands = g.node->n_edges;
  if (operands > kWeight && g.wants(kWeight))
    g.put(kWeight, to_dtype(sum_to(mul(gy, h), g.input_shape(kWeight)), t));
  if (operands > kBias && g.wants(kBias))
    g.put(kBias, to_dtype(sum_to(gy, g.input_shape(kBias)), t));
}

// Where a parameter's gradient is written, as rows of `axes` axes.
struct ParameterGradient {
  GradDestination to;
  std::optional<RowsOf> rows;

  void open(Backward& g, u32 i, int axes) {
    to = g.destination(i);
    rows.emplace(to.impl(), axes);
  }
  View view() const { return rows ? rows->view() : View{}; }
};

void layer_norm_backward(Backward& g) {
  const auto a = g.attribute<LayerNormAttributes>();
  if (g.recording()) return layer_norm_composite(g, a);
  const Tensor &x = g.saved(kSavedX), &stats = g.saved(kSavedStats);
  const RowsOf gy_rows(g.grad().impl(), a.axes), x_rows(x.impl(), a.axes);
  const View gy = gy_rows.view(), saved = view_of(stats.impl());
  const Launch launch = g.launch();
  const u32 operands = g.node->n_edges;
  const bool weight = operands > kWeight && g.wants(kWeight);
  const bool bias = operands > kBias && g.wants(kBias);
  if (weight || bias) {
    ParameterGradient gw, gb;
    if (weight) gw.open(g, kWeight, a.axes);
    if (bias) gb.open(g, kBias, a.axes);
    run(LayerNormBackwardParamsArgs{gw.view(), gb.view(), gy, x_rows.view(), saved,
                                    gw.to.accumulate(), gb.to.accumulate()},
        launch);
    g.put(kWeight, std::move(gw.to));
    g.put(kBias, std::move(gb.to));
  }
  if (!g.wants(kX)) return;
  Tensor gx = empty(x.shape(), {.dtype = x.dtype(), .device = x.device()});
  const RowsOf gx_rows(gx.impl(), a.axes);
  std::optional<RowsOf> w;
  if (g.has_saved(kSavedWeight)) w.emplace(g.saved(kSavedWeight).impl(), a.axes, true);
  run(LayerNormBackwardInputArgs{gx_rows.view(), gy, x_rows.view(), saved, w ? w->view() : View{}},
      launch);
  g.put(kX, std::move(gx));
}

// --- root mean square ---

// The same gradients from operators that record.
void rms_norm_composite(Backward& g, const LayerNormAttributes& a) {
  const Tensor& saved = g.saved(kSavedX);
  const DType t = saved.dtype(), wide = t == DType::f64 ? t : DType::f32;
  const Tensor x = to_dtype(saved, wide), gy = to_dtype(g.grad(), wide);
  std::vector<i64> axes;
  for (int d = x.ndim() - a.axes; d < x.ndim(); ++d) axes.push_back(d);
  const auto mean_of = [&](const Tensor& v) { return mean(v, axes, {.keep_dim = true}); };
  const Tensor rstd = rsqrt(add(mean_of(square(x)), a.eps));
  const Tensor h = mul(x, rstd);
  if (g.wants(kX)) {
    const Tensor gh =
        g.has_saved(kSavedWeight) ? mul(gy, to_dtype(g.saved(kSavedWeight), wide)) : gy;
    g.put(kX, to_dtype(mul(rstd, sub(gh, mul(h, mean_of(mul(gh, h))))), t));
  }
  if (g.node->n_edges > kWeight && g.wants(kWeight))
    g.put(kWeight, to_dtype(sum_to(mul(gy, h), g.input_shape(kWeight)), t));
}

void rms_norm_backward(Backward& g) {
  const auto a = g.attribute<LayerNormAttributes>();
  if (g.recording()) return rms_norm_composite(g, a);
  const Tensor &x = g.saved(kSavedX), &stats = g.saved(kSavedStats);
  const RowsOf gy_rows(g.grad().impl(), a.axes), x_rows(x.impl(), a.axes);
  const View gy = gy_rows.view(), saved = view_of(stats.impl());
  const Launch launch = g.launch();
  if (g.node->n_edges > kWeight && g.wants(kWeight)) {
    ParameterGradient gw;
    gw.open(g, kWeight, a.axes);
    run(LayerNormBackwardParamsArgs{gw.view(), {}, gy, x_rows.view(), saved, gw.to.accumulate()},
        launch);
    g.put(kWeight, std::move(gw.to));
  }
  if (!g.wants(kX)) return;
  Tensor gx = empty(x.shape(), {.dtype = x.dtype(), .device = x.device()});
  const RowsOf gx_rows(gx.impl(), a.axes);
  std::optional<RowsOf> w;
  if (g.has_saved(kSavedWeight)) w.emplace(g.saved(kSavedWeight).impl(), a.axes, true);
  run(RmsNormBackwardInputArgs{gx_rows.view(), gy, x_rows.view(), saved, w ? w->view() : View{}},
      launch);
  g.put(kX, std::move(gx));
}

Tensor rms_norm_again(Node& n, const Tensor& x, const Tensor* saved) {
  const auto a = n.attribute<LayerNormAttributes>();
  const Shape last(x.impl()->geometry.shape + x.ndim() - a.axes, a.axes);
  if (saved[kSavedWeight].defined()) return rms_norm(x, last, saved[kSavedWeight], {.eps = a.eps});
  return rms_norm(x, last, {.eps = a.eps});
}

Tensor rms_norm_forward(OpScope& s, const Shape& normalized, std::optional<double> given) {
  const double eps = given                     ? *given
                     : s.dtype() == DType::f64 ? std::numeric_limits<double>::epsilon()
                                               : double(std::numeric_limits<float>::epsilon());
  check_norm(s, normalized, eps);
  const int axes = normalized.ndim();
  const RowsOf x(s.impl(kX), axes);
  std::optional<RowsOf> weight;
  if (s.size() > kWeight) weight.emplace(s.impl(kWeight), axes, true);
  const View stats = save_for_backward(s, x, weight.has_value());
  Result y = s.result_like();
  const RowsOf out(y.impl(), axes);
  s.record(rms_norm_backward);
  s.set_attribute(LayerNormAttributes{axes, eps});
  run(RmsNormForwardArgs{out.view(), stats, x.view(), weight ? weight->view() : View{}, eps},
      s.launch());
  return s.finish(std::move(y));
}

}  // namespace

Tensor layer_norm(const In& x, const Shape& normalized_shape, const LayerNormOptions& options) {
  OpScope s(info::layer_norm, x);
  return layer_norm_forward(s, normalized_shape, options.eps);
}
Tensor layer_norm(const In& x, const Shape& normalized_shape, const In& weight,
                  const LayerNormOptions& options) {
  OpScope s(info::layer_norm, x, weight);
  return layer_norm_forward(s, normalized_shape, options.eps);
}
Tensor layer_norm(const In& x, const Shape& normalized_shape, const In& weight, const In& bias,
                  const LayerNormOptions& options) {
  OpScope s(info::layer_norm, x, weight, bias);
  return layer_norm_forward(s, normalized_shape, options.eps);
}

Tensor rms_norm(const In& x, const Shape& normalized_shape, const RmsNormOptions& options) {
  OpScope s(info::rms_norm, x);
  return rms_norm_forward(s, normalized_shape, options.eps);
}
Tensor rms_norm(const In& x, const Shape& normalized_shape, const In& weight,
                const RmsNormOptions& options) {
  OpScope s(info::rms_norm, x, weight);
  return rms_norm_forward(s, normalized_shape, options.eps);
}

namespace detail {
OpSavings norm_savings() {
  static constexpr OpSaving kSavings[] = {
      {.op = &info::layer_norm, .again = layer_norm_again, .operand_slot = kSavedX},
      {.op = &info::rms_norm, .again = rms_norm_again, .operand_slot = kSavedX}};
  return kSavings;
}
OpInfos norm_ops() {
  static constexpr const OpInfo* kOps[] = {&info::layer_norm, &info::rms_norm};
  return kOps;
}
}  // namespace detail

}  // namespace wt
