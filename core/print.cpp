// Printing tensors in PyTorch's layout, with dtype and device always named.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>

#include "warptape/core/tensor.h"

namespace wt {
namespace {

constexpr i64 kSummarise = 1000;  // elements beyond which only the edges of each axis are shown
constexpr i64 kEdge = 3;

// How all numbers of one tensor are shown: one width, fixed or scientific.
struct NumberFormat {
  bool integer = true;  // a dtype without fractions
  bool whole = true;    // floats that are all whole: "1."
  bool scientific = false;
  int width = 0;

  std::string text(double v) const {
    char b[40];
    if (std::isnan(v)) return "nan";
    if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
    if (integer)
      std::snprintf(b, sizeof b, "%lld", static_cast<long long>(v));
    else if (scientific)
      std::snprintf(b, sizeof b, "%.4e", v);
    else if (whole)
      std::snprintf(b, sizeof b, "%.0f.", v);
    else
      std::snprintf(b, sizeof b, "%.4f", v);
    return b;
  }
};

NumberFormat choose_format(const std::vector<double>& shown, DType t) {
  NumberFormat f;
  f.integer = !is_floating(t);
  double low = INFINITY, high = 0;
  for (double v : shown) {
    if (!std::isfinite(v)) continue;
    f.whole &= v == std::floor(v);
    const double a = std::fabs(v);
    if (a > 0) low = std::min(low, a), high = std::max(high, a);
  }
  if (!f.integer && high > 0)
    f.scientific = f.whole ? high > 1e8 : high > 1e8 || low < 1e-4 || high / low > 1e3 * 1e5;
  for (double v : shown) f.width = std::max(f.width, int(f.text(v).size()));
  return f;
}

struct Printer {
  const std::vector<double>& values;
  const Shape shape;
  const bool summarise;
  const bool boolean;
  NumberFormat format;
  std::string out{};

  i64 stride(int axis) const {
    i64 n = 1;
    for (int i = axis + 1; i < shape.ndim(); ++i) n *= shape[i];
    return n;
  }
  // Calls f with the indices shown along an axis; -1 stands for "...".
  template <class F>
  void each(int axis, F f) const {
    const i64 n = shape[axis];
    if (!summarise || n <= 2 * kEdge) {
      for (i64 i = 0; i < n; ++i) f(i);
      return;
    }
    for (i64 i = 0; i < kEdge; ++i) f(i);
    f(-1);
    for (i64 i = n - kEdge; i < n; ++i) f(i);
  }
  void number(double v) {
    const std::string t = boolean ? (v != 0 ? "true" : "false") : format.text(v);
    const int width = boolean ? 5 : format.width;
    out.append(size_t(std::max(0, width - int(t.size()))), ' ');
    out += t;
  }
  void row(int axis, i64 offset) {
    const int indent = 7 + axis + 1;  // "tensor(" and the brackets
    if (axis == shape.ndim()) return number(values[size_t(offset)]);
    out += '[';
    bool first = true;
    int column = 0;
    each(axis, [&](i64 i) {
      if (!first) {
        out += ',';
        if (axis + 1 == shape.ndim() && ++column % 12 != 0) {
          out += ' ';
        } else {
          const int lines = std::max(1, shape.ndim() - axis - 1);
          out.append(size_t(lines), '\n');
          out.append(size_t(indent), ' ');
        }
      }
      first = false;
      if (i < 0)
        out += "...";
      else
        row(axis + 1, offset + i * stride(axis));
    });
    out += ']';
  }
};

}  // namespace

std::string to_string(const Tensor& t) {
  if (!t.defined()) return "tensor(undefined)";
  const std::string tail = str(", ", dtype_name(t.dtype()), ", ", to_string(t.device()),
                               t.requires_grad() ? ", requires_grad" : "", ")");
  if (t.device().is_meta || !computes(t.dtype())) return str("tensor(..., shape=", t.shape(), tail);
  const NoGrad no_grad;
  const std::vector<double> values = t.to_vector<double>();
  std::string body;
  if (t.numel() == 0) {
    body = str("[], shape=", t.shape());
  } else {
    const bool summarise = t.numel() > kSummarise;
    Printer p{values, t.shape(), summarise, t.dtype() == DType::boolean, {}};
    p.format = choose_format(values, t.dtype());
    p.row(0, 0);
    body = p.out;
  }
  return "tensor(" + body + tail;
}

std::ostream& operator<<(std::ostream& out, const Tensor& t) { return out << to_string(t); }

}  // namespace wt
