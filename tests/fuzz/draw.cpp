#include "warptape/tests/fuzz/draw.h"

#include <algorithm>
#include <limits>

namespace wt_test {

i64 Draw::number(i64 low, i64 high) {
  if (!wild_ || !chance(0.35)) return low + pick(high - low + 1);
  constexpr i64 k31 = i64{1} << 31;
  const i64 values[] = {-1,
                        0,
                        1,
                        2,
                        low - 1,
                        high + 1,
                        k31 - 1,
                        k31,
                        k31 + 1,
                        -k31,
                        -k31 - 1,
                        i64{1} << 40,
                        INT64_MAX,
                        INT64_MIN,
                        INT64_MAX - 1,
                        INT64_MIN + 1,
                        i64{1} << 62};
  return values[pick(i64(std::size(values)))];
}

Dims Draw::axes(int ndim) {
  if (chance(0.3)) return Dims::all();
  std::vector<i64> list;
  const i64 n = ndim ? pick(ndim + 1) : 0;
  const i64 first = ndim ? pick(ndim) : 0;
  for (i64 i = 0; i < n; ++i) list.push_back((first + i) % ndim - (flag() ? ndim : 0));
  if (wild_ && chance(0.2)) list.push_back(axis(ndim));
  return list.size() > size_t(kMaxDims) ? Dims::all() : Dims(list);
}

double Draw::real(double low, double high) {
  if (!wild_ || !chance(0.35)) return low + unit() * (high - low);
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double values[] = {0,     -0.0,   1,      -1,     kInf,  -kInf, std::nan(""),
                           1e300, -1e300, 1e-300, 0x1p31, 0x1p63};
  extremes_ = true;
  return values[pick(i64(std::size(values)))];
}

Scalar Draw::scalar() {
  switch (pick(4)) {
    case 0:
      return Scalar(flag());
    case 1:
      return Scalar(number(-3, 3));
    default:
      return Scalar(real(-3, 3));
  }
}

Shape Draw::shape(int least, int most) {
  Shape s;
  i64 n = 1;
  for (i64 d = least + pick(most - least + 1); d > 0; --d) {
    i64 k = size();
    if (n * k > 200) k = 1;
    n *= std::max<i64>(k, 1);
    s.push_back(k);
  }
  return s;
}

Shape Draw::bent(Shape s) {
  if (!wild_ || !chance(0.15)) return s;
  if (s.empty() || chance(0.3)) return shape();
  if (chance(0.3)) {
    s.erase(int(pick(s.ndim())));
    return s;
  }
  s[int(pick(s.ndim()))] = size();
  return s;
}

Shape Draw::narrower(const Shape& s) {
  Shape r;
  const int from = s.empty() || chance(0.6) ? 0 : int(pick(s.ndim()));
  for (int d = from; d < s.ndim(); ++d) r.push_back(chance(0.25) ? 1 : s[d]);
  return bent(r);
}

Shape Draw::as_argument(const Shape& s) {
  Shape r = s;
  for (int d = 0; d < r.ndim(); ++d)
    if (wild_ && chance(0.3)) r[d] = number(-1, 5);
  return r;
}

// Axes in another order in memory, steps of two, an offset, and axes of one element that is
// everywhere.
Tensor Draw::laid_out(const Shape& s, DType t, double low, double high, bool integers,
                      bool expands) {
  const int n = s.ndim();
  std::vector<int> order, how;
  for (int d = 0; d < n; ++d) order.push_back(d), how.push_back(0);
  const i64 kind = pick(5);  // of plain ones there are many
  if (kind > 1)
    for (int d = n; d-- > 1;) std::swap(order[size_t(d)], order[size_t(pick(d + 1))]);
  if (kind > 2)
    for (int& h : how) h = int(pick(4));
  Shape wide;
  for (int d = 0; d < n; ++d) {
    const int a = order[size_t(d)], h = how[size_t(a)];
    wide.push_back(h == 1 ? 2 * s[a] + 1 : h == 2 && expands ? 1 : s[a]);
  }
  i64 count = 1;
  for (const i64 k : wide) count *= k;
  std::vector<double> v;
  for (i64 i = 0; i < count; ++i) {
    const double x = low + unit() * (high - low);
    v.push_back(integers ? std::floor(x) : x);
  }
  if (chance(0.05))
    for (double& x : v)
      if (chance(0.2)) x = real(low, high);
  Tensor x = wt::tensor(v).to(t).reshape(wide);
  std::vector<i64> back(size_t(n), 0);
  for (int d = 0; d < n; ++d) back[size_t(order[size_t(d)])] = d;
  x = x.permute(back);
  for (int d = 0; d < n; ++d)
    if (how[size_t(d)] == 1) x = x.slice(d, {1, 2 * s[d] + 1, 2});
  x = x.expand(s);
  return plain_ ? x.clone().contiguous() : x;
}

Tensor Draw::tensor(const Shape& s, double low, double high) {
  DType t = type_;
  if (floats_ && !is_floating(t) && !chance(0.1)) t = flag() ? f32 : f64;
  if (chance(0.06)) t = DType(pick(kNumDTypes));
  const NoGrad no_grad;
  Tensor x = laid_out(s, t, low, high, !is_floating(t), true);
  if (records_ && is_floating(t) && computes(t) && chance(0.8)) {
    x = x.detach().set_requires_grad();
    leaves_.push_back(x);
  }
  return x;
}

Tensor Draw::index(const Shape& s, i64 limit) {
  const NoGrad no_grad;
  const DType t = chance(0.8) ? DType::i64 : chance(0.8) ? DType::i32 : DType(pick(kNumDTypes));
  const bool outside = wild_ && chance(0.3);
  return laid_out(s, t, outside ? -2 : 0, double(std::max<i64>(limit, 1) + (outside ? 2 : 0)), true,
                  true);
}

Tensor Draw::truth(const Shape& s) {
  const NoGrad no_grad;
  const DType t = chance(0.95) ? DType::boolean : DType(pick(kNumDTypes));
  return laid_out(s, t, 0, 2, true, true);
}

Tensor Draw::target(const Shape& s) {
  const NoGrad no_grad;
  return laid_out(s, chance(0.9) ? type_ : DType(pick(kNumDTypes)), -3, 3, !is_floating(type_),
                  wild_ && chance(0.2));
}

}  // namespace wt_test
