// Numbers of an operator that works along spatial axes.
#pragma once
#include "warptape/core/shape.h"

namespace wt {

// One number for all spatial axes of an operator, or one for each: 2, {2, 1}.
class PerAxis {
 public:
  template <Integer T>
  constexpr PerAxis(T value) : list_{{Dim(value).value}, 1} {}  // NOLINT: implicit by design
  constexpr PerAxis(std::initializer_list<Dim> values) {
    list_.assign(values.begin(), values.size());
  }
  template <Integer T>
  PerAxis(const std::vector<T>& values) {  // NOLINT
    if (values.size() > size_t(kMaxDims)) detail::too_many_dims(values.size());
    for (T v : values) list_.values[list_.count++] = Dim(v).value;
  }
  constexpr int size() const { return list_.count; }
  constexpr i64 operator[](int axis) const { return list_.values[list_.count == 1 ? 0 : axis]; }

 private:
  detail::DimList list_;
};

}  // namespace wt
