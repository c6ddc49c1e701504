// What the planted faults share: each is a function that does one thing wrong and returns what its
// own check of the result says (0: right).
#pragma once
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>

// Faults of the host's side are returned; those of kernels come with the next call that waits.
inline int wait() { return cudaDeviceSynchronize() == cudaSuccess ? 0 : 2; }

inline float* take(int n) {
  float* p = nullptr;
  cudaMalloc(&p, sizeof(float) * size_t(n));
  return p;
}
inline float* take_zeros(int n) {
  float* p = take(n);
  cudaMemset(p, 0, sizeof(float) * size_t(n));
  return p;
}
// 1 if any of the n values is not `wanted`.
inline int differs(const float* device, int n, float wanted) {
  int bad = 0;
  float x = 0;
  for (int i = 0; i < n && !bad; ++i) {
    if (cudaMemcpy(&x, device + i, 4, cudaMemcpyDeviceToHost) != cudaSuccess) return 2;
    bad = !(std::fabs(x - wanted) < 1e-3f);
  }
  return bad;
}

struct Fault {
  const char* name;
  int (*run)();
};
extern const Fault memory_faults[], order_faults[], sync_faults[], host_faults[];
