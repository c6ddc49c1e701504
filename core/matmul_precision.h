// What the whole process asks of the kernels on cuda: how exactly f32 matrices are multiplied, and
// whether variants are timed.
#pragma once
#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt {

enum class MatmulPrecision : u8 {
  highest,  // as f32 is
  high      // operands may be rounded to TF32's 10 bits on their way to tensor cores
};
// For products that begin from now on, of all threads and in backward, too; at first `highest`.
// `high` is cuBLASLt's alone: other devices, our own kernels, f64 and 16-bit products stay as they
// are. PyTorch's name: torch.set_float32_matmul_precision.
WT_API void set_matmul_precision(MatmulPrecision p);
WT_API MatmulPrecision matmul_precision();

// torch.backends.cudnn.benchmark = True, for all kernels: at the first launch of a kernel at some
// sizes every variant that takes them is timed, and of cuDNN its engines, and the fastest one is
// launched there from then on, in all threads. That first launch takes as long as all of them; what
// was found is kept in the device's tune file (WT_TUNE; docs/wt.md), so another process does not
// time it again. Variants may differ in their last digits. On the cpu, and on simt unless WT_TUNE
// names a file, nothing is timed. At first on if WT_BENCHMARK is set, and not to 0.
WT_API void set_benchmark(bool on);
WT_API bool benchmark();

}  // namespace wt
