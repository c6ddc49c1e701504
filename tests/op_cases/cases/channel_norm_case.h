// What the rows of normalisations by channels share, with an activation or without. Inputs: x, then
// weight and bias, then running mean and variance, where they are given.
#pragma once
#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {

inline const std::vector<std::string> kChannelNorm{"channel_stats", "channel_norm_forward",
                                                   "channel_norm_sums", "channel_norm_backward"};

struct Statistic {
  double mean = 0, variance = 0, size = 0;  // size: the mean of |x|
  double count = 0;
};
// Of every element's statistic: `groups` as in kernels/channel_norm.h.
inline i64 statistic_of(const Shape& s, i64 groups, i64 element) {
  const std::vector<i64> i = unravel(element, s);
  return groups ? i[0] * groups + i[1] / (s[1] / groups) : i[1];
}
inline std::vector<Statistic> statistics(const Array& x, i64 groups) {
  std::vector<Statistic> r(size_t(groups ? x.shape[0] * groups : x.shape[1]));
  const auto of = [&](size_t e) -> Statistic& {
    return r[size_t(statistic_of(x.shape, groups, i64(e)))];
  };
  for (size_t e = 0; e < x.v.size(); ++e) of(e).count += 1;
  for (size_t e = 0; e < x.v.size(); ++e) {
    of(e).mean += x.v[e] / of(e).count;
    of(e).size += std::fabs(x.v[e]) / of(e).count;
  }
  for (size_t e = 0; e < x.v.size(); ++e)
    of(e).variance += (x.v[e] - of(e).mean) * (x.v[e] - of(e).mean) / of(e).count;
  return r;
}

// `running`: the input that holds the running mean, whose variance follows it; 0: batch statistics.
inline Oracle norm_oracle(i64 groups, double eps, int parameters, int running) {
  return [=](const std::vector<Array>& in) {
    const Array& x = in[0];
    std::vector<Statistic> all = statistics(x, groups);
    if (running)
      for (size_t c = 0; c < all.size(); ++c)
        all[c].mean = in[size_t(running)].v[c], all[c].variance = in[size_t(running) + 1].v[c];
    Array r{x.shape, {}, kTermsOfFormula};
    for (size_t e = 0; e < x.v.size(); ++e) {
      const Statistic& s = all[size_t(statistic_of(x.shape, groups, i64(e)))];
      r.terms = kTermsOfFormula + s.count;
      const size_t c = size_t(unravel(i64(e), x.shape)[1]);
      const double w = parameters > 0 ? in[1].v[c] : 1, b = parameters > 1 ? in[2].v[c] : 0;
      const double rstd = 1 / std::sqrt(s.variance + eps);
      r.v.push_back((x.v[e] - s.mean) * rstd * w + b);
      const double size = std::fabs(x.v[e]) + (running ? std::fabs(s.mean) : s.size);
      r.magnitude.push_back(size * rstd * std::fabs(w) + std::fabs(b));
    }
    return r;
  };
}

inline Input buffer(const Shape& s, double low, double high) {
  Input in{s, low, high};
  in.wants_grad = false;
  return in;
}
inline std::vector<Input> inputs_of(const Shape& x, int parameters, bool running) {
  std::vector<Input> in{{x, -2, 3}};
  for (int k = 0; k < parameters; ++k) in.push_back({{x[1]}});
  if (running) {
    in.push_back(buffer({x[1]}, -1, 1));
    in.push_back(buffer({x[1]}, 0.5, 2));
  }
  return in;
}
inline Tensor nth(std::span<const Tensor> in, int k, int parameters) {
  return k <= parameters ? in[size_t(k)] : Tensor();
}
inline std::string torch_parameters(int parameters) {
  return parameters == 2 ? "b, c" : parameters == 1 ? "b, None" : "None, None";
}

}  // namespace wt_test
