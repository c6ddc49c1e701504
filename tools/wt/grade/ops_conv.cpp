// Convolution of pictures, forward.
#include <cmath>

#include "warptape/tests/tolerance.h"
#include "warptape/tools/wt/grade/ops.h"

namespace wt::grade {
namespace {

// sizes: pictures, channels in, channels out, rows, columns, side of the kernel, stride, padding,
// dilation, groups. flag: 1: no bias.
enum { kImages, kC, kO, kH, kW, kK, kStride, kAround, kDilation, kGroups };

i64 out_size(const Plan& p, int axis) {
  const i64 reach = p.sizes[kDilation] * (p.sizes[kK] - 1) + 1;
  return (p.sizes[size_t(axis)] + 2 * p.sizes[kAround] - reach) / p.sizes[kStride] + 1;
}

std::vector<Plan> conv_plans(Draws& d) {
  std::vector<Plan> all;
  const auto add = [&](std::vector<i64> s, int flag = 0) {
    s.insert(s.end(), {1, 1});
    all.push_back({.sizes = s, .flag = flag});
  };
  add({2, 3, 5, 9, d.odd(11, 19), 3, 1, 1});
  add({1, 1, 1, 1, 1, 1, 1, 0}), add({1, 2, 3, 7, 5, 3, 2, 1}, 1);
  add({3, 4, 9, 13, d.odd(11, 15), 5, 1, 2}), add({2, 3, d.odd(17, 35), 8, 9, 3, 2, 0});
  add({1, 16, 33, 6, 7, 3, 1, 1}, 1), add({1, 5, 4, 3, 3, 3, 1, 0});
  add({2, 8, 12, 5, d.odd(7, 11), 1, 1, 0}), add({1, 2, 3, 2, 2, 3, 1, 1});
  add({0, 2, 3, 5, 5, 3, 1, 1}), add({1, d.odd(33, 39), 3, 5, 6, 3, 1, 1});
  all.push_back({.sizes = {1, d.odd(17, 23), 5, 7, 7, 3, 1, 1, 1, 1}, .values = Values::whole});
  add_optional(all, {.sizes = {2, 3, 5, 11, 9, 3, 1, 2, 2, 1}});
  add_optional(all, {.sizes = {2, 6, 4, 7, 9, 3, 1, 1, 1, 2}});
  add_optional(all, {.sizes = {2, 6, 4, 7, 9, 3, 1, 1, 1, 1}, .lie = Lie::swapped});
  for (const DType t : {DType::f16, DType::bf16, DType::f64})
    add_optional(all, {.dtype = t, .sizes = {2, 16, 24, 7, 9, 3, 1, 1, 1, 1}});
  return all;
}

Problem make_conv(const Plan& plan, Draws& d) {
  const std::vector<i64>& s = plan.sizes;
  Problem p{.label =
                str(dtype_name(plan.dtype), " ", to_string(Shape{s[kImages], s[kC], s[kH], s[kW]}),
                    " to ", s[kO], " channels, kernel ", s[kK], ", stride ", s[kStride],
                    ", padding ", s[kAround])};
  if (s[kDilation] > 1) p.label += str(", dilation ", s[kDilation]);
  if (s[kGroups] > 1) p.label += str(", groups ", s[kGroups]);
  if (plan.flag & 1) p.label += ", no bias";
  if (plan.lie != Lie::dense) p.label += str(", ", lie_name(plan.lie));
  Plan dense = plan;
  dense.lie = Lie::dense;
  p.operands = {output("y", plan.dtype, {s[kImages], s[kO], out_size(plan, kH), out_size(plan, kW)},
                       plan.lie),
                input("x", plan, {s[kImages], s[kC], s[kH], s[kW]}, d),
                input("w", dense, {s[kO], s[kC] / s[kGroups], s[kK], s[kK]}, d),
                plan.flag & 1 ? absent("bias") : input("bias", dense, {s[kO]}, d)};
  p.exact = plan.values == Values::whole;
  for (int k = 0; k < 4; ++k) p.data.integers[k] = s[size_t(kStride + k)];
  return p;
}

void solve_conv(Problem& p) {
  Operand& y = p.operands[0];
  const Operand &x = p.operands[1], &w = p.operands[2], &bias = p.operands[3];
  const i64 stride = p.data.integers[0], padding = p.data.integers[1],
            dilation = p.data.integers[2], groups = p.data.integers[3];
  const i64 channels = w.shape[1], side = w.shape[2], per_group = y.shape[1] / groups;
  const i64 terms = channels * side * side;
  y.want.clear(), y.bound.clear();
  const i64 out = y.shape[1], rows = y.shape[2], columns = y.shape[3];
  for (i64 e = 0; e < numel_of(y.shape); ++e) {
    const i64 n = e / (out * rows * columns), o = e / (rows * columns) % out,
              r = e / columns % rows, q = e % columns;
    double sum = bias.absent ? 0 : bias.values[size_t(o)], size = std::fabs(sum);
    for (i64 t = 0; t < terms; ++t) {
      const i64 c = t / (side * side), i = r * stride - padding + t / side % side * dilation,
                j = q * stride - padding + t % side * dilation;
      if (i < 0 || j < 0 || i >= x.shape[2] || j >= x.shape[3]) continue;
      const i64 channel = o / per_group * channels + c;
      const double term =
          w.values[size_t(o * terms + t)] *
          x.values[size_t(((n * x.shape[1] + channel) * x.shape[2] + i) * x.shape[3] + j)];
      sum += term, size += std::fabs(term);
    }
    y.want.push_back(sum);
    y.bound.push_back(
        p.exact ? 0 : bound_of(y, x.dtype, wt_test::kTermsOfFormula + double(terms), sum, size));
  }
}

}  // namespace

void add_conv_ops(std::vector<GradedOp>& to) {
  const Plan score{.sizes = {1, 16, 32, 16, 16, 3, 1, 1, 1, 1}};
  to.push_back({"conv_forward", "conv_forward", "kernels/conv.h",
                "convolution of pictures, with bias", conv_plans, make_conv, solve_conv, score});
  to.push_back({"conv_implicit",
                "conv_forward",
                "kernels/conv.h",
                "the same as a product of matrices, of which one is never written",
                conv_plans,
                make_conv,
                solve_conv,
                score,
                {.most_asked = 16, .most_touched = 1.25}});
}

}  // namespace wt::grade
