#include "warptape/dist/combine.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "warptape/core/half.h"

namespace wt::dist {

namespace {

// What PyTorch's min and max do: a NaN wins.
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    return a < b || a != a ? a : b;
  }
};
struct Max {
  template <class T>
  T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};
struct Sum {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return T(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));
    else
      return a + b;
  }
};

// The elements do not overlap but where `to` is a or b itself, which ivdep allows.
template <class T, class F>
void loop(F f, void* to, const void* a, const void* b, i64 n) {
  T* const out = static_cast<T*>(to);
  const T *const x = static_cast<const T*>(a), *const y = static_cast<const T*>(b);
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) out[i] = f(x[i], y[i]);
}

template <class T>
void combine_as(ReduceOp op, void* to, const void* a, const void* b, i64 n) {
  if (op == ReduceOp::min)
    loop<T>(Min(), to, a, b, n);
  else if (op == ReduceOp::max)
    loop<T>(Max(), to, a, b, n);
  else
    loop<T>(Sum(), to, a, b, n);
}

template <class Stored>
void widen_half(void* to, const void* from, i64 n) {
  float* const out = static_cast<float*>(to);
  const Stored* const in = static_cast<const Stored*>(from);
  for (i64 i = 0; i < n; ++i) out[i] = float(in[i]);
}

template <class T, class Stored>
void finish_as(double divisor, void* to, const void* from, i64 n) {
  Stored* const out = static_cast<Stored*>(to);
  const T* const in = static_cast<const T*>(from);
  const T by = T(divisor);
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) out[i] = Stored(in[i] / by);
}

}  // namespace

void widen(DType t, void* to, const void* from, i64 n) {
  if (t == DType::f16)
    widen_half<Half>(to, from, n);
  else if (t == DType::bf16)
    widen_half<BFloat16>(to, from, n);
  else if (t == DType::boolean)
    std::transform(static_cast<const u8*>(from), static_cast<const u8*>(from) + n,
                   static_cast<u8*>(to), [](u8 v) { return u8(v != 0); });
  else if (to != from && n)
    std::memmove(to, from, size_t(n * item_size(t)));
}

void combine(ReduceOp op, DType t, void* to, const void* a, const void* b, i64 n) {
  switch (wire_dtype(t)) {
    case DType::f64:
      return combine_as<double>(op, to, a, b, n);
    case DType::f32:
      return combine_as<float>(op, to, a, b, n);
    case DType::i64:
      return combine_as<i64>(op, to, a, b, n);
    case DType::i32:
      return combine_as<i32>(op, to, a, b, n);
    default:  // u8, and bool as 0 and 1: min is "all", max is "any"
      return combine_as<u8>(op, to, a, b, n);
  }
}

void combine_own(ReduceOp op, DType t, void* to, const void* a, const void* b, i64 n) {
  if (!is_half(t) && t != DType::boolean) return combine(op, t, to, a, b, n);
  constexpr i64 kBlock = 2048;  // stays in the first-level cache
  alignas(64) float own[kBlock];
  const i64 wire = item_size(wire_dtype(t)), size = item_size(t);
  for (i64 i = 0; i < n; i += kBlock) {
    const i64 m = std::min(kBlock, n - i);
    widen(t, own, static_cast<const char*>(b) + i * size, m);
    combine(op, t, static_cast<char*>(to) + i * wire, static_cast<const char*>(a) + i * wire, own,
            m);
  }
}

void finish(ReduceOp op, DType t, void* to, const void* from, i64 n, int ranks) {
  const double divisor = op == ReduceOp::mean ? ranks : 1;
  if (t == DType::f16)
    finish_as<float, Half>(divisor, to, from, n);
  else if (t == DType::bf16)
    finish_as<float, BFloat16>(divisor, to, from, n);
  else if (t == DType::f32 && op == ReduceOp::mean)
    finish_as<float, float>(divisor, to, from, n);
  else if (t == DType::f64 && op == ReduceOp::mean)
    finish_as<double, double>(divisor, to, from, n);
  else if (to != from && n)
    std::memmove(to, from, size_t(n * item_size(t)));
}

}  // namespace wt::dist
