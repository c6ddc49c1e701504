// Matrix products, plain and with bias and GELU behind them.
#include <cmath>

#include "warptape/core/activation.h"
#include "warptape/tests/tolerance.h"
#include "warptape/tools/wt/grade/ops.h"

namespace wt::grade {
namespace {

// flag: 1: bias, 2: gelu behind it, 4: b is transposed in memory. sizes: m, n, k.

std::vector<Plan> product_plans(Draws& d, int flag) {
  std::vector<Plan> all;
  const auto add = [&](i64 m, i64 n, i64 k) { all.push_back({.sizes = {m, n, k}, .flag = flag}); };
  add(33, d.odd(17, 29), d.odd(35, 65));
  add(1, 1, 1), add(5, 7, 3), add(16, 16, 16), add(32, 32, 32), add(d.odd(3, 9), 1, d.odd(33, 99));
  add(1, d.odd(33, 99), d.odd(3, 9)), add(64, 48, d.odd(31, 41)), add(d.odd(65, 80), 33, 8);
  add(2, 3, 0), add(0, 4, 3);
  all.push_back({.sizes = {5, 9, d.odd(513, 799)}, .values = Values::whole, .flag = flag});
  all.push_back({.sizes = {9, 19, 21}, .values = Values::special, .flag = flag & ~2});
  if (flag & 2) all.pop_back();
  add_optional(all, {.sizes = {17, d.odd(17, 29), 33}, .flag = flag | 4});
  add_optional(all, {.sizes = {17, d.odd(17, 29), 33}, .lie = Lie::padded, .flag = flag});
  for (const DType t : {DType::f16, DType::bf16, DType::f64})
    for (const i64 k : {i64{24}, d.odd(200, 300)})
      add_optional(all, {.dtype = t,
                         .sizes = {9, 24, k},
                         .values = is_half(t) && k > 100 ? Values::ramp : Values::usual,
                         .flag = flag});
  return all;
}
std::vector<Plan> matmul_plans(Draws& d) {
  std::vector<Plan> all = product_plans(d, 0);
  add_optional(all, {.sizes = {9, 24, 33}, .flag = 1});
  return all;
}
std::vector<Plan> matmul_gelu_plans(Draws& d) {
  std::vector<Plan> all = product_plans(d, 3);
  add_optional(all, {.sizes = {9, 24, 33}, .flag = 0});
  return all;
}

// The required ones, all of them in one dtype.
std::vector<Plan> plans_of(const std::vector<Plan>& from, DType t) {
  std::vector<Plan> all;
  for (Plan plan : from) {
    if (!plan.required) continue;
    plan.dtype = t;
    all.push_back(plan);
  }
  return all;
}
std::vector<Plan> matmul_tiled_plans(Draws& d) {
  std::vector<Plan> all = plans_of(product_plans(d, 0), DType::f32);
  all.push_back({.sizes = {65, 129, d.odd(33, 47)}});
  return all;
}
std::vector<Plan> matmul_half_plans(Draws& d) {
  std::vector<Plan> all = plans_of(product_plans(d, 0), DType::f16);
  all.push_back({.dtype = DType::f16, .sizes = {17, 24, d.odd(257, 399)}, .values = Values::ramp});
  all.push_back({.dtype = DType::f16, .sizes = {72, 136, 64}});
  return all;
}

Problem make_product(const Plan& plan, Draws& d) {
  Problem p{.label =
                label_of(plan, str(plan.flag & 1 ? "bias, " : "", plan.flag & 2 ? "gelu, " : "",
                                   plan.flag & 4 ? "b transposed" : "m, n, k"))};
  const i64 m = plan.sizes[0], n = plan.sizes[1], k = plan.sizes[2];
  Plan dense = plan, second = plan;
  dense.lie = Lie::dense;
  if (plan.flag & 4) second.lie = Lie::swapped;
  p.operands = {output("out", plan.dtype, {m, n}, plan.lie), input("a", plan, {m, k}, d),
                input("b", second, {k, n}, d),
                plan.flag & 1 ? input("bias", dense, {n}, d) : absent("bias")};
  p.exact = plan.values == Values::whole && !(plan.flag & 2) && !is_half(plan.dtype);
  p.data.integers[0] = i64(plan.flag & 2 ? Activation::gelu : Activation::none);
  return p;
}

void solve_product(Problem& p) {
  Operand& out = p.operands[0];
  const Operand &a = p.operands[1], &b = p.operands[2], &bias = p.operands[3];
  const i64 m = out.shape[0], n = out.shape[1], k = a.shape[1];
  const bool gelu = p.data.integers[0] != 0;
  out.want.clear(), out.bound.clear();
  for (i64 i = 0; i < m; ++i)
    for (i64 j = 0; j < n; ++j) {
      double z = 0, size = 0;
      for (i64 l = 0; l < k; ++l) {
        const double term = a.values[size_t(i * k + l)] * b.values[size_t(l * n + j)];
        z += term, size += std::fabs(term);
      }
      if (!bias.absent) z += bias.values[size_t(j)], size += std::fabs(bias.values[size_t(j)]);
      const double want = gelu ? 0.5 * z * std::erfc(-z * M_SQRT1_2) : z;
      double bound = p.exact ? 0
                             : bound_of(out, out.dtype, wt_test::kTermsOfFormula + double(k), want,
                                        size + (gelu ? std::fabs(z) : 0));
      // gelu's slope is at most 1.13; variants may round z to 16 bits before it.
      if (gelu) bound = 1.13 * bound + (is_half(out.dtype) ? bound_of(out, out.dtype, 0, z, 0) : 0);
      out.want.push_back(want), out.bound.push_back(bound);
    }
}

}  // namespace

void add_matmul_ops(std::vector<GradedOp>& to) {
  to.push_back({"matmul",
                "matmul",
                "kernels/matmul.h",
                "a product of matrices",
                matmul_plans,
                make_product,
                solve_product,
                {.sizes = {64, 64, 64}}});
  to.push_back({"matmul_tiled",
                "matmul",
                "kernels/matmul.h",
                "the same in f32, where tiles keep it from asking memory again and again",
                matmul_tiled_plans,
                make_product,
                solve_product,
                {.sizes = {128, 128, 64}},
                {.most_asked = 5}});
  to.push_back({"matmul_half",
                "matmul",
                "kernels/matmul.h",
                "the same in f16, by tensor cores",
                matmul_half_plans,
                make_product,
                solve_product,
                {.dtype = DType::f16, .sizes = {128, 128, 64}},
                {.tensor_cores = true}});
  to.push_back({"matmul_gelu",
                "matmul",
                "kernels/matmul.h",
                "gelu(a b + bias): a linear layer and its activation in one",
                matmul_gelu_plans,
                make_product,
                solve_product,
                {.sizes = {64, 64, 64}, .flag = 3}});
}

}  // namespace wt::grade
