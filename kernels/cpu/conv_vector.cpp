// The vector code of the cpu's convolutions, compiled for three instruction sets.
#include <algorithm>
#include <utility>

#include "warptape/kernels/cpu/conv.h"

#define WT_ISA_BODY "warptape/kernels/cpu/conv_tiles.inc"
#include "warptape/kernels/cpu/vector_isa.inc"

namespace wt {

const ConvKernels& conv_kernels() {
  static constexpr ConvKernels kTables[3] = {
      baseline::conv_kernel_table(), avx2::conv_kernel_table(), avx512::conv_kernel_table()};
  return kTables[cpu_isa()];
}

}  // namespace wt
