// Batch norm, in four steps.
#include <cmath>

#include "warptape/core/activation.h"
#include "warptape/tests/tolerance.h"
#include "warptape/tools/wt/grade/norm_stats.h"

namespace wt::grade {
namespace {

using wt_test::kTermsOfFormula;

// --- batch norm ---
// sizes: samples, channels, elements of one. flag: 1: groups of channels instead (a sample's half),
// 2: no weight, or no variance, 4: no bias, 8: relu behind it, kNoSums: none; and kCoarse.
constexpr int kNoSums = 32;

std::vector<Plan> channel_plans(Draws& d) {
  std::vector<Plan> all;
  const auto add = [&](i64 n, i64 c, i64 s) { all.push_back({.sizes = {n, c, s}}); };
  add(3, 5, 33);
  add(1, 1, 1);
  add(2, 3, 1), add(1, d.odd(3, 9), d.odd(101, 199)), add(4, 2, d.odd(259, 700));
  add(d.odd(65, 99), 3, 4), add(2, d.odd(33, 70), 3), add(3, d.odd(129, 160), 2);
  for (const DType t : {DType::f16, DType::bf16, DType::f64})
    add_optional(all, {.dtype = t, .sizes = {3, d.odd(5, 9), d.odd(33, 70)}});
  for (const Lie lie : {Lie::swapped, Lie::spread, Lie::padded})
    add_optional(all, {.sizes = {3, 4, d.odd(33, 70)}, .lie = lie});
  add_optional(all, {.sizes = {3, 6, d.odd(33, 70)}, .flag = 1});
  return all;
}
std::string channel_label(const Plan& plan, const std::string& more = "") {
  return label_of(plan,
                  str(plan.flag & 1 ? "two groups" : "batch", more, plan.flag & 8 ? ", relu" : "",
                      plan.flag & kCoarse ? ", " : "", plan.flag & kCoarse ? kCoarseLabel : ""));
}

// Which elements share a statistic: `at` of an element's sample and channel.
struct Sharing {
  i64 n, c, s, groups;
  explicit Sharing(const Problem& p, const Operand& x)
      : n(x.shape[0]), c(x.shape[1]), s(x.shape[2]), groups(p.data.integers[0]) {}
  i64 count() const { return groups ? n * groups : c; }
  i64 members() const { return groups ? c / groups * s : n * s; }
  i64 at(i64 sample, i64 channel) const {
    return groups ? sample * groups + channel / (c / groups) : channel;
  }
  // f(place in the values, sample, channel)
  template <class F>
  void each(const F& f) const {
    for (i64 e = 0; e < n * c * s; ++e) f(size_t(e), e / (c * s), e / s % c);
  }
};
std::vector<std::vector<double>> shared_elements(const Sharing& share, const Operand& x) {
  std::vector<std::vector<double>> all(size_t(share.count()));
  share.each([&](size_t e, i64 n, i64 c) { all[size_t(share.at(n, c))].push_back(x.values[e]); });
  return all;
}

Problem channel_problem(const Plan& plan, const std::string& more = "") {
  Problem p{.label = channel_label(plan, more)};
  p.data.integers[0] = plan.flag & 1 ? 2 : 0;
  p.data.integers[1] = i64(plan.flag & 8 ? Activation::relu : Activation::none);
  p.data.reals[0] = kNormEps;
  return p;
}

Problem make_channel_stats(const Plan& plan, Draws& d) {
  Problem p = channel_problem(plan, plan.flag & 2 ? ", no variance" : "");
  const Operand x = input("x", plan, Shape(plan.sizes), d);
  const i64 count = Sharing(p, x).count();
  const DType wide = wide_of(plan.dtype);
  p.operands = {output("stats", wide, {3, count}),
                plan.flag & 2 ? absent("variance") : output("variance", wide, {count}), x};
  return p;
}

void solve_channel_stats(Problem& p) {
  Operand &stats = p.operands[0], &variance = p.operands[1];
  const Operand& x = p.operands[2];
  const std::vector<std::vector<double>> all = shared_elements(Sharing(p, x), x);
  const size_t n = all.size();
  stats.want.assign(3 * n, 0);
  stats.bound.assign(3 * n, 0);
  variance.want.assign(n, 0), variance.bound.assign(n, 0);
  for (size_t k = 0; k < n; ++k) {
    double mean = 0, size = 0, square = 0;
    const double m = double(all[k].size());
    for (const double v : all[k]) mean += v / m, size += std::fabs(v) / m;
    for (const double v : all[k]) square += (v - mean) * (v - mean) / m;
    const double terms = kTermsOfFormula + m, rstd = 1 / std::sqrt(square + kNormEps);
    want_stats(stats, i64(k), x.dtype, terms, mean, size, rstd);
    variance.want[k] = square;
    variance.bound[k] = bound_of(variance, x.dtype, terms, square, square);
  }
}

std::vector<Plan> channel_stats_plans(Draws& d) {
  std::vector<Plan> all = channel_plans(d);
  all.push_back({.sizes = {3, 4, d.odd(65, 99)}, .values = Values::shifted});
  add_optional(all, {.sizes = {3, 4, d.odd(33, 70)}, .flag = 2});
  return all;
}

Operand channel_stats_of(const Problem& p, const Plan& plan, const Operand& x) {
  return stats_operand(shared_elements(Sharing(p, x), x), x.dtype, plan.flag & kCoarse);
}

// Of what takes statistics.
std::vector<Plan> coarse_channel_plans(Draws& d) {
  std::vector<Plan> all = channel_plans(d);
  all.push_back({.sizes = {3, 4, d.odd(33, 70)}, .flag = kCoarse});
  return all;
}

Problem make_channel_norm(const Plan& plan, Draws& d) {
  Problem p = channel_problem(
      plan, str(plan.flag & 2 ? ", no weight" : "", plan.flag & 4 ? ", no bias" : ""));
  const Shape s(plan.sizes);
  const Operand x = input("x", plan, s, d);
  p.operands = {output("y", plan.dtype, s, plan.lie), x, channel_stats_of(p, plan, x),
                plan.flag & 2 ? absent("weight") : parameter("weight", plan, s[1], d),
                plan.flag & 4 ? absent("bias") : parameter("bias", plan, s[1], d)};
  return p;
}

void solve_channel_norm(Problem& p) {
  Operand& y = p.operands[0];
  const Operand &x = p.operands[1], &weight = p.operands[3], &bias = p.operands[4];
  const Sharing share(p, x);
  y.want.resize(x.values.size()), y.bound.resize(x.values.size());
  share.each([&](size_t e, i64 n, i64 c) {
    const Hat h = hat_of(x.values[e], saved(p.operands[2], share.at(n, c)));
    const double w = weight.absent ? 1 : weight.values[size_t(c)];
    const double b = bias.absent ? 0 : bias.values[size_t(c)];
    const double z = h.value * w + b;
    y.want[e] = p.data.integers[1] && z < 0 ? 0 : z;
    y.bound[e] = bound_of(y, x.dtype, kTermsOfFormula, z, h.size * std::fabs(w) + std::fabs(b));
  });
}

std::vector<Plan> channel_norm_plans(Draws& d) {
  std::vector<Plan> all = coarse_channel_plans(d);
  for (const int flag : {2, 4, 8}) add_optional(all, {.sizes = {3, 4, 37}, .flag = flag});
  return all;
}

Problem make_channel_sums(const Plan& plan, Draws& d) {
  Problem p = channel_problem(plan);
  const Shape s(plan.sizes);
  const Operand x = input("x", plan, s, d);
  const DType wide = wide_of(plan.dtype);
  p.operands = {
      plan.flag & 1 ? output("sums", wide, {2, s[0], s[1]}) : output("sums", wide, {2, s[1]}),
      input("gy", plan, s, d), x, channel_stats_of(p, plan, x)};
  return p;
}

void solve_channel_sums(Problem& p) {
  Operand& sums = p.operands[0];
  const Operand &gy = p.operands[1], &x = p.operands[2];
  const Sharing share(p, x);
  const size_t half = size_t(share.groups ? share.n * share.c : share.c);
  std::vector<double> size(2 * half);
  sums.want.assign(2 * half, 0);
  share.each([&](size_t e, i64 n, i64 c) {
    const Hat h = hat_of(x.values[e], saved(p.operands[3], share.at(n, c)));
    const size_t at = size_t(share.groups ? n * share.c + c : c);
    const double g = gy.values[e];
    sums.want[at] += g, size[at] += std::fabs(g);
    sums.want[half + at] += g * h.value, size[half + at] += std::fabs(g) * h.size;
  });
  const double terms = kTermsOfFormula + double(share.groups ? share.s : share.n * share.s);
  sums.bound.clear();
  for (size_t k = 0; k < 2 * half; ++k)
    sums.bound.push_back(bound_of(sums, x.dtype, terms, sums.want[k], size[k]));
}

std::vector<Plan> channel_sums_plans(Draws& d) { return coarse_channel_plans(d); }

Problem make_channel_backward(const Plan& plan, Draws& d) {
  Problem p = make_channel_sums(plan, d);
  solve_channel_sums(p);
  Operand sums = p.operands[0];
  sums.written = false, sums.values = sums.want;
  for (double& v : sums.values) v = rounded(v, sums.dtype);
  const Shape s(plan.sizes);
  p.label = channel_label(
      plan, str(plan.flag & 2 ? ", no weight" : "", plan.flag & kNoSums ? ", no sums" : ""));
  p.operands = {output("gx", plan.dtype, s, plan.lie),
                p.operands[1],
                p.operands[2],
                p.operands[3],
                plan.flag & 2 ? absent("weight") : parameter("weight", plan, s[1], d),
                plan.flag & kNoSums ? absent("sums") : sums};
  return p;
}

void solve_channel_backward(Problem& p) {
  Operand& gx = p.operands[0];
  const Operand &gy = p.operands[1], &x = p.operands[2], &weight = p.operands[4],
                &sums = p.operands[5];
  const Sharing share(p, x);
  const auto scale = [&](i64 c) { return weight.absent ? 1 : weight.values[size_t(c)]; };
  // Of all channels that share a statistic: the sums, and their absolute values.
  std::vector<double> total[2], size[2];
  const i64 half = sums.absent ? 0 : numel_of(sums.shape) / 2;
  for (int k = 0; k < 2; ++k) {
    total[k].resize(size_t(share.count())), size[k].resize(size_t(share.count()));
    for (i64 i = 0; i < half; ++i) {
      const size_t at = size_t(share.at(i / share.c, i % share.c));
      const double v = sums.values[size_t(k * half + i)] * scale(i % share.c);
      total[k][at] += v, size[k][at] += std::fabs(v);
    }
  }
  const double m = double(share.members());
  gx.want.resize(x.values.size()), gx.bound.resize(x.values.size());
  share.each([&](size_t e, i64 n, i64 c) {
    const size_t at = size_t(share.at(n, c));
    const Stats s = saved(p.operands[3], i64(at));
    const Hat h = hat_of(x.values[e], s);
    const double g = gy.values[e] * scale(c);
    gx.want[e] = s.rstd * (g - total[0][at] / m - h.value * total[1][at] / m);
    const double magnitude = s.rstd * (std::fabs(g) + size[0][at] / m + h.size * size[1][at] / m);
    gx.bound[e] = bound_of(gx, x.dtype, 2 * kTermsOfFormula, gx.want[e], magnitude);
  });
}

std::vector<Plan> channel_backward_plans(Draws& d) {
  std::vector<Plan> all = coarse_channel_plans(d);
  for (const int flag : {2, kNoSums}) add_optional(all, {.sizes = {3, 4, 37}, .flag = flag});
  return all;
}

}  // namespace

void add_channel_norm_ops(std::vector<GradedOp>& to) {
  const Plan channels{.sizes = {8, 16, 128}};
  const char* const channel = "kernels/channel_norm.h";
  to.push_back({"batch_norm_stats", "channel_stats", channel,
                "mean, 1 / deviation and variance of each channel", channel_stats_plans,
                make_channel_stats, solve_channel_stats, channels});
  to.push_back({"batch_norm_forward", "channel_norm_forward", channel,
                "channels of mean 0 and variance 1, times weight, plus bias", channel_norm_plans,
                make_channel_norm, solve_channel_norm, channels});
  to.push_back({"batch_norm_sums", "channel_norm_sums", channel,
                "the sums over channels that batch norm's gradients need", channel_sums_plans,
                make_channel_sums, solve_channel_sums, channels});
  to.push_back({"batch_norm_backward", "channel_norm_backward", channel,
                "batch norm's gradient of its input", channel_backward_plans, make_channel_backward,
                solve_channel_backward, channels});
}

}  // namespace wt::grade
