#include "warptape/autograd/ops/internal/row_norm.h"

#include <limits>

#include "warptape/autograd/ops/internal/dtype_checks.h"
#include "warptape/autograd/ops/internal/reduced_axes.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/kernels/layer_norm.h"

namespace wt {

void check_row_norm(const OpScope& s, const RowNorm& norm, const Shape& normalized) {
  const Geometry& x = s.geometry(0);
  detail::require_floating(s);
  if (normalized.empty()) s.fail<ShapeError>("normalized_shape has no axis, at least 1 is needed");
  const int lead = x.ndim - normalized.ndim();
  if (lead < 0 || Shape(x.shape + lead, normalized.ndim()) != normalized)
    s.fail<ShapeError>(str("the last axes of x ", Shape(x.shape, x.ndim),
                           " \u2260 normalized_shape ", normalized));
  const auto check = [&](int operand, const char* name) {
    if (operand < 0) return;
    const Shape got = shape_of(s.geometry(operand));
    if (got != normalized)
      s.fail<ShapeError>(str(name, got, " \u2260 normalized_shape ", normalized));
  };
  check(norm.weight, "weight ");
  check(norm.bias, "bias ");
  if (!(norm.eps >= 0)) s.fail<UsageError>(str("eps must be at least 0, got ", norm.eps));
}

double rms_eps(const OpScope& s, const std::optional<double>& given) {
  if (given) return *given;
  return s.dtype() == DType::f64 ? std::numeric_limits<double>::epsilon()
                                 : double(std::numeric_limits<float>::epsilon());
}

Tensor new_row_stats(const OpScope& s, const View& rows) {
  i64 shape[2] = {3, 1};
  for (int k = 0; k + 1 < rows.ndim(); ++k) shape[1] *= rows.size(k);
  const DType t = s.dtype() == DType::f64 ? DType::f64 : DType::f32;
  return Tensor(new_contiguous(shape, 2, t, s.device()));
}

namespace {

bool wanted(const Backward& g, int operand) { return operand >= 0 && g.wants(u32(operand)); }

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

}  // namespace

void put_row_norm_parameters(Backward& g, const RowNorm& norm, const View& gy, const View& x,
                             const View& stats) {
  const bool weight = wanted(g, norm.weight), bias = wanted(g, norm.bias);
  if (!weight && !bias) return;
  ParameterGradient gw, gb;
  if (weight) gw.open(g, u32(norm.weight), norm.axes);
  if (bias) gb.open(g, u32(norm.bias), norm.axes);
  run(LayerNormBackwardParamsArgs{gw.view(), gb.view(), gy, x, stats, gw.to.accumulate(),
                                  gb.to.accumulate()},
      g.launch());
  if (weight) g.put(u32(norm.weight), std::move(gw.to));
  if (bias) g.put(u32(norm.bias), std::move(gb.to));
}

Tensor recorded_row_norm(Backward& g, const RowNorm& norm, const Tensor& normalised,
                         const Tensor& weight, bool wants_x) {
  const DType t = normalised.dtype(), wide = t == DType::f64 ? t : DType::f32;
  const Tensor x = to_dtype(normalised, wide), gy = to_dtype(g.grad(), wide);
  std::vector<i64> axes;
  for (int d = x.ndim() - norm.axes; d < x.ndim(); ++d) axes.push_back(d);
  const auto mean_of = [&](const Tensor& v) { return mean(v, axes, {.keep_dim = true}); };
  const Tensor centred = norm.centred ? detail::centred(x, axes) : x;
  const Tensor rstd = rsqrt(add(mean_of(square(centred)), norm.eps));
  const Tensor h = mul(centred, rstd);
  if (wanted(g, norm.weight))
    g.put(u32(norm.weight), to_dtype(sum_to(mul(gy, h), g.input_shape(u32(norm.weight))), t));
  if (wanted(g, norm.bias))
    g.put(u32(norm.bias), to_dtype(sum_to(gy, g.input_shape(u32(norm.bias))), t));
  if (!wants_x) return {};
  const Tensor gh = weight.defined() ? mul(gy, to_dtype(weight, wide)) : gy;
  const Tensor along = mul(h, mean_of(mul(gh, h)));
  return to_dtype(mul(rstd, sub(norm.centred ? sub(gh, mean_of(gh)) : gh, along)), t);
}

}  // namespace wt
