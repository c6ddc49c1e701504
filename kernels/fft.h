// Discrete Fourier transforms along one axis, of any length.
#pragma once
#include "warptape/kernels/contract.h"
#include "warptape/kernels/fft/fft_side.h"

namespace wt {

// y[k] = scale * weight * sum_j x[j] exp(s 2 pi i j k / n), s = 1 for the inverse, else -1,
// for every row along an axis. Where x has fewer numbers than its side holds the others are zeros;
// what it has beyond them is not read. y has as many numbers as it has: those beyond what its side
// holds become zeros, and of bins beyond y's end none is asked for. With `twice` the weight of a
// bin of the half spectrum (in x: what it is multiplied by first) is 2 but for those that are their
// own conjugates, 0 and, of an even n, n / 2; otherwise it is 1. So are written, with x^ = conj(x):
//   fft, ifft     complex to complex
//   rfft          real to half
//   irfft         half to real, twice: both of x[k] and x[n - k] = x^[k]
// and of each the adjoint, which is its gradient: sides exchanged, the other sign.
//
// Twiddles have all digits of f64; the error of a sum is about u log2(n) of the norm of x, in the
// reference and the naive rungs about u. f64 f32, y and x of one dtype; any strides, x may be
// expanded; y overlaps nothing. `axis` of y and of x, which agree in all axes but this and that of
// the pairs. n >= 1.
struct FftArgs {
  static constexpr int kSliceViews = 2;  // kernels/dispatch/run_slices.h
  static constexpr bool kSliceBroadcast = false;
  void shift_axes(int n) { axis += n; }
  View y, x;
  int axis = 0;
  i64 n = 1;
  bool inverse = false;
  FftSide y_side = FftSide::complex, x_side = FftSide::complex;
  bool twice = false;
  double scale = 1;
  i64 bytes() const { return y.bytes() + x.bytes(); }
  i64 rows() const {
    const i64 numbers = y.numel() / (y_side == FftSide::real ? 1 : 2), length = y.size(axis);
    return length == 0 ? 0 : numbers / length;
  }
  i64 flops() const {
    i64 steps = 0;  // log2(n)
    for (i64 rest = n; rest > 1; rest /= 2) ++steps;
    return 5 * rows() * n * steps;
  }
};
WT_CONTRACT(fft, FftArgs);

}  // namespace wt
