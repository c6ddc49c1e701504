// Oracles that work along one axis, a line of elements at a time.
#pragma once
#include <functional>

#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {

struct Line {
  std::vector<double> v;
  std::vector<double> magnitude{};  // empty: |v|
};

// f of each line of x along the axis; the lines that come out may be of another length.
inline Array along(const Array& x, int axis, const std::function<Line(const Line&)>& f) {
  const int at = axis < 0 ? axis + x.shape.ndim() : axis;
  const i64 n = x.shape.ndim() ? x.shape[at] : 1;
  Shape lines = x.shape;
  if (x.shape.ndim()) lines[at] = 1;
  Array y{x.shape, {}};
  std::vector<Line> results;
  for (i64 l = 0; l < count(lines); ++l) {
    std::vector<i64> place = unravel(l, lines);
    Line line;
    for (i64 k = 0; k < n; ++k) {
      if (!place.empty()) place[size_t(at)] = k;
      line.v.push_back(x.v[size_t(ravel(place, x.shape))]);
    }
    results.push_back(f(line));
  }
  if (x.shape.ndim())
    y.shape[at] = results.empty() ? i64(f(Line{std::vector<double>(size_t(n))}).v.size())
                                  : i64(results[0].v.size());
  y.terms = kTermsOfFormula + double(n);
  y.v.resize(size_t(count(y.shape)));
  y.magnitude.resize(y.v.size());
  for (i64 l = 0; l < count(lines); ++l) {
    std::vector<i64> place = unravel(l, lines);
    const Line& line = results[size_t(l)];
    for (size_t k = 0; k < line.v.size(); ++k) {
      if (!place.empty()) place[size_t(at)] = i64(k);
      const size_t to = size_t(ravel(place, y.shape));
      y.v[to] = line.v[k];
      y.magnitude[to] = line.magnitude.empty() ? std::fabs(line.v[k]) : line.magnitude[k];
    }
  }
  return y;
}

}  // namespace wt_test
