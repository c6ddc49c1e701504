// Fourier transforms on the cpu: the reference, and the list of variants.
#include "warptape/kernels/fft.h"

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/fft/fft_common.h"
#include "warptape/kernels/fft/fft_cpu.h"

namespace wt {
namespace {

i64 reference_workspace(const FftArgs& a) {
  return a.y.numel() == 0 ? 0 : a.n * i64(sizeof(Complex<double>));
}

// The sum as it is written, in double.
template <class T>
void fft_reference(const FftArgs& a, Complex<double>* roots) {
  const FftRows f = fft_rows(a);
  for (i64 t = 0; t < a.n; ++t) {
    const Complex<double> w = root_of_unity(t, a.n);
    roots[t] = {w.re, a.inverse ? -w.im : w.im};
  }
  for (i64 row = 0; row < f.rows.count; ++row) {
    T* const y = a.y.as<T>() + f.rows.start(FftRows::Y, row);
    const T* const x = a.x.as<const T>() + f.rows.start(FftRows::X, row);
    for (i64 k = 0; k < f.y.size; ++k) {
      Complex<double> sum{0, 0};
      for (i64 j = 0, t = 0; j < f.x.used && k < f.y.used; ++j) {
        sum = sum + f.x.load<double>(x, j) * roots[t];
        t = t + k < a.n ? t + k : t + k - a.n;  // j k modulo n
      }
      f.y.store(y, k, a.scale * sum);
    }
  }
}
void reference(const FftArgs& a, const Launch& l) {
  if (a.y.numel() == 0) return;
  auto* const roots = static_cast<Complex<double>*>(l.workspace);
  a.y.dtype() == DType::f64 ? fft_reference<double>(a, roots) : fft_reference<float>(a, roots);
}

}  // namespace

WT_VARIANTS(
    cpu, fft, FftArgs,
    {.name = "stages", .rank = 20, .workspace = fft_stages_workspace, .launch = fft_stages},
    {.name = "reference", .rank = 10, .workspace = reference_workspace, .launch = reference});

}  // namespace wt
