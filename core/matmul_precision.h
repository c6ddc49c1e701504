// How exactly f32 matrices are multiplied on cuda.
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

}  // namespace wt
