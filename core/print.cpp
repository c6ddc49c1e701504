// Printing tensors in PyTorch's layout, with dtype and device always named.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>

#include "warptape/core/slices.h"
#include "warptape/core/tensor.h"
// How gdb prints them, in a section of its own that every program with this file in it carries.
#include "warptape/gdb_printers.inc"

namespace wt {
namespace {

constexpr i64 kSummarise = 1000;  // elements beyond which only the edges of each axis are shown
constexpr i64 kEdge = 3;
constexpr int kLineWidth = 80, kIndent = 7;  // "tensor("

// Places along an axis that are shown; -1 stands for "...".
std::vector<i64> shown_along(i64 n, bool summarise) {
  std::vector<i64> places;
  const bool cut = summarise && n > 2 * kEdge;
  for (i64 i = 0; i < (cut ? kEdge : n); ++i) places.push_back(i);
  if (!cut) return places;
  places.push_back(-1);
  for (i64 i = n - kEdge; i < n; ++i) places.push_back(i);
  return places;
}

std::string formatted(const char* format, double v) {
  char b[400];
  std::snprintf(b, sizeof b, format, v);
  return b;
}

// The texts of all numbers of one tensor: one width, fixed or scientific (PyTorch's _Formatter).
std::vector<std::string> float_texts(const std::vector<double>& values,
                                     const std::vector<i64>& shown) {
  double low = INFINITY, high = 0;
  bool whole = true;
  for (const i64 i : shown) {
    const double v = values[size_t(i)], a = std::fabs(v);
    if (!std::isfinite(v) || v == 0) continue;
    whole &= v == std::ceil(v);
    low = std::min(low, a), high = std::max(high, a);
  }
  const bool scientific = high > 0 && (high / low > 1000 || high > 1e8 || (!whole && low < 1e-4));
  const char* const format = scientific ? "%.4e" : whole ? "%.0f." : "%.4f";
  std::vector<std::string> texts(values.size());
  size_t width = 0;
  for (const i64 i : shown) {
    const double v = values[size_t(i)];
    texts[size_t(i)] = std::isnan(v)   ? "nan"
                       : std::isinf(v) ? (v > 0 ? "inf" : "-inf")
                                       : formatted(format, v);
    if (std::isfinite(v) && v != 0) width = std::max(width, texts[size_t(i)].size());
  }
  for (const i64 i : shown) {
    std::string& t = texts[size_t(i)];
    if (t.size() < width) t.insert(0, width - t.size(), ' ');
  }
  return texts;
}

// The same for what has no fractions: all as wide as the widest.
template <class T, class F>
std::vector<std::string> texts_of(const std::vector<T>& values, const std::vector<i64>& shown,
                                  F text) {
  std::vector<std::string> texts(values.size());
  size_t width = 0;
  for (const i64 i : shown) {
    texts[size_t(i)] = text(values[size_t(i)]);
    width = std::max(width, texts[size_t(i)].size());
  }
  for (const i64 i : shown) texts[size_t(i)].insert(0, width - texts[size_t(i)].size(), ' ');
  return texts;
}

std::vector<std::string> texts_of(const Tensor& t, const std::vector<i64>& shown) {
  const auto digits = [](auto v) { return std::to_string(v); };
  if (is_floating(t.dtype())) return float_texts(t.to_vector<double>(), shown);
  if (t.dtype() == DType::boolean)
    return texts_of(t.to_vector<u8>(), shown,
                    [](u8 v) { return std::string(v ? "True" : "False"); });
  if (t.dtype() == DType::u64) return texts_of(t.to_vector<u64>(), shown, digits);
  return texts_of(t.to_vector<i64>(), shown, digits);
}

struct Printer {
  const Shape shape;
  const bool summarise;
  std::vector<std::string> texts{};
  std::string out{};

  i64 stride(int axis) const {
    i64 n = 1;
    for (int i = axis + 1; i < shape.ndim(); ++i) n *= shape[i];
    return n;
  }
  // The offsets of all elements that are shown.
  void collect(int axis, i64 offset, std::vector<i64>& shown) const {
    if (axis == shape.ndim()) return shown.push_back(offset);
    for (const i64 i : shown_along(shape[axis], summarise))
      if (i >= 0) collect(axis + 1, offset + i * stride(axis), shown);
  }
  void new_line(int axis, int lines) {
    out.append(size_t(lines), '\n');
    out.append(size_t(kIndent + axis + 1), ' ');
  }
  void vector(int axis, i64 offset) {
    const std::vector<i64> places = shown_along(shape[axis], summarise);
    size_t width = 0;
    for (const i64 i : places)
      if (i >= 0) width = std::max(width, texts[size_t(offset + i)].size());
    const int per_line = std::max(1, (kLineWidth - kIndent - axis) / (int(width) + 2));
    out += '[';
    for (size_t k = 0; k < places.size(); ++k) {
      if (k) out += ',';
      if (k && int(k) % per_line == 0)
        new_line(axis, 1);
      else if (k)
        out += ' ';
      out += places[k] < 0 ? " ..." : texts[size_t(offset + places[k])];
    }
    out += ']';
  }
  void print(int axis, i64 offset) {
    if (axis == shape.ndim()) {
      out += texts[size_t(offset)];
      return;
    }
    if (axis + 1 == shape.ndim()) return vector(axis, offset);
    out += '[';
    bool first = true;
    for (const i64 i : shown_along(shape[axis], summarise)) {
      if (!first) {
        out += ',';
        new_line(axis, shape.ndim() - axis - 1);
      }
      first = false;
      if (i < 0)
        out += "...";
      else
        print(axis + 1, offset + i * stride(axis));
    }
    out += ']';
  }
};

}  // namespace

std::string to_string(const Tensor& t) {
  if (!t.defined()) return "tensor(undefined)";
  if (detail::slices_of(t.impl())) {
    const detail::Unsliced all;
    return "slices of vmap(): " + to_string(Tensor(detail::every_slice(t.impl())));
  }
  const std::string tail = str(", ", dtype_name(t.dtype()), ", ", to_string(t.device()),
                               t.requires_grad() ? ", requires_grad" : "", ")");
  if (t.device().is_meta) return str("tensor(..., shape=", t.shape(), tail);
  if (t.numel() == 0) return str("tensor([], shape=", t.shape(), tail);
  const NoGrad no_grad;
  Printer p{t.shape(), t.numel() > kSummarise};
  std::vector<i64> shown;
  p.collect(0, 0, shown);
  p.texts = texts_of(t, shown);
  p.print(0, 0);
  return "tensor(" + p.out + tail;
}

std::ostream& operator<<(std::ostream& out, const Tensor& t) { return out << to_string(t); }
std::ostream& operator<<(std::ostream& out, DType t) { return out << dtype_name(t); }

}  // namespace wt
