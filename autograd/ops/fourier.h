// Discrete Fourier transforms.
//
// Complex tensors are real ones whose last axis has size 2, (real, imaginary), which is what
// torch.view_as_real gives. That axis is not counted: `dim` -1 is the last of the others. f32 and
// f64; of 16-bit floats the CPU of PyTorch has no transforms either. Any length: O(n log n), on
// simt and cuda O(n p) where a prime factor p is large.
//
// The sign is that of PyTorch, NumPy and ONNX: exp(-2 pi i j k / n) forward, exp(+...) in the
// inverse. ONNX's DFT has the default norm; its `axis` counts as `dim` does here from the front,
// and its `onesided` is rfft.
#pragma once
#include <optional>

#include "warptape/core/factories.h"
#include "warptape/core/in.h"

namespace wt {

// What a transform of n numbers is multiplied by: forward and inverse one by 1 and 1 / n
// (backward), both by 1 / sqrt(n) (ortho), by 1 / n and 1 (forward).
enum class FftNorm : u8 { backward, ortho, forward };
struct FftOptions {
  // The length of the transform: x is cut off there, or zeros follow it. Unset: x's own.
  std::optional<i64> n{};
  i64 dim = -1;
  FftNorm norm = FftNorm::backward;
};
// y[k] = norm * sum_j x[j] exp(-2 pi i j k / n) along `dim`. x: [.., N, .., 2], y: [.., n, .., 2].
// Of real numbers: rfft, or fft of stack({x, zeros_like(x)}, -1). Throws ShapeError without pairs,
// for the axis and for an axis without elements, UsageError unless n >= 1, DtypeError unless f32 or
// f64.
WT_API Tensor fft(const In& x, const FftOptions& options = {});
// x[j] = norm * sum_k y[k] exp(+2 pi i j k / n): the inverse of fft. Shapes and errors are fft's.
WT_API Tensor ifft(const In& x, const FftOptions& options = {});
// fft of real numbers, of which the bins 0 to n / 2 tell the others: y[n - k] = conj(y[k]).
// x: [.., N, ..], y: [.., n / 2 + 1, .., 2]. Errors are fft's.
WT_API Tensor rfft(const In& x, const FftOptions& options = {});
// The real numbers whose rfft is x: x: [.., n / 2 + 1, .., 2], y: [.., n, ..]. n unset: 2 (N - 1),
// which is not the length of an odd transform. The imaginary parts of bin 0 and, of an even n, of
// bin n / 2 are not read. The gradient is, as PyTorch's, that of bins which count twice but for
// these two. Errors are fft's; UsageError also where N = 1 leaves no n.
WT_API Tensor irfft(const In& x, const FftOptions& options = {});

struct FftnOptions {
  // The lengths of the transforms, one for each axis of `dim`; unset: x's own (irfftn: as irfft).
  std::optional<Shape> s{};
  // Unset: all axes or, if s is given, the last ones.
  std::optional<Dims> dim{};
  FftNorm norm = FftNorm::backward;
};
// fft along several axes, one after the other. Errors are fft's; ShapeError also for an axis that
// is named twice and for lists of unequal length.
WT_API Tensor fftn(const In& x, const FftnOptions& options = {});
// The inverse of fftn.
WT_API Tensor ifftn(const In& x, const FftnOptions& options = {});
// rfft along the last axis of `dim`, then fft along the others.
WT_API Tensor rfftn(const In& x, const FftnOptions& options = {});
// ifft along the axes of `dim` but the last one, then irfft along that.
WT_API Tensor irfftn(const In& x, const FftnOptions& options = {});

// fftn of the last two axes, unless `dim` says others.
WT_API Tensor fft2(const In& x, const FftnOptions& options = {});
// ifftn of the last two axes, unless `dim` says others.
WT_API Tensor ifft2(const In& x, const FftnOptions& options = {});
// rfftn of the last two axes, unless `dim` says others.
WT_API Tensor rfft2(const In& x, const FftnOptions& options = {});
// irfftn of the last two axes, unless `dim` says others.
WT_API Tensor irfft2(const In& x, const FftnOptions& options = {});

// The frequencies of fft's bins, in cycles a unit of d, the distance of samples: 0, 1, ...,
// (n - 1) / 2, -(n / 2), ..., -1, divided by n d. Throws UsageError for n < 1, DtypeError unless
// the dtype is floating.
WT_API Tensor fftfreq(i64 n, double d = 1, const TensorOptions& o = {}, Frame at = Frame::here());
// The frequencies of rfft's bins: 0, 1, ..., n / 2, divided by n d. Throws as fftfreq.
WT_API Tensor rfftfreq(i64 n, double d = 1, const TensorOptions& o = {}, Frame at = Frame::here());
// Frequency 0 moved from the front to the middle of the axes `dims`: their second halves come
// first. Here all of x's axes count, and none is the default: along that of the pairs real and
// imaginary parts would change places. Throws ShapeError for an axis.
WT_API Tensor fftshift(const In& x, const Dims& dims);
// The inverse of fftshift, which differs from it where an axis is odd.
WT_API Tensor ifftshift(const In& x, const Dims& dims);

}  // namespace wt
