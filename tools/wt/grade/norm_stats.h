// What normalisations save for their gradients, as operands of those. Internal.
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "warptape/tools/wt/grade/ops.h"

namespace wt::grade {

inline constexpr double kNormEps = 1e-5;

// A flag of plans: the mean that is given has few bits, and so much is left of it that a result
// without what is left is wrong.
inline constexpr int kCoarse = 16;
inline const char* const kCoarseLabel = "a mean with much left over";

inline DType wide_of(DType t) { return t == DType::f64 ? DType::f64 : DType::f32; }

// Mean, what its rounding left of it, and 1 / deviation, as a forward saves them.
struct Stats {
  double mean = 0, left = 0, rstd = 0;
  double all() const { return mean + left; }
};
inline Stats stats_of(const std::vector<double>& x, DType t, bool coarse) {
  double mean = 0, variance = 0;
  for (const double v : x) mean += v / double(x.size());
  for (const double v : x) variance += (v - mean) * (v - mean) / double(x.size());
  Stats s;
  s.mean = coarse ? std::round(8 * mean) / 8 : rounded(mean, t);
  s.left = rounded(mean - s.mean, t);
  s.rstd = rounded(1 / std::sqrt(variance + kNormEps), t);
  return s;
}

// stats: [3, groups of elements].
inline Operand stats_operand(const std::vector<std::vector<double>>& groups, DType t, bool coarse) {
  const i64 n = i64(groups.size());
  Operand o{.name = "stats", .dtype = wide_of(t), .shape = {3, n}};
  o.values.resize(size_t(3 * n));
  for (i64 k = 0; k < n; ++k) {
    const Stats s = stats_of(groups[size_t(k)], o.dtype, coarse);
    o.values[size_t(k)] = s.mean;
    o.values[size_t(n + k)] = s.left;
    o.values[size_t(2 * n + k)] = s.rstd;
  }
  return o;
}
inline Stats saved(const Operand& stats, i64 k) {
  const i64 n = stats.shape[1];
  return {stats.values[size_t(k)], stats.values[size_t(n + k)], stats.values[size_t(2 * n + k)]};
}

// A standardised element, and what its rounding is relative to.
struct Hat {
  double value, size;
};
inline Hat hat_of(double x, const Stats& s) {
  return {(x - s.all()) * s.rstd, (std::fabs(x) + std::fabs(s.mean)) * s.rstd};
}

// Of what a forward is to save: mean and rstd of each group, and no more than a sum for what is
// left of the mean. `terms` of the mean and of rstd; size: the elements' mean absolute value.
inline void want_stats(Operand& stats, i64 k, DType compute, double terms, double mean, double size,
                       double rstd) {
  const i64 n = stats.shape[1];
  stats.rest = n;
  stats.want[size_t(k)] = mean, stats.want[size_t(n + k)] = 0;
  stats.want[size_t(2 * n + k)] = rstd;
  for (const i64 at : {k, n + k})
    stats.bound[size_t(at)] = bound_of(stats, compute, terms, mean, size);
  stats.bound[size_t(2 * n + k)] = bound_of(stats, compute, terms, rstd, rstd);
}

inline Operand parameter(const std::string& name, const Plan& plan, i64 n, Draws& d) {
  Plan dense = plan;
  dense.lie = Lie::dense, dense.values = Values::usual;
  return input(name, dense, {n}, d);
}

}  // namespace wt::grade
