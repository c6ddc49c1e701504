// The vector code of the cpu's pooling, compiled for three instruction sets.
#include <cstring>
#include <limits>
#include <type_traits>

#include "warptape/kernels/pool/pool_cpu.h"

#define WT_ISA_BODY "warptape/kernels/pool/pool_rows_cpu.inc"
#include "warptape/kernels/cpu/vector_isa.inc"

namespace wt {

template <class T>
const PoolKernels<T>& pool_kernels() {
  static constexpr PoolKernels<T> kTables[3] = {baseline::pool_kernel_table<T>(),
                                                avx2::pool_kernel_table<T>(),
                                                avx512::pool_kernel_table<T>()};
  return kTables[cpu_isa()];
}
template const PoolKernels<float>& pool_kernels();
template const PoolKernels<double>& pool_kernels();

}  // namespace wt
