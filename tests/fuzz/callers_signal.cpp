// Fourier transforms of one axis and of several, and of signals over time.
#include <algorithm>

#include "warptape/tests/fuzz/operators.h"

namespace wt_test {
namespace {

FftNorm norm_of(Draw& d) { return FftNorm(d.pick(3)); }

// Numbers along one to three axes, mostly f32 or f64; pairs have one more.
Tensor numbers(Draw& d, bool pairs) {
  d.floats();
  Shape s = d.shape(1, 3);
  if (pairs) s.push_back(2);
  return d.tensor(d.bent(s));
}

using OneAxis = Tensor (*)(const In&, const FftOptions&);
Caller along_one(OneAxis f, bool pairs) {
  return [=](Draw& d) {
    const Tensor x = numbers(d, pairs);
    FftOptions o{.dim = d.axis(std::max(x.ndim() - int(pairs), 0)), .norm = norm_of(d)};
    if (d.flag()) o.n = d.number(1, 40);
    return f(x, o);
  };
}
using ManyAxes = Tensor (*)(const In&, const FftnOptions&);
Caller along_many(ManyAxes f, bool pairs) {
  return [=](Draw& d) {
    const Tensor x = numbers(d, pairs);
    FftnOptions o{.norm = norm_of(d)};
    if (d.flag()) o.dim = d.axes(std::max(x.ndim() - int(pairs), 0));
    if (d.chance(0.3)) {
      Shape s;
      for (size_t i = o.dim ? o.dim->size() : 1; i > 0; --i) s.push_back(d.number(1, 9));
      o.s = d.as_argument(s);
    }
    return f(x, o);
  };
}

// What both transforms over time take.
template <class Options>
Options over_time(Draw& d, i64 n_fft) {
  Options o;
  if (d.flag()) o.hop_length = d.number(1, n_fft);
  if (d.flag()) o.win_length = d.number(1, n_fft);
  if (d.flag())
    o.window = d.tensor(d.bent({std::clamp<i64>(o.win_length.value_or(n_fft), 0, 9)}), 0.5, 2);
  o.center = d.flag(), o.normalized = d.flag(), o.onesided = d.flag();
  return o;
}

}  // namespace

void add_signal_callers(Callers& to) {
  to["fft"] = along_one(fft, true);
  to["ifft"] = along_one(ifft, true);
  to["rfft"] = along_one(rfft, false);
  to["irfft"] = along_one(irfft, true);
  to["fftn"] = along_many(fftn, true);
  to["ifftn"] = along_many(ifftn, true);
  to["rfftn"] = along_many(rfftn, false);
  to["irfftn"] = along_many(irfftn, true);
  to["fftshift"] = [](Draw& d) {
    const Tensor x = d.tensor();
    return fftshift(x, d.axes(x.ndim()));
  };
  to["ifftshift"] = [](Draw& d) {
    const Tensor x = d.tensor();
    return ifftshift(x, d.axes(x.ndim()));
  };
  to["stft"] = [](Draw& d) {
    d.floats();
    const i64 n_fft = d.number(1, 8);
    Shape s = d.shape(0, 2);
    s.push_back(4 + d.pick(12));
    const Tensor x = d.tensor(d.bent(s));
    StftOptions o = over_time<StftOptions>(d, std::clamp<i64>(n_fft, 1, 8));
    o.pad_mode = PadMode(d.pick(4));
    return stft(x, n_fft, o);
  };
  to["istft"] = [](Draw& d) {
    d.floats();
    const i64 n_fft = d.number(1, 8), fits = std::clamp<i64>(n_fft, 1, 8);
    IstftOptions o = over_time<IstftOptions>(d, fits);
    Shape s = d.shape(0, 1);
    s.push_back(o.onesided ? fits / 2 + 1 : fits), s.push_back(d.size()), s.push_back(2);
    const Tensor x = d.tensor(d.bent(s));
    if (d.chance(0.3)) o.length = d.number(1, 12);
    return istft(x, n_fft, o);
  };
}

}  // namespace wt_test
