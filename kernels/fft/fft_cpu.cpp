// Fast Fourier transforms on the cpu: rows are brought into buffers, several side by side so that
// the loops of every stage run over neighbours, and divided among threads.
#include "warptape/kernels/fft/fft_cpu.h"

#include <algorithm>

#include "warptape/core/device.h"
#include "warptape/kernels/cpu/threads.h"
#include "warptape/kernels/fft/fft_common.h"
#include "warptape/kernels/fft/fft_plan_cpu.h"

namespace wt {
namespace {

constexpr i64 kLanes = 8, kNumbersInCache = 1 << 15;  // of all lanes
constexpr i64 kWorkAThread = 1 << 18;                 // flops

struct FftWork {
  i64 lanes, length, groups, threads;
};
FftWork work_of(const FftArgs& a) {
  FftWork w{.lanes = 1, .length = fft_length(a.n), .groups = 0, .threads = 1};
  const i64 rows = a.rows();
  if (rows > 1 && w.length * kLanes <= kNumbersInCache) w.lanes = std::min(kLanes, rows);
  w.groups = (rows + w.lanes - 1) / w.lanes;
  w.threads = std::min({i64(num_threads()), w.groups, a.flops() / kWorkAThread + 1});
  return w;
}

// Rows of a problem that are worked on together, in buffers: number j of row b at j * count + b.
template <class T>
struct Group {
  const FftArgs& a;
  const FftRows& f;
  i64 count;
  const T* from[kLanes];
  T* to[kLanes];

