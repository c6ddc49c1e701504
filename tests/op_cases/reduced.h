// Oracles of reductions: a function of the elements that one output is made of.
#pragma once
#include <algorithm>

#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {

using Values = std::vector<double>;
struct Reduced {
  double value, magnitude;
};

// The elements along `axes` of x, brought together in order for each place of the result.
inline Array reduce(const Array& x, const std::vector<int>& axes, bool keep,
                    const std::function<Reduced(const Values&)>& f) {
  std::vector<bool> gone(x.shape.size(), false);
  for (int a : axes) gone[size_t(a < 0 ? a + x.shape.ndim() : a)] = true;
  Shape kept = x.shape, out;
  for (int d = 0; d < x.shape.ndim(); ++d) {
    if (gone[size_t(d)]) kept[d] = 1;
    if (!gone[size_t(d)] || keep) out.push_back(kept[d]);
  }
  std::vector<Values> groups(size_t(count(kept)));
  for (i64 i = 0; i < count(x.shape); ++i)
    groups[size_t(ravel(unravel(i, x.shape), kept))].push_back(x.v[size_t(i)]);
  Array r{out, {}};
  for (const Values& g : groups) {
    const Reduced y = f(g);
    r.v.push_back(y.value);
    r.magnitude.push_back(y.magnitude);
    r.terms = std::max(r.terms, kTermsOfFormula + double(g.size()));
  }
  return r;
}

// The axes of `dims` as PyTorch's argument: "", ", dim=0" or ", dim=(0, 2)".
inline std::string torch_dim(const std::vector<int>& axes, bool all, bool keep) {
  std::string text;
  if (!all) {
    for (const int a : axes) text += (text.empty() ? "" : ", ") + std::to_string(a);
    text = axes.size() == 1 ? ", dim=" + text : ", dim=(" + text + ")";
  }
  return text + (keep && !all ? ", keepdim=True" : "");
}

}  // namespace wt_test
