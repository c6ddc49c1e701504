// Deliberately wrong kernels and what must be said about them.
#pragma once

namespace wt {
#ifdef WT_DEVICE_NS
inline namespace WT_DEVICE_NS {
#else
inline namespace simt {
#endif

struct BrokenKernel {
  const char* name;
  // Runs it on out[128] and x[512], device memory.
  void (*run)(float* out, const float* x);
};
extern const BrokenKernel broken_kernels[];
extern const int broken_kernel_count;
extern const BrokenKernel broken_copies[];  // asynchronous ones
extern const int broken_copy_count;
extern const BrokenKernel broken_hopper[];  // mbarrier, TMA, wgmma; two of them are right
extern const int broken_hopper_count;

}  // namespace simt
}  // namespace wt