  Group(const FftArgs& args, const FftRows& rows, i64 first, i64 size)
      : a(args), f(rows), count(size) {
    for (i64 b = 0; b < count; ++b) {
      from[b] = a.x.as<const T>() + f.rows.start(FftRows::X, first + b);
      to[b] = a.y.as<T>() + f.rows.start(FftRows::Y, first + b);
    }
  }
  // value(k, b) of every row, and zeros beyond what y's side holds.
  template <class F>
  void store(const F& value) const {
    const T scale = T(a.scale);
    for (i64 k = 0; k < f.y.size; ++k)
      for (i64 b = 0; b < count; ++b)
        f.y.store(to[b], k, k < f.y.used ? scale * value(k, b) : Complex<T>{0, 0});
  }
};
template <class T>
Complex<T> number(const SplitComplex<T>& x, i64 at) {
  return {x.re[at], x.im[at]};
}

template <class T>
void transform_complex(const Group<T>& g, const FftPlan<T>& plan, SplitComplex<T> x,
                       SplitComplex<T> other) {
  // The inverse is the forward transform with real and imaginary parts exchanged.
  const bool inverse = g.a.inverse;
  for (i64 j = 0; j < g.a.n; ++j)
    for (i64 b = 0; b < g.count; ++b) {
      const Complex<T> v = g.f.x.template load<T>(g.from[b], j);
      x.re[j * g.count + b] = inverse ? v.im : v.re, x.im[j * g.count + b] = inverse ? v.re : v.im;
    }
  SplitComplex<T> y = fft_run(plan, x, other, g.count);
  if (inverse) std::swap(y.re, y.im);
  g.store([&](i64 k, i64 b) { return number(y, k * g.count + b); });
}

// --- real rows of even length ---
// The numbers 2 j and 2 j + 1 are parts of one complex number: z of half the length, whose bins are
// those of the even and of the odd numbers, Z = E + i O, which conjugates take apart. Y[k] = E[k] +
// w^k O[k] with w = exp(-2 pi i / n); `roots`: of a plan of length n.

template <class T>
void transform_real(const Group<T>& g, const FftPlan<T>& half, const SplitValues<T>& roots,
                    SplitComplex<T> x, SplitComplex<T> other) {
  const i64 m = half.n;
  for (i64 j = 0; j < m; ++j)
    for (i64 b = 0; b < g.count; ++b) {
      x.re[j * g.count + b] = g.f.x.template load<T>(g.from[b], 2 * j).re;
      x.im[j * g.count + b] = g.f.x.template load<T>(g.from[b], 2 * j + 1).re;
    }
  const SplitComplex<T> z = fft_run(half, x, other, g.count);
  g.store([&](i64 k, i64 b) {
    const Complex<T> u = number(z, k % m * g.count + b), v = number(z, (m - k) % m * g.count + b);
    const Complex<T> conjugate{v.re, -v.im}, w{roots.re[size_t(k)], roots.im[size_t(k)]};
    return T(0.5) * (u + conjugate + w * minus_i(u - conjugate));
  });
}
// The other way.
template <class T>
void transform_to_real(const Group<T>& g, const FftPlan<T>& half, const SplitValues<T>& roots,
                       SplitComplex<T> x, SplitComplex<T> other) {
  const i64 m = half.n;
  // Of the whole spectrum: what counts twice is there twice.
  const auto bin = [&](i64 k, i64 b) {
    const Complex<T> v = g.f.x.template load<T>(g.from[b], k);
    return k == 0 || k == m ? Complex<T>{v.re, 0} : T(0.5) * v;
  };
  for (i64 k = 0; k < m; ++k) {
    const Complex<T> back{roots.re[size_t(k)], -roots.im[size_t(k)]};
    for (i64 b = 0; b < g.count; ++b) {
      const Complex<T> u = bin(k, b), v = bin(m - k, b), conjugate{v.re, -v.im};
      const Complex<T> odd = back * (u - conjugate);
      x.im[k * g.count + b] = u.re + conjugate.re - odd.im;  // exchanged: the inverse
      x.re[k * g.count + b] = u.im + conjugate.im + odd.re;
    }
  }
  const SplitComplex<T> z = fft_run(half, x, other, g.count);
  g.store([&](i64 k, i64 b) {
    const T* const part = k % 2 ? z.re : z.im;
    const i64 at = k / 2 * g.count + b;
    return Complex<T>{part[at], 0};
  });
}
bool takes_halves(const FftArgs& a) {
  const bool forward = !a.inverse && a.x_side == FftSide::real && a.y_side == FftSide::half;
  const bool back = a.inverse && a.x_side == FftSide::half && a.y_side == FftSide::real;
  return (forward || back) && a.n % 2 == 0 && fft_length(a.n) == a.n;
}

template <class T>
void transform(const FftArgs& a, T* work) {
  const FftWork w = work_of(a);
  const FftRows f = fft_rows(a);
  const auto plan = fft_plan<T>(a.n);
  const auto half = takes_halves(a) ? fft_plan<T>(a.n / 2) : nullptr;
  const i64 tasks = std::min(w.groups, 8 * w.threads);
  parallel(int(w.threads), int(tasks), [&](int task, int worker) {
    T* const own = work + worker * 4 * w.length * w.lanes;
    for (i64 i = w.groups * task / tasks; i < w.groups * (task + 1) / tasks; ++i) {
      const Group<T> g(a, f, i * w.lanes, std::min(w.lanes, f.rows.count - i * w.lanes));
      const i64 numbers = w.length * g.count;
      const SplitComplex<T> x{own, own + numbers}, other{own + 2 * numbers, own + 3 * numbers};
      if (!half)
        transform_complex(g, *plan, x, other);
      else if (a.inverse)
        transform_to_real(g, *half, plan->roots, x, other);
      else
        transform_real(g, *half, plan->roots, x, other);
    }
  });
}

}  // namespace

i64 fft_stages_workspace(const FftArgs& a) {
  if (a.y.numel() == 0) return 0;
  const FftWork w = work_of(a);
  return w.threads * 4 * w.length * w.lanes * item_size(a.y.dtype());
}

void fft_stages(const FftArgs& a, const Launch& l) {
  if (a.y.numel() == 0) return;
  a.y.dtype() == DType::f64 ? transform(a, static_cast<double*>(l.workspace))
                            : transform(a, static_cast<float*>(l.workspace));
}

}  // namespace wt
