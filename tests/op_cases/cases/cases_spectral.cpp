// Rows of the short-time Fourier transforms. The oracle is the sum, frame by frame.
#include <complex>

#include "warptape/autograd/ops/spectral.h"
#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {
namespace {

using Number = std::complex<double>;

struct Case {
  Shape shape;  // stft: of the signals; istft: before bins and frames
  i64 n_fft, hop;
  i64 win = 0;  // 0: n_fft, and no window
  bool center = true;
  PadMode mode = PadMode::reflect;
  bool normalized = false, onesided = true;
  i64 frames = 0, length = 0;  // of istft; 0: unset

  i64 bins() const { return onesided ? n_fft / 2 + 1 : n_fft; }
  double scale() const { return normalized ? 1 / std::sqrt(double(n_fft)) : 1; }
  // Number j of the n_fft that a frame is multiplied with.
  double weight(const std::vector<Array>& in, i64 j) const {
    if (win == 0) return 1;
    const i64 k = j - (n_fft - win) / 2;
    return k < 0 || k >= win ? 0 : in[1].v[size_t(k)];
  }
  Number root(i64 jk, bool inverse) const {
    const double angle = 2 * std::acos(-1.0) * double(jk % n_fft) / double(n_fft);
    return std::polar(1.0, inverse ? angle : -angle);
  }
};

std::string torch_options(const Case& k) {
  std::string text = str("n_fft=", k.n_fft, ", hop_length=", k.hop);
  if (k.win) text += str(", win_length=", k.win, ", window=b");
  if (!k.center) text += ", center=False";
  if (k.normalized) text += ", normalized=True";
  if (!k.onesided) text += ", onesided=False";
  return text;
}
// Values away from 0: what istft divides by.
Input window_input(i64 n) { return {{n}, 0.5, 1.5}; }

// --- stft ---

// Element i of a signal with what lies beyond its ends.
double beyond(const std::vector<double>& v, size_t first, i64 n, i64 i, PadMode mode) {
  if (i < 0 || i >= n) {
    if (mode == PadMode::constant) return 0;
    if (mode == PadMode::reflect) i = i < 0 ? -i : 2 * (n - 1) - i;
    if (mode == PadMode::replicate) i = i < 0 ? 0 : n - 1;
    if (mode == PadMode::circular) i = (i + n) % n;
  }
  return v[first + size_t(i)];
}
Array spectra(const std::vector<Array>& in, const Case& k) {
  const int axis = k.shape.ndim() - 1;
  const i64 n = k.shape[axis], border = k.center ? k.n_fft / 2 : 0;
  const i64 frames = (n + 2 * border - k.n_fft) / k.hop + 1;
  Array y{k.shape, {}, 2 * kTermsOfFormula + double(k.n_fft)};
  y.shape[axis] = k.bins();
  y.shape.push_back(frames), y.shape.push_back(2);
  for (i64 at = 0; at < count(y.shape) / 2; ++at) {
    const i64 t = at % frames, bin = at / frames % k.bins(), row = at / frames / k.bins();
    Number sum = 0;
    double size = 0;
    for (i64 j = 0; j < k.n_fft; ++j) {
      const double v = k.scale() * k.weight(in, j) *
                       beyond(in[0].v, size_t(row * n), n, t * k.hop + j - border, k.mode);
      sum += v * k.root(j * bin, false), size += std::fabs(v);
    }
    y.v.push_back(sum.real()), y.v.push_back(sum.imag());
    y.magnitude.push_back(size), y.magnitude.push_back(size);
  }
  return y;
}

StftOptions stft_options(const Case& k, std::span<const Tensor> in) {
  StftOptions o{.hop_length = k.hop,
                .center = k.center,
                .pad_mode = k.mode,
                .normalized = k.normalized,
                .onesided = k.onesided};
  if (k.win) o.win_length = k.win, o.window = in[1];
  return o;
}

void add_stft(std::vector<OpCase>& rows) {
  OpCase c{"stft", {}, {f64, f32}};
  c.cancels = true;
  const Case cases[] = {
      {{2, 13}, 6, 3},
      {{11}, 8, 2, 5},
      {{2, 9}, 5, 2, 5, false},
      {{10}, 4, 3, 4, true, PadMode::constant, true},
      {{10}, 6, 2, 3, true, PadMode::replicate, false, false},
      {{2, 7}, 4, 4, 2, true, PadMode::circular, true, false},
      {{6}, 1, 2, 1, false},
      {{0, 8}, 4, 2},
      {{3, 200}, 64, 16, 50},
  };
  for (const Case& k : cases) {
    Sample s{torch_options(k),
             {{k.shape}},
             [=](std::span<const Tensor> in) { return stft(in[0], k.n_fft, stft_options(k, in)); },
             [=](const std::vector<Array>& in) { return spectra(in, k); }};
    if (k.win) s.inputs.push_back(window_input(k.win));
    s.second_is_zero = k.win == 0;
    static constexpr const char* kModes[] = {"constant", "reflect", "replicate", "circular"};
    if (count(k.shape) > 0 && count(k.shape) <= 64)
      s.torch = str("torch.view_as_real(torch.stft(a, ", torch_options(k), ", pad_mode='",
                    kModes[int(k.mode)], "', return_complex=True))");
    c.samples.push_back(std::move(s));
  }
  const Apply call = [](const Tensor& x, const Tensor& w) {
    (void)stft(x, 2, {.hop_length = 1, .window = w});
  };
  const auto fails = [](i64 length, i64 n_fft, const StftOptions& o) {
    return [=](Device d) {
      StftOptions options = o;
      if (o.window.defined()) options.window = o.window.to(d);
      (void)stft(ones({length}, {.device = d}), n_fft, options);
    };
  };
  c.errors = {
      undefined_operand("stft", call),
      two_devices("stft", call),
      error_input<ShapeError>("no axis", "[stft] needs at least one axis",
                              [](Device d) { (void)stft(ones({}, {.device = d}), 4); }),
      error_input<ShapeError>("short", "[stft] a signal of 3 is too short for n_fft = 6",
                              fails(3, 6, {})),
      error_input<ShapeError>("short without padding", "[stft] a signal of 5 is too short",
                              fails(5, 6, {.center = false})),
      error_input<ShapeError>("window", "[stft] the window must have shape [4], got [3]",
                              fails(9, 4, {.window = ones({3})})),
      error_input<UsageError>("n_fft", "[stft] n_fft must be at least 1, got 0", fails(9, 0, {})),
      error_input<UsageError>("hop", "[stft] hop_length must be at least 1, got 0",
                              fails(9, 4, {.hop_length = 0})),
      error_input<UsageError>("win_length", "[stft] win_length must be 1 to n_fft = 4, got 5",
                              fails(9, 4, {.win_length = 5})),
      error_input<DtypeError>("integers", "[stft] expected f32 or f64, got i64", [](Device d) {
        (void)stft(ones({9}, {.dtype = DType::i64, .device = d}), 4);
      })};
  rows.push_back(std::move(c));
}

// --- istft ---

Array signals(const std::vector<Array>& in, const Case& k) {
  const i64 total = k.n_fft + k.hop * (k.frames - 1), begin = k.center ? k.n_fft / 2 : 0;
  const i64 length = k.length ? k.length : total - 2 * begin;
  Array y{k.shape, {}, 4 * kTermsOfFormula + double(k.n_fft + k.frames)};
  y.shape.push_back(length);
  for (i64 at = 0; at < count(y.shape); ++at) {
    const i64 i = at % length + begin, row = at / length;
    double sum = 0, size = 0, envelope = 0;
    for (i64 t = 0; t < k.frames; ++t) {
      const i64 j = i - t * k.hop;
      if (j < 0 || j >= k.n_fft) continue;
      const double w = k.weight(in, j);
      envelope += w * w;
      for (i64 bin = 0; bin <= k.n_fft / 2; ++bin) {
        const size_t place = 2 * size_t((row * k.bins() + bin) * k.frames + t);
        const Number v{in[0].v[place], in[0].v[place + 1]};
        const bool once = bin == 0 || 2 * bin == k.n_fft;
        const double f = w * (once ? 1 : 2) / (double(k.n_fft) * k.scale());
        sum += f * (v * k.root(bin * j, true)).real();
        size += std::fabs(f) * (std::fabs(v.real()) + std::fabs(v.imag()));
      }
    }
    const double divisor = i < total ? envelope : 1;
    y.v.push_back(sum / divisor), y.magnitude.push_back(size / divisor);
  }
  return y;
}

IstftOptions istft_options(const Case& k, std::span<const Tensor> in) {
  IstftOptions o{
      .hop_length = k.hop, .center = k.center, .normalized = k.normalized, .onesided = k.onesided};
  if (k.win) o.win_length = k.win, o.window = in[1];
  if (k.length) o.length = k.length;
  return o;
}

Case inverse(const Shape& shape, i64 n_fft, i64 hop, i64 frames, i64 win = 0, i64 length = 0) {
  Case k{shape, n_fft, hop, win};
  k.frames = frames, k.length = length;
  return k;
}

void add_istft(std::vector<OpCase>& rows) {
  OpCase c{"istft", {}, {f64, f32}};
  c.cancels = true;
  std::vector<Case> cases{
      inverse({2}, 4, 2, 3),       inverse({}, 6, 2, 4, 5), inverse({}, 5, 3, 3, 5, 9),
      inverse({2}, 4, 1, 3, 4, 3), inverse({}, 4, 2, 4, 4), inverse({}, 5, 2, 3, 5),
      inverse({}, 4, 4, 2, 4),     inverse({0}, 4, 2, 3),   inverse({3}, 64, 16, 11, 50)};
  cases[4].center = false;
  cases[4].normalized = true;
  cases[5].onesided = false;
  cases[5].normalized = true;
  for (const Case& k : cases) {
    Shape shape = k.shape;
    for (const i64 n : {k.bins(), k.frames, i64{2}}) shape.push_back(n);
    Sample s{
        str(torch_options(k), ", frames ", k.frames, ", length ", k.length),
        {{shape}},
        [=](std::span<const Tensor> in) { return istft(in[0], k.n_fft, istft_options(k, in)); },
        [=](const std::vector<Array>& in) { return signals(in, k); }};
    if (k.win) s.inputs.push_back(window_input(k.win));
    s.second_is_zero = k.win == 0;
    if (count(shape) > 0 && count(shape) <= 64)
      s.torch = str("torch.istft(torch.view_as_complex(a), ", torch_options(k),
                    k.length ? str(", length=", k.length) : "", ")");
    c.samples.push_back(std::move(s));
  }
  const Apply call = [](const Tensor& x, const Tensor& w) {
    (void)istft(x, 2, {.hop_length = 1, .window = w});
  };
  const auto fails = [](const Shape& shape, const IstftOptions& o) {
    return [=](Device d) { (void)istft(ones(shape, {.device = d}), 4, o); };
  };
  c.errors = {
      undefined_operand("istft", call),
      two_devices("istft", call),
      error_input<ShapeError>("axes", "[istft] expected [.., bins, frames, 2]", fails({3, 2}, {})),
      error_input<ShapeError>("bins", "[istft] expected 3 bins for n_fft = 4, got 4",
                              fails({4, 5, 2}, {})),
      error_input<ShapeError>("no frames", "[istft] there are no frames", fails({3, 0, 2}, {})),
      error_input<ShapeError>("one frame", "[istft] 1 frames are less than one sample",
                              fails({3, 1, 2}, {})),
      error_input<UsageError>("length", "[istft] length must be at least 1, got 0",
                              fails({3, 5, 2}, {.length = 0})),
      error_input<UsageError>("win_length", "[istft] win_length must be 1 to n_fft = 4, got 0",
                              fails({3, 5, 2}, {.win_length = 0}))};
  rows.push_back(std::move(c));
}

void add_spectral(std::vector<OpCase>& rows) {
  add_stft(rows);
  add_istft(rows);
}
const CaseFile file{add_spectral};

}  // namespace
}  // namespace wt_test
