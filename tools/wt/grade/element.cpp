#include "warptape/tools/wt/grade/element.h"

#include <cstring>

#include "warptape/core/error.h"
#include "warptape/core/half.h"

namespace wt::grade {
namespace {

template <class T>
T value_at(const u8* from) {
  T v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
template <class T>
void put(T v, u8* to) {
  std::memcpy(to, &v, sizeof v);
}

}  // namespace

double load_element(const u8* from, DType t) {
  switch (t) {
    case DType::f64:
      return value_at<double>(from);
    case DType::f32:
      return double(value_at<float>(from));
    case DType::f16:
      return double(float(value_at<Half>(from)));
    case DType::bf16:
      return double(float(value_at<BFloat16>(from)));
    case DType::i64:
      return double(value_at<i64>(from));
    case DType::i32:
      return double(value_at<i32>(from));
    case DType::u8:
    case DType::boolean:
      return double(*from);
    default:
      throw InternalError(str("[grade] ", dtype_name(t), " is not graded"));
  }
}

void store_element(double v, DType t, u8* to) {
  switch (t) {
    case DType::f64:
      return put(v, to);
    case DType::f32:
      return put(float(v), to);
    case DType::f16:
      return put(Half(float(v)), to);
    case DType::bf16:
      return put(BFloat16(float(v)), to);
    case DType::i64:
      return put(i64(v), to);
    case DType::i32:
      return put(i32(v), to);
    case DType::u8:
      return put(u8(v), to);
    case DType::boolean:
      return put(u8(v != 0), to);
    default:
      throw InternalError(str("[grade] ", dtype_name(t), " is not graded"));
  }
}

double rounded(double v, DType t) {
  u8 bytes[8];
  store_element(v, t, bytes);
  return load_element(bytes, t);
}

}  // namespace wt::grade
