// A convolution's sums with an epilogue on their way to memory: the end that its rungs share.
// Residual and aux lie as y does, so that a place in y is one in each.
#pragma once
#include "warptape/kernels/conv/conv.cuh"
#include "warptape/kernels/device/epilogue.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// What a kernel needs of an epilogue beside its sums.
struct ConvEnd {
  MatmulEpilogue epilogue{};
  bool packs = false;  // all that it reads and writes begins at multiples of 16 bytes
  template <class F>
  void visit_pointers(F&& f) const {
    f(epilogue.residual), f(epilogue.aux);
  }
};
inline ConvEnd end_of(const ConvForwardArgs& a) {
  const MatmulEpilogue& e = a.epilogue;
  return {e, aligned_16(a.y.data) && aligned_16(e.residual) && aligned_16(e.aux)};
}
inline ConvEnd end_of(const ConvBackwardInputArgs&) { return {}; }

// Elements at[0..N) of a tensor, in elements from its first; below 0: nowhere. Beside: they are
// neighbours and one access.
template <int N, class T, class A, class I>
__device__ __forceinline__ void read_at(A (&v)[N], const T* from, const I (&at)[N], bool beside) {
  T t[N];
  if (beside) {
    load_vector(t, from + at[0]);
  } else {
#pragma unroll
    for (int k = 0; k < N; ++k) t[k] = at[k] >= 0 ? from[at[k]] : T(0.0f);
  }
#pragma unroll
  for (int k = 0; k < N; ++k) v[k] = A(t[k]);
}
template <int N, class T, class A, class I>
__device__ __forceinline__ void write_at(T* to, const I (&at)[N], const A (&v)[N], bool beside) {
  T t[N];
#pragma unroll
  for (int k = 0; k < N; ++k) t[k] = T(v[k]);
  if (beside) {
    store_vector(to + at[0], t);
  } else {
#pragma unroll
    for (int k = 0; k < N; ++k)
      if (at[k] >= 0) to[at[k]] = t[k];
  }
}

// The end of N sums, to which the bias has been added.
template <int N, class T, class A, class I>
__device__ __forceinline__ void finish_at(const ConvEnd& end, T* y, const I (&at)[N], A (&z)[N]) {
  const MatmulEpilogue& e = end.epilogue;
  bool beside = N > 1 && end.packs && at[0] >= 0 && at[0] % N == 0;
#pragma unroll
  for (int k = 1; k < N; ++k) beside = beside && at[k] == at[0] + k;
  A more[N] = {};
  if (e.residual) {
    read_at(more, static_cast<const T*>(e.residual), at, beside);
#pragma unroll
    for (int k = 0; k < N; ++k) z[k] += more[k];
  }
  if (e.aux) {
    if (e.gradient)
      read_at(more, static_cast<const T*>(e.aux), at, beside);
    else
      write_at(static_cast<T*>(e.aux), at, z, beside);
  }
  activate(e, z, more);
  write_at(y, at, z, beside);
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
