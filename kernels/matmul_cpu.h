// What the cpu variants of the matrix product share. Internal to kernels/matmul*.cpp.
#pragma once
#include <atomic>

#include "warptape/kernels/cpu_isa.h"
#include "warptape/kernels/matmul.h"

namespace wt {

// Which of its compiled copies a vector kernel runs: 0 what the compiler assumes everywhere, 1
// AVX2, 2 AVX-512. Tests set it lower than the machine's own.
extern constinit std::atomic<int> matmul_isa_in_use;  // -1: not looked yet
int detect_matmul_isa();
WT_HOT
int matmul_isa() {
  const int isa = matmul_isa_in_use.load(std::memory_order_relaxed);
  return isa >= 0 ? isa : detect_matmul_isa();
}

// matmul_tiny.cpp: vector code without packing or threads. Takes every f32 and f64 product, ranks
// first for those of up to kTinyWork multiplications.
inline constexpr i64 kTinyWork = 48 * 48 * 48;
const char* matmul_tiny_why_not(const MatmulArgs& g);
int matmul_tiny_rank(const MatmulArgs& g);
void matmul_tiny(const MatmulArgs& g, const Launch& l);
// row_sum of one f32 or f64 product, for the variants that multiply elsewhere. No batch.
void matmul_row_sum(const MatmulArgs& g);

// matmul_blas.cpp: OpenBLAS, where the build has it.
const char* matmul_blas_why_not(const MatmulArgs& g);
void matmul_blas(const MatmulArgs& g, const Launch& l);

}  // namespace wt
