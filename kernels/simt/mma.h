// Tensor-core operations of one warp on the host. Internal to kernels/simt/.
#pragma once
#include <cstdint>

namespace wt::simt_runtime {

// Operands of one lane, on its parked stack.
struct MmaLane {
  float* d;
  const uint32_t *a, *b;
};
struct LdmatrixLane {
  uint32_t* r;
  const void* row;
};

bool cpu_has_avx2();  // and FMA
// d += a * b for the 32 lanes; products and sums in float, k ascending.
void mma_m16n8k16_warp(const MmaLane* const* lanes, bool bf16);
void ldmatrix_warp(const LdmatrixLane* const* lanes, unsigned count, bool transposed);

}  // namespace wt::simt_runtime
