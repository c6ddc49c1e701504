// Spectra of signals over time, and the windows that they are taken through.
#pragma once
#include <optional>

#include "warptape/autograd/ops/pad.h"
#include "warptape/core/factories.h"
#include "warptape/core/in.h"

namespace wt {

// --- windows [n] of numbers, computed in f64 ---
// With N = n + 1 for periodic ones, whose last value is left out, as spectra want them, else N = n
// (symmetric, as filters want them). One value is 1; of n = 0 there is none. Throw UsageError for a
// negative n, DtypeError unless the dtype is floating.
struct WindowOptions {
  bool periodic = true;
};
// (1 - cos(2 pi k / (N - 1))) / 2
WT_API Tensor hann_window(i64 n, const WindowOptions& options = {}, const TensorOptions& o = {},
                          Frame at = Frame::here());
struct HammingWindowOptions {
  bool periodic = true;
  double alpha = 0.54, beta = 0.46;
};
// alpha - beta cos(2 pi k / (N - 1))
WT_API Tensor hamming_window(i64 n, const HammingWindowOptions& options = {},
                             const TensorOptions& o = {}, Frame at = Frame::here());
// 0.42 - 0.5 cos(2 pi k / (N - 1)) + 0.08 cos(4 pi k / (N - 1))
WT_API Tensor blackman_window(i64 n, const WindowOptions& options = {}, const TensorOptions& o = {},
                              Frame at = Frame::here());
// 1 - |2 k / (N - 1) - 1|: a triangle
WT_API Tensor bartlett_window(i64 n, const WindowOptions& options = {}, const TensorOptions& o = {},
                              Frame at = Frame::here());
struct KaiserWindowOptions {
  bool periodic = true;
  double beta = 12;
};
// I0(beta sqrt(1 - (2 k / (N - 1) - 1)^2)) / I0(beta), I0 the modified Bessel function of order 0.
// Throws UsageError unless beta is finite.
WT_API Tensor kaiser_window(i64 n, const KaiserWindowOptions& options = {},
                            const TensorOptions& o = {}, Frame at = Frame::here());

// --- short-time Fourier transforms ---
struct StftOptions {
  std::optional<i64> hop_length{};      // from one frame to the next; unset: n_fft / 4
  std::optional<i64> win_length{};      // unset: n_fft. A shorter window has zeros on both sides
  Tensor window{};                      // [win_length], x's dtype; undefined: ones
  bool center = true;                   // frame t has x[t hop] in its middle; else it begins there
  PadMode pad_mode = PadMode::reflect;  // what lies beyond the ends of x then
  bool normalized = false;              // times 1 / sqrt(n_fft)
  bool onesided = true;                 // the bins 0 to n_fft / 2 alone
};
// y[.., k, t] = sum_j window[j] x[t hop + j] exp(-2 pi i j k / n_fft), complex numbers as pairs
// (fourier.h): x: [.., L] real, y: [.., n_fft / 2 + 1 or n_fft, frames, 2] with frames =
// 1 + (L + 2 (n_fft / 2) - n_fft) / hop, or 1 + (L - n_fft) / hop without center. A view in which
// the frames are apart and a frame's bins are neighbours. PyTorch: torch.stft with
// return_complex=True, for any number of axes before the last. Gradients reach x and the window.
// Throws ShapeError for a signal that is shorter than a frame or, mirrored, than n_fft / 2 + 1, and
// for the window's shape; UsageError unless n_fft, hop_length >= 1 and 1 <= win_length <= n_fft;
// DtypeError unless f32 or f64.
WT_API Tensor stft(const In& x, i64 n_fft, const StftOptions& options = {});

struct IstftOptions {
  std::optional<i64> hop_length{};
  std::optional<i64> win_length{};
  Tensor window{};
  bool center = true;
  bool normalized = false;
  bool onesided = true;  // false: x has n_fft bins, of which those above n_fft / 2 are not read
  std::optional<i64> length{};  // of the result, which is cut off or followed by zeros
};
// The signal [.., L] whose stft x [.., bins, frames, 2] is nearest to, by least squares (Griffin
// and Lim 1984): the inverse transforms of the frames through the window, added up where they
// overlap, divided by the sum of the squares of the windows there. L: hop (frames - 1), or n_fft
// more without center. Options and gradients are stft's. Where the windows leave nothing to divide
// by (below 1e-11) the cpu throws UsageError, for which it looks at the window; on other devices
// the result is infinite or NaN there. Throws ShapeError for x's shape and the window's, UsageError
// as stft.
WT_API Tensor istft(const In& x, i64 n_fft, const IstftOptions& options = {});

}  // namespace wt
