// The vector code of the cpu's convolutions, compiled for three instruction sets.
#include <algorithm>
#include <utility>

#include "warptape/kernels/conv/conv_cpu.h"

#define WT_ISA_BODY "warptape/kernels/conv/conv_tiles_cpu.inc"
#include "warptape/kernels/cpu/vector_isa.inc"

namespace wt {

template <class T>
const ConvKernels<T>& conv_kernels() {
  static constexpr ConvKernels<T> kTables[3] = {baseline::conv_kernel_table<T>(),
                                                avx2::conv_kernel_table<T>(),
                                                avx512::conv_kernel_table<T>()};
  return kTables[cpu_isa()];
}
template const ConvKernels<float>& conv_kernels();
template const ConvKernels<double>& conv_kernels();

}  // namespace wt
