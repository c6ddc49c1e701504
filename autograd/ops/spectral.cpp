// Short-time Fourier transforms, made of other operators, and windows.
#include "warptape/autograd/ops/spectral.h"

#include <cmath>
#include <vector>

#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/arrange.h"
#include "warptape/autograd/ops/fourier.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/at_line.h"
#include "warptape/core/factory.h"

namespace wt {
namespace info {
constexpr OpInfo stft{.name = "stft", .autocast = Autocast::f32, .composite = true};
constexpr OpInfo istft{.name = "istft", .autocast = Autocast::f32, .composite = true};
}  // namespace info

namespace {

// --- windows ---

constexpr double kPi = 3.14159265358979323846;

// f(k / (N - 1)) for the n values of a window.
template <class F>
Tensor window_of(const char* name, i64 n, bool periodic, const TensorOptions& o, Frame at,
                 const F& f) {
  const FrameScope line(at);
  TensorOptions options = o;
  options.dtype = detail::dtype_or_default(o);
  if (n < 0) throw UsageError(str("[", name, "] n must be at least 0, got ", n, at_line()));
  if (!is_floating(*options.dtype))
    throw DtypeError(
        str("[", name, "] expected a floating dtype, got ", dtype_name(*options.dtype), at_line()));
  std::vector<double> v(size_t(n), 1.0);
  for (i64 k = 0; k < n && n > 1; ++k) v[size_t(k)] = f(double(k) / double(periodic ? n : n - 1));
  return tensor(v, options, at);
}

// The modified Bessel function of order 0 by its power series, whose terms are all positive, over
// exp(|x|), that nothing overflows.
double bessel_i0_scaled(double x) {
  const double half = std::fabs(x) / 2;
  double sum = 0;
  double log_term = -std::fabs(x);  // of (half^k / k!)^2
  for (double k = 1;; ++k) {
    const double term = std::exp(log_term);
    sum += term;
    if (k > half && term <= sum * 1e-18) return sum;
    log_term += 2 * std::log(half / k);
  }
}

// --- what stft and istft share ---

struct Frames {
  i64 n_fft, hop, win;
};
template <class Options>
Frames check_frames(const OpScope& s, i64 n_fft, const Options& o) {
  if (s.dtype() != DType::f32 && s.dtype() != DType::f64)
    s.fail<DtypeError>(str("expected f32 or f64, got ", dtype_name(s.dtype())), ".to(f32)");
  if (n_fft < 1) s.fail<UsageError>(str("n_fft must be at least 1, got ", n_fft));
  const Frames f{n_fft, o.hop_length.value_or(n_fft / 4), o.win_length.value_or(n_fft)};
  if (f.hop < 1) s.fail<UsageError>(str("hop_length must be at least 1, got ", f.hop));
  if (f.win < 1 || f.win > n_fft)
    s.fail<UsageError>(str("win_length must be 1 to n_fft = ", n_fft, ", got ", f.win));
  if (s.size() > 1 && shape_of(s.geometry(1)) != Shape{f.win})
    s.fail<ShapeError>(
        str("the window must have shape ", Shape{f.win}, ", got ", shape_of(s.geometry(1))));
  return f;
}

// The window of n_fft numbers; undefined: all are 1.
Tensor whole_window(const CompositeScope& s, const Frames& f) {
  if (s.size() < 2 && f.win == f.n_fft) return {};
  const Tensor w =
      s.size() > 1 ? s.operand(1) : ones({f.win}, {.dtype = s.dtype(), .device = s.device()});
  if (f.win == f.n_fft) return w;
  const i64 before = (f.n_fft - f.win) / 2;
  return pad(w, {before, f.n_fft - f.win - before});
}

void check_signal(const OpScope& s, const Frames& f, const StftOptions& o) {
  const Geometry& g = s.geometry(0);
  if (g.ndim < 1) s.fail<ShapeError>("needs at least one axis, got 0 dimensions");
  const i64 length = g.shape[g.ndim - 1], half = f.n_fft / 2;
  const i64 least = !o.center                          ? f.n_fft
                    : o.pad_mode == PadMode::reflect   ? half + 1
                    : o.pad_mode == PadMode::circular  ? half
                    : o.pad_mode == PadMode::replicate ? 1
                                                       : f.n_fft - 2 * half;
  if (length < least)
    s.fail<ShapeError>(str("a signal of ", length, " is too short for n_fft = ", f.n_fft,
                           o.center ? " and this padding" : "", ": at least ", least));
}

// --- istft ---

i64 check_spectrum(const OpScope& s, const Frames& f, const IstftOptions& o) {
  const Geometry& g = s.geometry(0);
  if (g.ndim < 3 || g.shape[g.ndim - 1] != 2)
    s.fail<ShapeError>(str("expected [.., bins, frames, 2], got ", shape_of(g)));
  const i64 bins = o.onesided ? f.n_fft / 2 + 1 : f.n_fft, frames = g.shape[g.ndim - 2];
  if (g.shape[g.ndim - 3] != bins)
    s.fail<ShapeError>(
        str("expected ", bins, " bins for n_fft = ", f.n_fft, ", got ", g.shape[g.ndim - 3]));
  if (frames < 1) s.fail<ShapeError>("there are no frames");
  if (o.length && *o.length < 1)
    s.fail<UsageError>(str("length must be at least 1, got ", *o.length));
  return frames;
}

void check_envelope(const OpScope& s, const Tensor& envelope) {
  if (s.device() != Device::cpu()) return;
  for (const double v : envelope.detach().to_vector<double>())
    if (std::fabs(v) < 1e-11)
      s.fail<UsageError>("the windows leave nothing to divide by",
                         "a window without zeros at its ends, center = true or a smaller hop");
}

}  // namespace

Tensor hann_window(i64 n, const WindowOptions& options, const TensorOptions& o, Frame at) {
  return window_of("hann_window", n, options.periodic, o, at,
                   [](double t) { return 0.5 - 0.5 * std::cos(2 * kPi * t); });
}
Tensor hamming_window(i64 n, const HammingWindowOptions& options, const TensorOptions& o,
                      Frame at) {
  return window_of("hamming_window", n, options.periodic, o, at,
                   [&](double t) { return options.alpha - options.beta * std::cos(2 * kPi * t); });
}
Tensor blackman_window(i64 n, const WindowOptions& options, const TensorOptions& o, Frame at) {
  return window_of("blackman_window", n, options.periodic, o, at, [](double t) {
    return 0.42 - 0.5 * std::cos(2 * kPi * t) + 0.08 * std::cos(4 * kPi * t);
  });
}
Tensor bartlett_window(i64 n, const WindowOptions& options, const TensorOptions& o, Frame at) {
  return window_of("bartlett_window", n, options.periodic, o, at,
                   [](double t) { return 1 - std::fabs(2 * t - 1); });
}
Tensor kaiser_window(i64 n, const KaiserWindowOptions& options, const TensorOptions& o, Frame at) {
  const double beta = std::fabs(options.beta);
  if (!std::isfinite(beta)) {
    const FrameScope line(at);
    throw UsageError(str("[kaiser_window] beta must be finite, got ", options.beta, at_line()));
  }
  const double whole = bessel_i0_scaled(beta);
  return window_of("kaiser_window", n, options.periodic, o, at, [&](double t) {
    const double x = beta * std::sqrt(std::fmax(0.0, 4 * t * (1 - t)));  // 1 - (2 t - 1)^2
    return std::exp(x - beta) * bessel_i0_scaled(x) / whole;
  });
}

Tensor stft(const In& x, i64 n_fft, const StftOptions& options) {
  const In window(options.window);
  const In* const list[] = {&x, &window};
  CompositeScope s(info::stft, list, options.window.defined() ? 2 : 1, Types::same);
  const Frames f = check_frames(s, n_fft, options);
  check_signal(s, f, options);
  Tensor t = s.operand(0);
  const i64 half = n_fft / 2;
  if (options.center) t = pad(t, {half, half}, {.mode = options.pad_mode});
  t = unfold(t, -1, n_fft, f.hop);
  if (const Tensor w = whole_window(s, f); w.defined()) t = mul(t, w);
  const FftOptions norm{.norm = options.normalized ? FftNorm::ortho : FftNorm::backward};
  t = options.onesided ? rfft(t, norm) : fft(stack({t, zeros_like(t)}, -1), norm);
  return s.finish(transpose(t, -3, -2));
}

Tensor istft(const In& x, i64 n_fft, const IstftOptions& options) {
  const In window(options.window);
  const In* const list[] = {&x, &window};
  CompositeScope s(info::istft, list, options.window.defined() ? 2 : 1, Types::same);
  const Frames f = check_frames(s, n_fft, options);
  const i64 frames = check_spectrum(s, f, options);
  const i64 total = checked_add(n_fft, checked_mul(f.hop, frames - 1));
  const i64 begin = options.center ? n_fft / 2 : 0;
  const i64 end = options.length ? checked_add(begin, *options.length) : total - begin;
  if (end <= begin || begin >= total)
    s.fail<ShapeError>(str(frames, " frames are less than one sample of a centred signal"));
  const Tensor w = whole_window(s, f);
  const Tensor flat =
      w.defined() ? square(w) : ones({n_fft}, {.dtype = s.dtype(), .device = s.device()});
  const i64 there = std::min(end, total) - begin;
  const Tensor envelope = unfold_backward(expand(flat, {frames, n_fft}), {total}, 0, n_fft, f.hop)
                              .narrow(0, begin, there);
  check_envelope(s, envelope);

  // The signal is real: the other bins are the conjugates of these.
  Tensor t = transpose(s.operand(0).narrow(-3, 0, n_fft / 2 + 1), -3, -2);
  t = irfft(t, {.n = n_fft, .norm = options.normalized ? FftNorm::ortho : FftNorm::backward});
  if (w.defined()) t = mul(t, w);
  Shape shape = t.shape();
  shape.erase(shape.ndim() - 1);
  shape[shape.ndim() - 1] = total;
  t = unfold_backward(t, shape, -1, n_fft, f.hop).narrow(-1, begin, there);
  t = div(t, envelope);
  return s.finish(end > total ? pad(t, {0, end - total}) : t);
}

namespace detail {
OpInfos spectral_ops() {
  static constexpr const OpInfo* kOps[] = {&info::stft, &info::istft};
  return kOps;
}
}  // namespace detail

}  // namespace wt
