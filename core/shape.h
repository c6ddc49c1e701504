// Shapes, axes and index arithmetic: pure functions, no allocation.
#pragma once
#include <concepts>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "warptape/core/checked.h"
#include "warptape/core/error.h"
#include "warptape/core/geometry.h"
#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt {

// Any integer but bool: `sum(x, true)` must not compile.
template <class T>
concept Integer = std::integral<T> && !std::same_as<std::remove_cv_t<T>, bool>;

// One size or axis, from any integer without narrowing. Values beyond 2^63-1 throw ShapeError.
struct Dim {
  i64 value;
  template <Integer T>
  constexpr Dim(T v) : value(i64(v)) {  // NOLINT: implicit by design
    if constexpr (std::is_unsigned_v<T> && sizeof(T) == 8)
      if (v > T(INT64_MAX)) throw ShapeError("a size or axis beyond 2^63 - 1");
  }
};

namespace detail {
[[noreturn]] WT_COLD WT_API void too_many_dims(size_t n);

// Up to kMaxDims integers, inline.
struct DimList {
  i64 values[kMaxDims];
  u8 count = 0;
  constexpr void assign(const Dim* d, size_t n) {
    if (n > size_t(kMaxDims)) too_many_dims(n);
    count = u8(n);
    for (size_t i = 0; i < n; ++i) values[i] = d[i].value;
  }
};
}  // namespace detail

// The sizes of a tensor: `zeros({v.size(), 10})`, `reshape(x, {-1, 3})`.
class Shape {
 public:
  constexpr Shape() = default;
  constexpr Shape(std::initializer_list<Dim> sizes) { list_.assign(sizes.begin(), sizes.size()); }
  template <Integer T>
  Shape(std::span<const T> sizes) {  // NOLINT
    if (sizes.size() > size_t(kMaxDims)) detail::too_many_dims(sizes.size());
    for (T s : sizes) push_back(Dim(s).value);
  }
  template <Integer T>
  Shape(const std::vector<T>& sizes) : Shape(std::span<const T>(sizes)) {}  // NOLINT
  constexpr Shape(const i64* sizes, int n) {
    for (int i = 0; i < n; ++i) push_back(sizes[i]);
  }

  constexpr int ndim() const { return list_.count; }
  constexpr size_t size() const { return list_.count; }
  constexpr bool empty() const { return list_.count == 0; }
  constexpr i64 operator[](int i) const { return list_.values[i]; }
  constexpr i64& operator[](int i) { return list_.values[i]; }
  constexpr const i64* begin() const { return list_.values; }
  constexpr const i64* end() const { return list_.values + list_.count; }
  constexpr const i64* data() const { return list_.values; }
  constexpr void push_back(i64 v) {
    if (list_.count == kMaxDims) detail::too_many_dims(size_t(kMaxDims) + 1);
    list_.values[list_.count++] = v;
  }
  WT_API void insert(int at, i64 v);
  WT_API void erase(int at);
  friend constexpr bool operator==(const Shape& a, const Shape& b) {
    if (a.ndim() != b.ndim()) return false;
    for (int i = 0; i < a.ndim(); ++i)
      if (a[i] != b[i]) return false;
    return true;
  }

 private:
  detail::DimList list_;
};

// The axes of a reduction: one integer, a list, or all (the default where it is a default). `{}`
// reduces nothing. Negative axes count from the end.
class Dims {
 public:
  constexpr Dims() = default;
  static constexpr Dims all() {
    Dims d;
    d.all_ = true;
    return d;
  }
  template <Integer T>
  constexpr Dims(T axis) {  // NOLINT: `sum(x, 0)` in one hop
    const Dim d(axis);
    list_.assign(&d, 1);
  }
  constexpr Dims(std::initializer_list<Dim> axes) { list_.assign(axes.begin(), axes.size()); }
  template <Integer T>
  Dims(const std::vector<T>& axes) {  // NOLINT
    if (axes.size() > size_t(kMaxDims)) detail::too_many_dims(axes.size());
    for (T a : axes) list_.values[list_.count++] = Dim(a).value;
  }
  constexpr bool is_all() const { return all_; }
  constexpr size_t size() const { return list_.count; }
  constexpr i64 operator[](int i) const { return list_.values[i]; }

 private:
  detail::DimList list_;
  bool all_ = false;
};

inline Shape shape_of(const Geometry& g) { return Shape(g.shape, g.ndim); }
inline Shape strides_of(const Geometry& g) { return Shape(g.strides, g.ndim); }

// a * b and a + b; throw ShapeError("... overflows 64 bits") naming `what`.
WT_API i64 checked_mul(i64 a, i64 b, const char* what = "a size");
WT_API i64 checked_add(i64 a, i64 b, const char* what = "a size");
// Product of the sizes (1 for none). Throws ShapeError on a negative size or overflow.
WT_API i64 numel_of(const Shape& s);
// Axis in [-ndim, ndim) to [0, ndim). For ndim 0, -1 and 0 are allowed, as in PyTorch. Throws
// ShapeError naming `op` and the valid range.
WT_API int normalize_axis(const char* op, i64 axis, int ndim);
// "axis 2 is outside [-2, 1] of a 2-dimensional tensor"
std::string bad_axis(i64 axis, int ndim);
// Bit i set: axis i is reduced. Throws ShapeError on a bad or repeated axis.
WT_API u32 axis_mask(const char* op, const Dims& dims, int ndim);
// Shape after reducing the axes of `mask`.
WT_API Shape reduced_shape(const Shape& s, u32 mask, bool keep_dim);
// NumPy broadcasting of two shapes. Throws ShapeError naming `op` and both shapes.
WT_API Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b);
// C-order strides in elements.
WT_API Shape contiguous_strides(const Shape& s);

WT_API std::string to_string(const Shape& s);  // "[2, 3]"
WT_API std::ostream& operator<<(std::ostream& out, const Shape& s);

}  // namespace wt
