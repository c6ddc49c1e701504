// Winograd's transforms, compiled for three instruction sets.
#include "warptape/kernels/conv/conv_winograd_cpu.h"

#define WT_ISA_BODY "warptape/kernels/conv/conv_winograd_cpu.inc"
#include "warptape/kernels/cpu/vector_isa.inc"

namespace wt {

template <class T>
const WinogradKernels<T>& winograd_kernels() {
  static constexpr WinogradKernels<T> kTables[3] = {
      baseline::winograd_table<T>(), avx2::winograd_table<T>(), avx512::winograd_table<T>()};
  return kTables[cpu_isa()];
}
template const WinogradKernels<float>& winograd_kernels();
template const WinogradKernels<double>& winograd_kernels();

}  // namespace wt
