// The fast variants of kernels/pointwise/bit_mask.cpp (pointwise/bit_mask_cpu.cpp): f32, with AVX2.
#pragma once
#include "warptape/kernels/bit_mask.h"
#include "warptape/kernels/cpu/isa.h"

namespace wt {

const char* bit_pack_why_not(const BitPackArgs& a);
const char* bit_gate_why_not(const BitGateArgs& a);
void bit_pack_avx2(const BitPackArgs& a, const Launch& l);
void bit_gate_avx2(const BitGateArgs& a, const Launch& l);

}  // namespace wt
