// The vector code of the cpu's distances, compiled for three instruction sets.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "warptape/kernels/linalg/cdist_cpu.h"

#define WT_ISA_BODY "warptape/kernels/linalg/cdist_tiles_cpu.inc"
#include "warptape/kernels/cpu/vector_isa.inc"

namespace wt {

template <class T>
const CdistKernels<T>& cdist_kernels() {
  static constexpr CdistKernels<T> kTables[3] = {baseline::cdist_kernel_table<T>(),
                                                 avx2::cdist_kernel_table<T>(),
                                                 avx512::cdist_kernel_table<T>()};
  return kTables[cpu_isa()];
}
template const CdistKernels<float>& cdist_kernels();
template const CdistKernels<double>& cdist_kernels();

}  // namespace wt
