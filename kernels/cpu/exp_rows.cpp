// Exponentials of rows: one source for three instruction sets.
#include "warptape/kernels/exp_rows.h"

#include <cstdint>

#include "warptape/kernels/cpu_isa.h"
#include "warptape/kernels/float_math.h"
#include "warptape/kernels/matmul_cpu.h"

#define WT_ISA_BODY "warptape/kernels/exp_rows.inc"
#include "warptape/kernels/vector_isa.inc"

const wt::ExpRows& wt::exp_rows() {
  static constexpr ExpRows kTables[3] = {baseline::table(), avx2::table(), avx512::table()};
  return kTables[matmul_isa()];
}
