// The one-pass maximum and sum of exponentials that softmax and cross-entropy share.
#pragma once
#include "warptape/kernels/device/row_kernels.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {

// exp for values stored as T. For 16-bit storage the hardware's approximate one: its error, below
// 2e-6 for the arguments a softmax has, is far under the storage's, and expf would make the kernel
// compute-bound.
template <class T>
__device__ __forceinline__ float exp_for(float v) {
  if constexpr (sizeof(T) == 2)
    return __expf(v);
  else
    return expf(v);
}
template <class T>
__device__ __forceinline__ double exp_for(double v) {
  return exp(v);
}
__device__ __forceinline__ float logarithm(float v) { return logf(v); }
__device__ __forceinline__ double logarithm(double v) { return log(v); }

// sum * exp(max - other), where a part of a row without a finite maximum adds nothing.
template <class T>
__device__ __forceinline__ float rescaled(float sum, float max, float other) {
  return sum * exp_for<T>(max - (other == -INFINITY ? 0.0f : other));
}

// max(x) and sum(exp(x - max)) of what was added so far. -inf adds nothing, a NaN stays in the sum
// whenever it comes.
template <class T>
struct OnlineSoftmax {
  float max = -INFINITY, sum = 0;

  __device__ __forceinline__ void raise_max(float v) {
    if (!(v > max)) return;
    // What was added stands on the old maximum; one factor brings all of it onto the new one
    // (Milakov and Gimelshein 2018). In a row without order the maximum rises some ln(n) times, so
    // this is rare.
    sum *= exp_for<T>(max - v);
    max = v;
  }
  __device__ __forceinline__ float base() const { return max == -INFINITY ? 0.0f : max; }
  __device__ __forceinline__ void add(float v) {
    raise_max(v);
    sum += exp_for<T>(v - base());
  }
  // One rescaling for all of them.
  template <int N>
  __device__ __forceinline__ void add(const T (&v)[N]) {
    // Their own maximum first: the sum, which every step waits for, is then rescaled at most once
    // for 4 or 8 elements, whose exponentials depend on nothing but that maximum.
    float largest = float(v[0]);
#pragma unroll
    for (int j = 1; j < N; ++j) largest = ::max(largest, float(v[j]));
    raise_max(largest);
#pragma unroll
    for (int j = 0; j < N; ++j) sum += exp_for<T>(float(v[j]) - base());
  }
  __device__ __forceinline__ void add(const Pack16<T>& v) { add(v.v); }
};

}  // namespace WT_DEVICE_NS
}  // namespace wt
