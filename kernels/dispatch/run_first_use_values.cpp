#include "warptape/kernels/dispatch/run_first_use_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "warptape/core/error.h"
#include "warptape/core/half.h"
#include "warptape/core/memory/copy_bytes.h"

namespace wt::detail {
namespace {

size_t padded(const Touched::Block& b) { return size_t(b.bytes() + 7) & ~size_t{7}; }

// Calls f with the elements as T.
template <class F>
void with_elements(const char* data, DType t, F&& f) {
  const auto as = [&]<class T>(T) { f(reinterpret_cast<const T*>(data)); };
  switch (t) {
    case DType::f64:
      return as(double{});
    case DType::f32:
      return as(float{});
    case DType::f16:
      return as(Half{});
    case DType::bf16:
      return as(BFloat16{});
    case DType::i64:
      return as(i64{});
    case DType::i32:
      return as(i32{});
    default:
      return as(u8{});  // compared byte by byte
  }
}
template <class T>
double number(T v) {
  if constexpr (sizeof(T) == 2)
    return double(float(v));
  else
    return double(v);
}

double tolerance(DType t) {
  switch (t) {
    case DType::f64:
      return 1e-9;
    case DType::f32:
      return 2e-4;
    case DType::f16:
      return 1e-2;
    case DType::bf16:
      return 5e-2;
    default:
      return 0;
  }
}

// One operand's part of a comparison. Integers are equal or not.
template <class T>
void compare(const T* before, const T* got, const T* want, i64 n, double relative, double absolute,
             Comparison& result) {
  const auto changed = [&](i64 i) {
    return std::memcmp(got + i, before + i, sizeof(T)) != 0 ||
           std::memcmp(want + i, before + i, sizeof(T)) != 0;
  };
  if constexpr (std::is_integral_v<T>) {
    if (std::memcmp(got, want, size_t(n) * sizeof(T)) != 0) {
      result.verdict = Verdict::differs;
      result.error = 1;
    }
    return;
  }
  double squares = 0;
  i64 count = 0;
  for (i64 i = 0; i < n; ++i) {
    const double w = number(want[i]);
    if (!changed(i) || !std::isfinite(w)) continue;
    squares += w * w;
    ++count;
  }
  const double rms = count ? std::sqrt(squares / double(count)) : 0;
  for (i64 i = 0; i < n; ++i) {
    const double g = number(got[i]), w = number(want[i]);
    if (!changed(i) || g == w || (std::isnan(g) && std::isnan(w))) continue;
    if (!std::isfinite(w)) {
      if (result.verdict == Verdict::agrees) result.verdict = Verdict::unknown;
      continue;
    }
    const double difference = std::fabs(g - w);
    if (!(difference <= relative * (std::fabs(w) + rms) + absolute))
      result.verdict = Verdict::differs;
    const double error = difference / (rms > 0 ? rms : std::numeric_limits<double>::min());
    result.error = std::isfinite(error) ? std::max(result.error, error)
                                        : std::numeric_limits<double>::infinity();
  }
}

double largest_of(Device d, const Touched::Block& b) {
  Bytes bytes(bytes_of({b}));
  read_blocks(d, {b}, bytes);
  double largest = 0;
  with_elements(bytes.data(), b.dtype, [&](const auto* v) {
    for (i64 i = 0; i < b.elements; ++i) {
      const double a = std::fabs(number(v[i]));
      if (std::isfinite(a)) largest = std::max(largest, a);
    }
  });
  return largest;
}

}  // namespace

Touched& Touched::add(std::vector<Block>& to, View& v) {
  if (!v) return *this;
  i64 last = v.numel() == 0 ? -1 : 0;
  for (int i = 0; i < v.ndim() && last >= 0; ++i) last += (v.size(i) - 1) * v.stride(i);
  return add(to, v.data, last + 1, v.dtype());
}

size_t bytes_of(const std::vector<Touched::Block>& blocks) {
  size_t total = 0;
  for (const Touched::Block& b : blocks) total += padded(b);
  return total;
}

void read_blocks(Device d, const std::vector<Touched::Block>& blocks, Bytes& bytes) {
  char* to = bytes.data();
  for (const Touched::Block& b : blocks) {
    copy_bytes(to, Device::cpu(), b.data, d, b.bytes());
    to += padded(b);
  }
}

void write_blocks(Device d, const std::vector<Touched::Block>& blocks, const Bytes& bytes) {
  const char* from = bytes.data();
  for (const Touched::Block& b : blocks) {
    copy_bytes(b.data, d, from, Device::cpu(), b.bytes());
    from += padded(b);
  }
}

Comparison compare_blocks(const std::vector<Touched::Block>& blocks, const Bytes& before,
                          const Bytes& got, const Bytes& want, double terms, double largest) {
  Comparison result;
  size_t at = 0;
  for (const Touched::Block& b : blocks) {
    const double eps = b.dtype == DType::f64 ? 0x1p-53 : is_floating(b.dtype) ? 0x1p-24 : 0;
    const double absolute = 8 * eps * std::sqrt(std::max(terms, 1.0)) * largest;
    with_elements(want.data() + at, b.dtype, [&]<class T>(const T* wanted) {
      compare(reinterpret_cast<const T*>(before.data() + at),
              reinterpret_cast<const T*>(got.data() + at), wanted,
              i64(size_t(b.bytes()) / sizeof(T)), tolerance(b.dtype), absolute, result);
    });
    at += padded(b);
  }
  return result;
}

double largest_summand(Device d, const std::vector<Touched::Block>& ins, double terms) {
  std::vector<double> all;
  for (const Touched::Block& b : ins)
    if (is_floating(b.dtype)) all.push_back(largest_of(d, b));
  std::sort(all.rbegin(), all.rend());
  if (all.empty()) return 0;
  return all.size() > 1 && terms > 4 ? std::max(all[0], all[0] * all[1]) : all[0];
}

}  // namespace wt::detail
