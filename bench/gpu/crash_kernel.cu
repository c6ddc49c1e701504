// What a kernel does that ends CUDA's context (plant.h): it writes to an address that is none.
#include "warptape/kernels/simt/simt.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {
__global__ void crash_kernel(unsigned long long address) {
  *reinterpret_cast<volatile int*>(address) = 1;
}
}  // namespace
void launch_crash(void* stream) {
  launch<crash_kernel>({.grid = 1, .block = 1, .stream = stream}, 256ull);
}
}  // namespace WT_DEVICE_NS
}  // namespace wt
