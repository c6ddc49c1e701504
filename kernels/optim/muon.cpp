// Muon's elementwise steps on the cpu.
#include "warptape/kernels/muon.h"

#include <cmath>

namespace wt {
namespace {

template <class Args>
const char* matrices_wrong(const Args& a) {
  return a.dtype == DType::f32 || a.dtype == DType::f64 ? nullptr : "matrices must be f32 or f64";
}

template <class T>
void direction_of(const MuonDirectionArgs& a) {
  const detail::MuonDirection<T> direction(a);
  T* out = static_cast<T*>(a.out);
  const T *g = static_cast<const T*>(a.grad), *m = static_cast<const T*>(a.momentum);
  for (i64 i = 0; i < a.n; ++i) out[i] = direction(g[i], m[i]);
}
void direction_reference(const MuonDirectionArgs& a, const Launch&) {
  a.dtype == DType::f32 ? direction_of<float>(a) : direction_of<double>(a);
}

template <class T>
void normalize(const MuonNormalizeArgs& a) {
  double sum = 0;
  for (i64 i = 0; i < a.count; ++i) sum += a.partials[i];
  const T scale = T(detail::muon_scale(a, std::sqrt(sum)));
  T* out = static_cast<T*>(a.out);
  const T* in = static_cast<const T*>(a.in);
  for (i64 i = 0; i < a.n; ++i) out[i] = in[i] * scale;
}
void normalize_reference(const MuonNormalizeArgs& a, const Launch&) {
  a.dtype == DType::f32 ? normalize<float>(a) : normalize<double>(a);
}

template <class T>
void polynomial(const MuonPolynomialArgs& a) {
  T* square = static_cast<T*>(a.square);
  const T* gram = static_cast<const T*>(a.gram);
  const i64 columns = a.row_size();
  for (i64 row = 0; row < a.rows; ++row)
    for (i64 i = row * columns, j = 0; j < columns; ++i, ++j)
      square[i] = a.bf16 ? detail::muon_term_in_bf16(a, row == j, gram[i], square[i])
                         : detail::muon_term(a, row == j, gram[i], square[i]);
}
void polynomial_reference(const MuonPolynomialArgs& a, const Launch&) {
  a.dtype == DType::f32 ? polynomial<float>(a) : polynomial<double>(a);
}

}  // namespace

WT_VARIANTS(cpu, muon_direction, MuonDirectionArgs,
            {.name = "reference", .why_not = matrices_wrong, .launch = direction_reference});
WT_VARIANTS(cpu, muon_normalize, MuonNormalizeArgs,
            {.name = "reference", .why_not = matrices_wrong, .launch = normalize_reference});
WT_VARIANTS(cpu, muon_polynomial, MuonPolynomialArgs,
            {.name = "reference", .why_not = matrices_wrong, .launch = polynomial_reference});

}  // namespace wt
