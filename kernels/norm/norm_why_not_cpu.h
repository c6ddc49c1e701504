// When the vector variants of normalisations serve.
#pragma once
#include "warptape/kernels/cpu/isa.h"
#include "warptape/kernels/norm/norm_operands.h"

namespace wt {

// Args: of any contract of kernels/layer_norm.h, rms_norm.h and add_norm.h.
template <class Args>
const char* norm_why_not(const Args& a) {
  if (cpu_isa() < kAvx2) return kNoAvx2;
  if (a.x.dtype() != DType::f32) return "f32 only";
  const auto rows = norm_rows(a);
  for (i64 step : rows.step)
    if (step != 1 && rows.length > 1) return "the elements of a row must be neighbours";
  return nullptr;
}

}  // namespace wt
