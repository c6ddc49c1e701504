// Numbers as elements of a dtype that is known when the code runs, for host and device: where all
// threads have the same one, the branch costs less than a kernel for each.
#pragma once
#include "warptape/core/dtype.h"
#include "warptape/core/numbers/narrow.h"
#ifndef WT_DEVICE_NS
#include "warptape/core/half.h"
#endif

namespace wt {

// F16, BF16: the 16-bit floats of where it runs.
template <class F16, class BF16>
struct Numbers {
  // Element i, of a floating dtype that computes.
  WT_HD static double at(DType t, const void* in, i64 i) {
    switch (t) {
      case DType::f64:
        return static_cast<const double*>(in)[i];
      case DType::f32:
        return static_cast<const float*>(in)[i];
      case DType::f16:
        return float(static_cast<const F16*>(in)[i]);
      default:
        return float(static_cast<const BF16*>(in)[i]);
    }
  }
  // v: double or i64. Integers are cut as C++ does, whose signed and unsigned bits are the same;
  // what is not 0 is true. Any dtype but the 8-bit floats.
  template <class V>
  WT_HD static void put(DType t, void* out, i64 i, V v) {
    switch (t) {
      case DType::f64:
        return put_as<double>(out, i, v);
      case DType::f32:
        return put_as<float>(out, i, v);
      case DType::f16:
        return put_as<F16>(out, i, detail::before_narrowing(v));
      case DType::bf16:
        return put_as<BF16>(out, i, detail::before_narrowing(v));
      case DType::boolean:
        return put_as<u8>(out, i, v != V(0));
      case DType::i64:
      case DType::u64:
        return put_as<i64>(out, i, v);
      case DType::i32:
      case DType::u32:
        return put_as<i32>(out, i, i64(v));
      case DType::i16:
      case DType::u16:
        return put_as<i16>(out, i, i64(v));
      default:
        return put_as<i8>(out, i, i64(v));
    }
  }

 private:
  template <class S, class V>
  WT_HD static void put_as(void* out, i64 i, V v) {
    static_cast<S*>(out)[i] = S(v);
  }
};

#ifndef WT_DEVICE_NS
using HostNumbers = Numbers<Half, BFloat16>;
#endif

}  // namespace wt
