// Deliberately wrong kernels and what must be said about them.
#pragma once

#ifndef WT_DEVICE_NS
#define WT_DEVICE_NS simt
#endif

namespace wt::WT_DEVICE_NS {

struct BrokenKernel {
  const char* name;
  // Runs it on out[128] and x[512], device memory.
  void (*run)(float* out, const float* x);
};
extern const BrokenKernel broken_kernels[];
extern const int broken_kernel_count;

}  // namespace wt::WT_DEVICE_NS
