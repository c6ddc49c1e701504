// Counts of binary exponents on the cpu.
#include "warptape/kernels/exponent_counts.h"

namespace wt {
namespace {

const char* not_f32_or_f64(const ExponentCountsArgs& a) {
  return a.dtype == DType::f32 || a.dtype == DType::f64 ? nullptr : "elements must be f32 or f64";
}

template <class T>
void count(const ExponentCountsArgs& a) {
  const T* const x = static_cast<const T*>(a.x);
  for (i64 k = 0; k < a.part_count; ++k) {
    const ExponentPart& p = a.parts[k];
    i64* const row = a.counts + i64(p.row) * kExponentBins;
    for (i64 i = p.begin; i < p.begin + p.count; ++i)
      ++row[detail::exponent_bin(double(x[i]) * a.factor)];
  }
}
void count_reference(const ExponentCountsArgs& a, const Launch&) {
  a.dtype == DType::f32 ? count<float>(a) : count<double>(a);
}

}  // namespace

WT_VARIANTS(cpu, exponent_counts, ExponentCountsArgs,
            {.name = "reference", .why_not = not_f32_or_f64, .launch = count_reference});

}  // namespace wt
