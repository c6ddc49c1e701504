// Copies and fills on the cpu.
#include "warptape/kernels/copy.h"

#include <cstring>
#include <limits>

#include "warptape/core/float8.h"
#include "warptape/core/half.h"
#include "warptape/core/numbers/narrow.h"
#include "warptape/kernels/common/strided.h"
#include "warptape/kernels/copy/copy_cpu.h"

namespace wt {

static_assert(__LDBL_MANT_DIG__ >= 64, "the reference carries i64, u64 and f64 in a long double");

namespace {

template <class T>
T element(const void* p, i64 i) {
  return static_cast<const T*>(p)[i];
}

// Every value goes through a long double, which holds each of them exactly.
long double load_value(DType t, const void* p, i64 i) {
  switch (t) {
    case DType::f64:
      return element<double>(p, i);
    case DType::f32:
      return element<float>(p, i);
    case DType::f16:
      return float(element<Half>(p, i));
    case DType::bf16:
      return float(element<BFloat16>(p, i));
    case DType::f8_e4m3:
      return detail::e4m3_to_float(element<u8>(p, i));
    case DType::f8_e5m2:
      return detail::e5m2_to_float(element<u8>(p, i));
    case DType::boolean:
      return element<u8>(p, i) != 0;
    case DType::i8:
      return element<i8>(p, i);
    case DType::i16:
      return element<i16>(p, i);
    case DType::i32:
      return element<i32>(p, i);
    case DType::i64:
      return element<i64>(p, i);
    case DType::u8:
      return element<u8>(p, i);
    case DType::u16:
      return element<u16>(p, i);
    case DType::u32:
      return element<u32>(p, i);
    case DType::u64:
      return element<u64>(p, i);
  }
  return 0;
}

template <class T>
void put(void* p, i64 i, T v) {
  static_cast<T*>(p)[i] = v;
}

template <class T>
void put_integer(void* p, i64 i, long double v, bool from_float) {
  using Limits = std::numeric_limits<T>;
  if (!from_float)  // an integer in [-2^63, 2^64): cut to T
    return put<T>(p, i, v < 0 ? T(i64(v)) : T(u64(v)));
  put<T>(p, i,
         v != v               ? T(0)
         : v <= Limits::min() ? Limits::min()
         : v >= Limits::max() ? Limits::max()
                              : T(v));
}

void store_value(DType t, void* p, i64 i, long double v, bool from_float) {
  switch (t) {
    case DType::f64:
      return put(p, i, double(v));
    case DType::f32:
      return put(p, i, float(v));
    case DType::f16:
      return put(p, i, Half(detail::float_to_odd(v)));
    case DType::bf16:
      return put(p, i, BFloat16(detail::float_to_odd(v)));
    case DType::f8_e4m3:
      return put(p, i, detail::float_to_e4m3(detail::float_to_odd(v)));
    case DType::f8_e5m2:
      return put(p, i, detail::float_to_e5m2(detail::float_to_odd(v)));
    case DType::boolean:
      return put(p, i, u8(v != 0));
    case DType::i8:
      return put_integer<i8>(p, i, v, from_float);
    case DType::i16:
      return put_integer<i16>(p, i, v, from_float);
    case DType::i32:
      return put_integer<i32>(p, i, v, from_float);
    case DType::i64:
      return put_integer<i64>(p, i, v, from_float);
    case DType::u8:
      return put_integer<u8>(p, i, v, from_float);
    case DType::u16:
      return put_integer<u16>(p, i, v, from_float);
    case DType::u32:
      return put_integer<u32>(p, i, v, from_float);
    case DType::u64:
      return put_integer<u64>(p, i, v, from_float);
  }
}

char* at_element(void* p, i64 i, i64 size) { return static_cast<char*>(p) + i * size; }

void copy_reference(const CopyArgs& a, const Launch&) {
  const LoopNest<2> nest = loop_nest({a.out, a.in});
  const DType to = a.out.dtype(), from = a.in.dtype();
  const i64 n = nest.inner(), step_out = nest.inner_stride(0), step_in = nest.inner_stride(1);
  const i64 size = item_size(to);
  for_each_row(nest, [&](const i64(&at)[2]) {
    for (i64 i = 0; i < n; ++i) {
      const i64 o = at[0] + i * step_out, s = at[1] + i * step_in;
      if (to == from)
        std::memmove(at_element(a.out.data, o, size), at_element(a.in.data, s, size), size_t(size));
      else
        store_value(to, a.out.data, o, load_value(from, a.in.data, s), is_floating(from));
    }
  });
}

void fill_reference(const FillArgs& a, const Launch&) {
  const LoopNest<1> nest = loop_nest({a.out});
  const DType t = a.out.dtype();
  const bool floating = is_floating(t) || t == DType::boolean;
  const i64 n = nest.inner(), step = nest.inner_stride(0);
  for_each_row(nest, [&](const i64(&at)[1]) {
    for (i64 i = 0; i < n; ++i)
      store_value(t, a.out.data, at[0] + i * step, floating ? (long double)a.f : (long double)a.i,
                  floating);
  });
}

}  // namespace

u64 detail::fill_bits(const FillArgs& a) {
  u64 bits = 0;
  const DType t = a.out.dtype();
  if (is_floating(t) || t == DType::boolean)
    store_value(t, &bits, 0, a.f, true);
  else
    std::memcpy(&bits, &a.i, size_t(item_size(t)));  // little endian: the lowest bytes
  return bits;
}

WT_VARIANTS(cpu, copy, CopyArgs,
            {.name = "vectorized",
             .rank = 10,
             .why_not = copy_vectorized_why_not,
             .launch = copy_vectorized},
            {.name = "reference", .launch = copy_reference});
WT_VARIANTS(cpu, fill, FillArgs, {.name = "vectorized", .rank = 10, .launch = fill_vectorized},
            {.name = "reference", .launch = fill_reference});

}  // namespace wt
