// Fast Fourier transforms on the cpu: rows are brought into buffers, several side by side so that
// the loops of every stage run over neighbours, and divided among threads.
#include "warptape/kernels/cpu/fft.h"

#include <algorithm>

#include "warptape/core/device.h"
#include "warptape/kernels/common/fft.h"
#include "warptape/kernels/cpu/fft_plan.h"
#include "warptape/kernels/cpu/threads.h"

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

// Rows first .. first + count - 1, count <= lanes.
template <class T>
void transform_rows(const FftArgs& a, const FftRows& f, const FftPlan<T>& plan, T* work, i64 first,
                    i64 count) {
  const i64 numbers = plan.length * count;
  SplitComplex<T> x{work, work + numbers};
  SplitComplex<T> other{work + 2 * numbers, work + 3 * numbers};
  if (a.inverse) std::swap(x.re, x.im);  // what follows is the forward transform
  const T* from[kLanes];
  T* to[kLanes];
  for (i64 b = 0; b < count; ++b) {
    from[b] = a.x.as<const T>() + f.rows.start(FftRows::X, first + b);
    to[b] = a.y.as<T>() + f.rows.start(FftRows::Y, first + b);
  }
  for (i64 j = 0; j < a.n; ++j)
    for (i64 b = 0; b < count; ++b) {
      const Complex<T> v = f.x.load<T>(from[b], j);
      x.re[j * count + b] = v.re, x.im[j * count + b] = v.im;
    }
  if (a.inverse) std::swap(x.re, x.im);
  SplitComplex<T> y = fft_run(plan, x, other, count);
  if (a.inverse) std::swap(y.re, y.im);
  const T scale = T(a.scale);
  for (i64 k = 0; k < f.y.size; ++k)
    for (i64 b = 0; b < count; ++b)
      f.y.store(to[b], k,
                k < f.y.used ? Complex<T>{scale * y.re[k * count + b], scale * y.im[k * count + b]}
                             : Complex<T>{0, 0});
}

template <class T>
void transform(const FftArgs& a, T* work) {
  const FftWork w = work_of(a);
  const FftRows f = fft_rows(a);
  const auto plan = fft_plan<T>(a.n);
  const i64 tasks = std::min(w.groups, 8 * w.threads);
  parallel(int(w.threads), int(tasks), [&](int task, int worker) {
    T* const own = work + worker * 4 * w.length * w.lanes;
    for (i64 g = w.groups * task / tasks; g < w.groups * (task + 1) / tasks; ++g) {
      const i64 first = g * w.lanes;
      transform_rows(a, f, *plan, own, first, std::min(w.lanes, f.rows.count - first));
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
