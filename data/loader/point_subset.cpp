#include "warptape/data/point_subset.h"

#include <algorithm>
#include <cmath>

#include "warptape/core/at_line.h"
#include "warptape/core/factories.h"
#include "warptape/core/in.h"
#include "warptape/core/operators.h"

namespace wt::data {

i64 RandomPointSubset::count(i64 points) const {
  if (!(ratio > 0 && ratio <= 1))
    throw UsageError(
        str("[RandomPointSubset] .ratio must be above 0 and at most 1, got ", ratio, at_line()));
  if (points < 1)
    throw UsageError(str("[RandomPointSubset] there must be points, got ", points, at_line()));
  return std::clamp<i64>(std::llround(ratio * double(points)), 1, points);
}

Tensor RandomPointSubset::indices(i64 points, Device device) const {
  return indices(1, points, device).reshape({-1});
}

// The places of the smallest keys. Keys of 53 bits: two that are equal, where the order would
// prefer the first point, come once in 2^53 pairs.
Tensor RandomPointSubset::indices(i64 sets, i64 points, Device device) const {
  const i64 n = count(points);
  const Tensor keys = rand({sets, points}, {.dtype = DType::f64, .device = device});
  return keys.argsort(1).narrow(1, 0, n).contiguous();
}

Tensor RandomPointSubset::operator()(const Tensor& x, i64 axis) const {
  if (axis != 0 && axis != 1)
    throw ShapeError(str("[RandomPointSubset] axis must be 0, or 1 of [sets, points, ...], got ",
                         axis, at_line()));
  if (x.ndim() <= axis)
    throw ShapeError(str("[RandomPointSubset] expected points along axis ", axis, ", got ",
                         x.shape(), at_line()));
  if (axis == 0) return x.index_select(0, indices(x.size(0), x.device()));
  const i64 sets = x.size(0), points = x.size(1), n = count(points);
  // Places among the points of all sets.
  const Tensor first = arange(0, sets * points, points, {.dtype = DType::i64, .device = x.device()})
                           .reshape({-1, 1});
  const Tensor at = (indices(sets, points, x.device()) + first).reshape({-1});
  Shape rest{x.shape()};
  Shape rows{sets * points}, out{sets, n};
  for (i64 k = 2; k < x.ndim(); ++k) rows.push_back(rest[k]), out.push_back(rest[k]);
  return x.reshape(rows).index_select(0, at).reshape(out);
}

}  // namespace wt::data
