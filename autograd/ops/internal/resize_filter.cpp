#include "warptape/autograd/ops/internal/resize_filter.h"

#include <algorithm>
#include <cmath>

#include "warptape/autograd/ops/gather.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"

namespace wt::detail {
namespace {

// Of each new element (columns): where its taps (rows) are, and their weights in f64. Made on the
// device, so that a captured graph has no copy from the host in it.
struct Taps {
  Tensor places, weights;
};

Tensor counted(i64 n, DType t, Device d) { return arange(0, n, 1, {.dtype = t, .device = d}); }
// Old elements from one new element to the next.
double step_of(i64 from, i64 to, const ResizeFilter& f) {
  if (f.align_corners) return to > 1 ? double(from - 1) / double(to - 1) : 0;
  return f.scale > 0 ? 1 / f.scale : double(from) / double(to);
}

// Keys' kernel (1981) at distances |x|: a piece for |x| <= 1, another for |x| < 2.
Tensor near_piece(const Tensor& x, double a) {
  return add(mul(mul(sub(mul(x, a + 2), a + 3), x), x), 1.0);
}
Tensor far_piece(const Tensor& x, double a) {
  return mul(sub(mul(add(mul(sub(x, 5.0), x), 8.0), x), 4.0), a);
}
Tensor keys(const Tensor& distance, double a) {
  return where(le(distance, 1.0), near_piece(distance, a),
               where(lt(distance, 2.0), far_piece(distance, a), 0.0));
}
Tensor triangle(const Tensor& distance) { return clamp(sub(1.0, distance), 0.0, 1.0); }

Taps cubic_taps(i64 from, i64 to, const ResizeFilter& f, Device d) {
  constexpr double kA = -0.75;  // PyTorch's
  const double step = step_of(from, to, f);
  const Tensor i = counted(to, DType::f64, d);
  const Tensor at = f.align_corners ? mul(i, step) : sub(mul(add(i, 0.5), step), 0.5);
  const Tensor low = floor(at);
  const Tensor tap = unsqueeze(sub(counted(4, DType::f64, d), 1.0), 1);
  // Of an element at a place that is 0 where all taps are at the border.
  const Tensor distance = abs(sub(tap, sub(at, low)));
  return {clamp(add(low, tap), 0.0, double(from - 1)), keys(distance, kA)};
}

Taps antialias_taps(i64 from, i64 to, const ResizeFilter& f, Device d) {
  constexpr double kA = -0.5;  // PyTorch's with antialias, and Pillow's
  const double step = step_of(from, to, f), width = std::max(step, 1.0);
  const double support = (f.cubic ? 2 : 1) * width;
  const i64 taps = i64(std::min(std::ceil(support) * 2 + 1, double(from)));
  const Tensor center = mul(add(counted(to, DType::f64, d), 0.5), step);
  const Tensor first = clamp(trunc(add(sub(center, support), 0.5)), 0.0, double(from));
  const Tensor end = clamp(trunc(add(add(center, support), 0.5)), 0.0, double(from));
  const Tensor place = add(first, unsqueeze(counted(taps, DType::f64, d), 1));
  const Tensor distance = abs(mul(add(sub(place, center), 0.5), 1 / width));
  const Tensor weights =
      where(lt(place, end), f.cubic ? keys(distance, kA) : triangle(distance), 0.0);
  const Tensor total = sum(weights, 0, {.keep_dim = true});
  // A tap beyond the last one weighs nothing, and reads what that one reads.
  return {clamp(minimum(place, sub(end, 1.0)), 0.0, double(from - 1)),
          div(weights, where(eq(total, 0.0), 1.0, total))};
}

}  // namespace

Tensor filtered_axis(const Tensor& x, int axis, i64 size, const ResizeFilter& f) {
  const auto make = f.antialias ? antialias_taps : cubic_taps;
  const Taps taps = make(x.size(axis), size, f, x.device());
  const Tensor places = to_dtype(taps.places, DType::i64);
  Shape column;
  for (int d = 0; d < x.ndim(); ++d) column.push_back(d == axis ? size : 1);
  Tensor y;
  for (i64 k = 0; k < places.size(0); ++k) {
    const Tensor weight = reshape(to_dtype(select(taps.weights, 0, k), x.dtype()), column);
    const Tensor part = mul(index_select(x, axis, select(places, 0, k)), weight);
    y = y.defined() ? add(y, part) : part;
  }
  return y;
}

}  // namespace wt::detail
