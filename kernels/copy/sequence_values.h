// The numbers of kernels/sequence.h, an element at a time, for host and device: the same bits on
// both.
#pragma once
#include "warptape/core/dtype.h"
#include "warptape/kernels/common/float_math.h"
#include "warptape/kernels/copy/sequence_kind.h"

namespace wt {
#ifdef WT_DEVICE_NS  // a .cu file includes this: its own copy, apart from the other device's
inline namespace WT_DEVICE_NS {
#endif

struct SequenceValues {
  SequenceKind kind;
  bool floats, truth;     // what the dtype is: its table is the host's
  i64 first, step, rest;  // whole: what the span leaves when n - 1 steps are taken from it
  i64 n;                  // elements; identity: of a row
  double begin, end, stride;

  template <class Args>  // SequenceArgs
  explicit SequenceValues(const Args& a)
      : kind(a.kind),
        floats(is_floating(a.out.dtype())),
        truth(a.out.dtype() == DType::boolean),
        first(a.first),
        step(a.step),
        rest(0),
        n(kind == SequenceKind::identity ? a.out.size(1) : a.out.numel()),
        begin(a.begin),
        end(a.end),
        stride(a.stride) {
    if (kind != SequenceKind::whole || n < 2) return;
    rest = (a.step - a.first) % (n - 1);
    step = (a.step - a.first) / (n - 1);
  }

  // put(i, v) with the i64 or double that element i is.
  template <class F>
  WT_HD void element(i64 i, F&& put) const {
    if (kind == SequenceKind::integers) return put(i, i64(u64(first) + u64(i) * u64(step)));
    if (kind == SequenceKind::identity) return put(i, i64(i / n == i % n));
    if (kind == SequenceKind::whole) return put(i, between_integers(i));
    const double x = real(i);
    if (floats) return put(i, x);
    if (truth) return put(i, i64(x != 0));
    put(i, x >= -0x1p63 && x < 0x1p63 ? i64(x) : -0x7fffffffffffffff - 1);
  }

 private:
  // first + i span / (n - 1) without a rounding.
  WT_HD i64 between_integers(i64 i) const {
    const i64 part = i * rest, beyond = n > 1 ? part % (n - 1) : 0;
    const i64 x = first + i * step + (n > 1 ? part / (n - 1) : 0);
    return x > 0 && beyond < 0 ? x - 1 : x < 0 && beyond > 0 ? x + 1 : x;
  }
  WT_HD double real(i64 i) const {
    if (kind == SequenceKind::between && n > 1 && i >= n / 2)
      return float_math::fused(-stride, double(n - 1 - i), end);
    return float_math::fused(stride, double(i), begin);
  }
};

#ifdef WT_DEVICE_NS
}  // namespace WT_DEVICE_NS
#endif
}  // namespace wt
