// Exponentials of rows: one source for three instruction sets.
#include "warptape/kernels/cpu/exp_rows.h"

#include <cstdint>

#include "warptape/kernels/common/float_math.h"
#include "warptape/kernels/cpu/isa.h"

#define WT_ISA_BODY "warptape/kernels/cpu/exp_rows.inc"
#include "warptape/kernels/cpu/vector_isa.inc"

const wt::ExpRows& wt::exp_rows() {
  static constexpr ExpRows kTables[3] = {baseline::table(), avx2::table(), avx512::table()};
  return kTables[cpu_isa()];
}
