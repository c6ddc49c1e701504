// The variants of kernels/matmul/matmul.cpp that are fast on the cpu.
#pragma once
#include <string_view>

#include "warptape/kernels/matmul.h"

namespace wt {

// matmul_vector_cpu.cpp: vector code without packing or threads. Takes every f32 and f64
// product, ranks first for those of up to kTinyWork multiplications.
inline constexpr i64 kTinyWork = 48 * 48 * 48;
const char* matmul_tiny_why_not(const MatmulArgs& g);
int matmul_tiny_rank(const MatmulArgs& g);
void matmul_tiny(const MatmulArgs& g, const Launch& l);
// row_sum of one f32 or f64 product, for the variants that multiply elsewhere. No batch.
void matmul_row_sum(const MatmulArgs& g);

// matmul_few_rows_cpu.cpp: up to four rows, as fast as the other operand comes from memory.
const char* matmul_few_rows_why_not(const MatmulArgs& g);
i64 matmul_few_rows_workspace(const MatmulArgs& g);
void matmul_few_rows(const MatmulArgs& g, const Launch& l);

// matmul_packed_cpu.cpp: large products on our own, with threads.
const char* matmul_packed_why_not(const MatmulArgs& g);
int matmul_packed_rank(const MatmulArgs& g);
i64 matmul_packed_workspace(const MatmulArgs& g);
void matmul_packed(const MatmulArgs& g, const Launch& l);

// matmul_widened_cpu.cpp: f16 and bf16 by way of f32 copies.
const char* matmul_widened_why_not(const MatmulArgs& g);
i64 matmul_widened_workspace(const MatmulArgs& g);
void matmul_widened(const MatmulArgs& g, const Launch& l);

// matmul_blas_cpu.cpp: OpenBLAS, where the build has it.
const char* matmul_blas_why_not(const MatmulArgs& g);
void matmul_blas(const MatmulArgs& g, const Launch& l);
// The processor that OpenBLAS has chosen its kernels for; empty without it.
const char* blas_core();
// Whether those use an older instruction set than `isa`: an OpenBLAS that does not know a newer
// processor takes the oldest kernels there are (0.3.21 on a fifth generation Xeon: a quarter of the
// packed variant's rate).
bool blas_is_behind(std::string_view core, int isa);
bool blas_is_behind();  // here

}  // namespace wt
