// Element types. No STL: device code includes this.
#pragma once
#include "warptape/core/types.h"

namespace wt {

// The first eight compute; the rest are for storage only (load, copy, cast, gather).
enum class DType : u8 {
  f64,
  f32,
  f16,
  bf16,
  i64,
  i32,
  u8,
  boolean,
  i8,
  i16,
  u16,
  u32,
  u64,
  f8_e4m3,
  f8_e5m2,
};
inline constexpr int kNumDTypes = 15;
inline constexpr int kNumComputeDTypes = 8;

inline constexpr DType f64 = DType::f64, f32 = DType::f32, f16 = DType::f16, bf16 = DType::bf16;
// i64, i32 and u8 are the names of C++ types here (core/types.h): as dtypes they have PyTorch's
// names, {.dtype = int64}.
inline constexpr DType int64 = DType::i64, int32 = DType::i32, uint8 = DType::u8,
                       boolean = DType::boolean;

namespace detail {
struct DTypeRow {
  const char* name;
  u8 size;  // bytes an element
  bool floating;
  bool computes;  // arithmetic is defined
};
inline constexpr DTypeRow kDTypeRows[kNumDTypes] = {
    {"f64", 8, true, true},   {"f32", 4, true, true},      {"f16", 2, true, true},
    {"bf16", 2, true, true},  {"i64", 8, false, true},     {"i32", 4, false, true},
    {"u8", 1, false, true},   {"bool", 1, false, true},    {"i8", 1, false, false},
    {"i16", 2, false, false}, {"u16", 2, false, false},    {"u32", 4, false, false},
    {"u64", 8, false, false}, {"f8_e4m3", 1, true, false}, {"f8_e5m2", 1, true, false}};
}  // namespace detail

constexpr const char* dtype_name(DType t) { return detail::kDTypeRows[int(t)].name; }
constexpr i64 item_size(DType t) { return detail::kDTypeRows[int(t)].size; }
constexpr bool is_floating(DType t) { return detail::kDTypeRows[int(t)].floating; }
constexpr bool is_integral(DType t) { return !is_floating(t) && t != DType::boolean; }
constexpr bool computes(DType t) { return detail::kDTypeRows[int(t)].computes; }
// f16 and bf16: stored in 16 bits, computed and accumulated in f32.
constexpr bool is_half(DType t) { return t == DType::f16 || t == DType::bf16; }

// Types that are for storage only promote with nothing, not even with each other: no type here
// holds both u64 and i32. Operators refuse such operands (promoted_dtype in autograd/op_scope.h).
constexpr bool promotes(DType a, DType b) { return a == b || (computes(a) && computes(b)); }

// PyTorch's promotion among two tensors that both have dimensions: bool < integers < floats; u8
// with a signed integer gives the signed one; f16 with bf16 gives f32. Only for pairs that promote.
constexpr DType promote(DType a, DType b) {
  if (a == b) return a;
  const bool fa = is_floating(a), fb = is_floating(b);
  if (fa != fb) return fa ? a : b;
  if (fa) {
    if (a == DType::f64 || b == DType::f64) return DType::f64;
    return DType::f32;  // any two different types among f32, f16, bf16
  }
  if (a == DType::boolean) return b;
  if (b == DType::boolean) return a;
  if (a == DType::i64 || b == DType::i64) return DType::i64;
  return DType::i32;  // i32 with u8
}

// Rank of a type's category for promotion with scalars and 0-d tensors: those change the result
// only when their category is higher (bool 0 < integer 1 < float 2).
constexpr int promotion_category(DType t) {
  return is_floating(t) ? 2 : t == DType::boolean ? 0 : 1;
}

}  // namespace wt
