// Fast Fourier transforms of rows that lie in buffers.
#include "warptape/kernels/fft/fft_plan_cpu.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "warptape/kernels/fft/fft_common.h"

namespace wt {
namespace {

constexpr i64 kLargestRadix = 31;  // a stage of radix r has r^2 products for r numbers

bool is_smooth(i64 n) { return largest_radix(n) <= kLargestRadix; }

// --- stages ---

// Stage of radix R: m butterflies, each of `s` neighbours, in transforms of which s have been
// brought together so far (times the lanes): number p of the stage's m, k of its R.
template <int R, class C>
void stage(const FftPlan<C>& plan, SplitComplex<C> x, SplitComplex<C> y, i64 m, i64 s) {
  const i64 turn = plan.length / (R * m);
  for (i64 p = 0; p < m; ++p) {
    Complex<C> w[R];
    for (int k = 0; k < R; ++k)
      w[k] = {plan.roots.re[size_t(p * k * turn)], plan.roots.im[size_t(p * k * turn)]};
    const C* __restrict xre = x.re + p * s;
    const C* __restrict xim = x.im + p * s;
    C* __restrict yre = y.re + R * p * s;
    C* __restrict yim = y.im + R * p * s;
    for (i64 q = 0; q < s; ++q) {
      Complex<C> v[R];
      for (int j = 0; j < R; ++j) v[j] = {xre[q + j * m * s], xim[q + j * m * s]};
      butterfly(v);
      yre[q] = v[0].re, yim[q] = v[0].im;
      for (int k = 1; k < R; ++k) {
        const Complex<C> u = v[k] * w[k];
        yre[q + k * s] = u.re, yim[q + k * s] = u.im;
      }
    }
  }
}
// Any radix: the sum as it is written.
template <class C>
void stage_of(i64 r, const FftPlan<C>& plan, SplitComplex<C> x, SplitComplex<C> y, i64 m, i64 s) {
  const i64 turn = plan.length / (r * m), slice = plan.length / r;
  for (i64 p = 0; p < m; ++p)
    for (i64 k = 0; k < r; ++k) {
      C* __restrict yre = y.re + (r * p + k) * s;
      C* __restrict yim = y.im + (r * p + k) * s;
      std::fill_n(yre, s, C(0));
      std::fill_n(yim, s, C(0));
      for (i64 j = 0; j < r; ++j) {
        const C* __restrict xre = x.re + (p + m * j) * s;
        const C* __restrict xim = x.im + (p + m * j) * s;
        // The root of number j and the stage's twiddle, in one.
        const size_t t = size_t((j * k % r * slice + p * k * turn) % plan.length);
        const Complex<C> w{plan.roots.re[t], plan.roots.im[t]};
        for (i64 q = 0; q < s; ++q) {
          yre[q] += xre[q] * w.re - xim[q] * w.im;
          yim[q] += xre[q] * w.im + xim[q] * w.re;
        }
      }
    }
}

template <class C>
SplitComplex<C> run_stages(const FftPlan<C>& plan, SplitComplex<C> x, SplitComplex<C> y,
                           i64 lanes) {
  i64 m = plan.length, s = lanes;
  for (const i64 r : plan.radices) {
    m /= r;
    switch (r) {
      case 2:
        stage<2>(plan, x, y, m, s);
        break;
      case 3:
        stage<3>(plan, x, y, m, s);
        break;
      case 4:
        stage<4>(plan, x, y, m, s);
        break;
      case 5:
        stage<5>(plan, x, y, m, s);
        break;
      default:
        stage_of(r, plan, x, y, m, s);
    }
    s *= r;
    std::swap(x, y);
  }
  return x;
}

// --- the chirp ---

// x[j] *= w[j] of the first n numbers of every lane.
template <class C>
void multiply(SplitComplex<C> x, const SplitValues<C>& w, i64 n, i64 lanes) {
  for (i64 j = 0; j < n; ++j) {
    const Complex<C> f{w.re[size_t(j)], w.im[size_t(j)]};
    for (i64 b = j * lanes; b < (j + 1) * lanes; ++b) {
      const Complex<C> v = Complex<C>{x.re[b], x.im[b]} * f;
      x.re[b] = v.re, x.im[b] = v.im;
    }
  }
}

template <class C>
SplitComplex<C> run_chirp(const FftPlan<C>& plan, SplitComplex<C> x, SplitComplex<C> other,
                          i64 lanes) {
  multiply(x, plan.chirp, plan.n, lanes);
  std::fill(x.re + plan.n * lanes, x.re + plan.length * lanes, C(0));
  std::fill(x.im + plan.n * lanes, x.im + plan.length * lanes, C(0));
  const SplitComplex<C> spectrum = run_stages(plan, x, other, lanes);
  multiply(spectrum, plan.filter, plan.length, lanes);
  // The inverse: with real and imaginary parts exchanged.
  if (spectrum.re != x.re) std::swap(x, other);
  const SplitComplex<C> y = run_stages(plan, {x.im, x.re}, {other.im, other.re}, lanes);
  const SplitComplex<C> back{y.im, y.re};
  multiply(back, plan.chirp, plan.n, lanes);
  return back;
}

template <class C>
void make_chirp(FftPlan<C>& plan) {
  const size_t n = size_t(plan.n), length = size_t(plan.length);
  plan.chirp = SplitValues<C>(n);
  SplitValues<C> filter(length), room(length);
  for (size_t j = 0, square = 0; j < n; ++j) {  // j^2 modulo 2 n
    const Complex<double> w = root_of_unity(i64(square), 2 * plan.n);
    plan.chirp.re[j] = C(w.re), plan.chirp.im[j] = C(w.im);
    for (const size_t at : {j, (length - j) % length})
      filter.re[at] = C(w.re / double(length)), filter.im[at] = C(-w.im / double(length));
    square = (square + 2 * j + 1) % (2 * n);
  }
  const SplitComplex<C> y = run_stages<C>(plan, {filter.re.data(), filter.im.data()},
                                          {room.re.data(), room.im.data()}, 1);
  plan.filter = y.re == filter.re.data() ? std::move(filter) : std::move(room);
}

}  // namespace

i64 fft_length(i64 n) {
  if (is_smooth(n)) return n;
  i64 length = 4;
  while (length < 2 * n - 1) length *= 2;
  for (const i64 eighths : {5, 6})  // 5 and 6 times a smaller power of two
    if (length / 8 * eighths >= 2 * n - 1) return length / 8 * eighths;
  return length;
}

template <class C>
FftPlan<C>::FftPlan(i64 transformed)
    : n(transformed), length(fft_length(transformed)), roots(size_t(length)) {
  for (i64 rest = length; rest > 1; rest /= radices.back()) radices.push_back(next_radix(rest));
  for (i64 t = 0; t < length; ++t) {
    const Complex<double> w = root_of_unity(t, length);
    roots.re[size_t(t)] = C(w.re), roots.im[size_t(t)] = C(w.im);
  }
  if (length != n) make_chirp(*this);
}

template <class C>
std::shared_ptr<const FftPlan<C>> fft_plan(i64 n) {
  constexpr size_t kKept = 8;
  static std::mutex mutex;
  static std::array<std::shared_ptr<const FftPlan<C>>, kKept> kept;  // the last used first
  const auto to_front = [](size_t i) { std::rotate(&kept[0], &kept[i], &kept[i] + 1); };
  {
    const std::lock_guard lock(mutex);
    for (size_t i = 0; i < kKept && kept[i]; ++i)
      if (kept[i]->n == n) {
        to_front(i);
        return kept[0];
      }
  }
  auto made = std::make_shared<const FftPlan<C>>(n);
  const std::lock_guard lock(mutex);
  kept[kKept - 1] = made;
  to_front(kKept - 1);
  return made;
}

template <class C>
SplitComplex<C> fft_run(const FftPlan<C>& plan, SplitComplex<C> x, SplitComplex<C> other,
                        i64 lanes) {
  return plan.length == plan.n ? run_stages(plan, x, other, lanes)
                               : run_chirp(plan, x, other, lanes);
}

template struct FftPlan<float>;
template struct FftPlan<double>;
template std::shared_ptr<const FftPlan<float>> fft_plan<float>(i64);
template std::shared_ptr<const FftPlan<double>> fft_plan<double>(i64);
template SplitComplex<float> fft_run(const FftPlan<float>&, SplitComplex<float>,
                                     SplitComplex<float>, i64);
template SplitComplex<double> fft_run(const FftPlan<double>&, SplitComplex<double>,
                                      SplitComplex<double>, i64);

}  // namespace wt
