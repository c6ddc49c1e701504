#include "warptape/core/shape.h"

#include <ostream>

namespace wt {
namespace detail {
void too_many_dims(size_t n) {
  throw ShapeError(str("a tensor has at most ", kMaxDims, " dimensions, got ", n));
}
}  // namespace detail

void Shape::insert(int at, i64 v) {
  push_back(0);
  for (int i = ndim() - 1; i > at; --i) list_.values[i] = list_.values[i - 1];
  list_.values[at] = v;
}

void Shape::erase(int at) {
  WT_INTERNAL_ASSERT(at >= 0 && at < ndim());
  for (int i = at; i + 1 < ndim(); ++i) list_.values[i] = list_.values[i + 1];
  --list_.count;
}

i64 checked_mul(i64 a, i64 b, const char* what) {
  i64 r;
  if (!mul_fits(a, b, r)) throw ShapeError(str(what, " overflows 64 bits"));
  return r;
}

i64 checked_add(i64 a, i64 b, const char* what) {
  i64 r;
  if (!add_fits(a, b, r)) throw ShapeError(str(what, " overflows 64 bits"));
  return r;
}

i64 numel_of(const Shape& s) {
  i64 n = 1;
  bool zero = false;
  for (i64 d : s) {
    if (d < 0) throw ShapeError(str("a negative size in shape ", s));
    if (d == 0)
      zero = true;
    else
      n = checked_mul(n, d, "the number of elements");
  }
  return zero ? 0 : n;
}

std::string bad_axis(i64 axis, int ndim) {
  const int n = ndim == 0 ? 1 : ndim;
  return str("axis ", axis, " is outside [", -n, ", ", n - 1, "] of a ", ndim,
             "-dimensional tensor");
}

int normalize_axis(const char* op, i64 axis, int ndim) {
  const int n = ndim == 0 ? 1 : ndim;
  if (axis < -n || axis >= n) throw ShapeError(str("[", op, "] ", bad_axis(axis, ndim)));
  return int(axis < 0 ? axis + n : axis);
}

u32 axis_mask(const char* op, const Dims& dims, int ndim) {
  if (dims.is_all()) return ndim == 0 ? 0 : (1u << ndim) - 1;
  u32 mask = 0;
  for (int i = 0; i < int(dims.size()); ++i) {
    const u32 bit = 1u << normalize_axis(op, dims[i], ndim);
    if (mask & bit) throw ShapeError(str("[", op, "] axis ", dims[i], " is named twice"));
    mask |= bit;
  }
  return ndim == 0 ? 0 : mask;
}

Shape reduced_shape(const Shape& s, u32 mask, bool keep_dim) {
  Shape r;
  for (int i = 0; i < s.ndim(); ++i) {
    if (!(mask >> i & 1))
      r.push_back(s[i]);
    else if (keep_dim)
      r.push_back(1);
  }
  return r;
}

Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b) {
  const int n = a.ndim() > b.ndim() ? a.ndim() : b.ndim();
  Shape r;
  for (int i = 0; i < n; ++i) {
    const int ia = i - (n - a.ndim()), ib = i - (n - b.ndim());
    const i64 x = ia < 0 ? 1 : a[ia], y = ib < 0 ? 1 : b[ib];
    if (x != y && x != 1 && y != 1)
      throw ShapeError(str("[", op, "] shapes ", a, " and ", b, " do not broadcast: ", x, " and ",
                           y, " in dimension ", i - n));
    r.push_back(x == 1 ? y : x);
  }
  return r;
}

Shape contiguous_strides(const Shape& s) {
  Shape r = s;
  i64 n = 1;
  for (int i = s.ndim(); i-- > 0;) {
    r[i] = n;
    n = wrapped_mul(n, s[i] > 0 ? s[i] : 1);
  }
  return r;
}

std::string to_string(const Shape& s) { return str(s); }

std::ostream& operator<<(std::ostream& out, const Shape& s) {
  out << '[';
  for (int i = 0; i < s.ndim(); ++i) out << (i ? ", " : "") << s[i];
  return out << ']';
}

}  // namespace wt
