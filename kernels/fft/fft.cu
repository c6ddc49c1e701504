// Fourier transforms on simt and cuda. Roots of unity are made first, in f64, in a table in the
// workspace. The ladder:
//   naive   one thread a number of y, the sum as it is written, in f64: what the others are
//           compared with, and transforms of 2^31 numbers and more
//   stages  Stockham's order (kernels/fft/fft_plan_cpu.h) in the workspace: a kernel a factor of n,
//   one
//           thread a butterfly, or a number where the factor has none; every length, at the price
//           of reading and writing all numbers for every factor
//   shared  the same stages in a block's shared memory, a row a block or several of short ones: y
//           and x are touched once
#include "warptape/kernels/fft.h"

#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/row_kernels.cuh"
// After simt.h, which the headers above include: its functions then are this device's.
#include "warptape/kernels/fft/fft_common.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 256;

// Both parts in one access: of two, each would meet every bank of shared memory twice.
template <class C>
__device__ __forceinline__ Complex<C> get(const Complex<C>* p) {
  return vload<Complex<C>>(p);
}
template <class C>
__device__ __forceinline__ void put(Complex<C>* p, Complex<C> v) {
  vstore(p, v);
}

// --- roots ---

template <class C>
__global__ void __launch_bounds__(kThreads) fft_roots(Complex<C>* roots, i64 n) {
  const i64 t = i64(blockIdx.x) * kThreads + threadIdx.x;
  if (t >= n) return;
  const Complex<double> w = root_of_unity(t, n);
  put(roots + t, Complex<C>{C(w.re), C(w.im)});
}
template <class C>
i64 roots_bytes(i64 n) {
  return (n * i64(sizeof(Complex<C>)) + 255) / 256 * 256;
}
template <class C>
Complex<C>* make_roots(const FftArgs& a, const Launch& l) {
  auto* const roots = static_cast<Complex<C>*>(l.workspace);
  launch<fft_roots<C>>(grid_of(l, ceil_div(a.n, kThreads), kThreads), roots, a.n);
  return roots;
}

// --- what every kernel has ---

template <class T, class C = T>
struct Fft {
  T* y;
  const T* x;
  const Complex<C>* roots;
  FftRows at;
  i64 n;
  bool inverse;
  C scale;
  template <class F>
  void visit_pointers(F&& f) const {
    f(y), f(x), f(roots);
  }
  // As what the forward transform works on, and what comes of it.
  __device__ __forceinline__ Complex<C> load(i64 row, i64 j) const {
    const auto v = at.x.template load<C>(x + at.rows.start(FftRows::X, row), j);
    return inverse ? swapped(v) : v;
  }
  __device__ __forceinline__ void store(i64 row, i64 k, Complex<C> v) const {
    at.y.store(y + at.rows.start(FftRows::Y, row), k, scale * (inverse ? swapped(v) : v));
  }
};
template <class T, class C>
Fft<T, C> kernel_of(const FftArgs& a, const Complex<C>* roots) {
  return {a.y.as<T>(), a.x.as<const T>(), roots, fft_rows(a), a.n, a.inverse, C(a.scale)};
}
template <class F>
void with_type(const FftArgs& a, const F& f) {
  if (a.y.dtype() == DType::f64)
    f(TypeTag<double>{});
  else
    f(TypeTag<float>{});
}

// --- naive ---

template <class T>
__global__ void __launch_bounds__(kThreads) fft_naive(const __grid_constant__ Fft<T, double> a) {
  const i64 total = a.at.rows.count * a.at.y.size, stride = i64(gridDim.x) * kThreads;
  for (i64 i = i64(blockIdx.x) * kThreads + threadIdx.x; i < total; i += stride) {
    const i64 row = i / a.at.y.size, k = i % a.at.y.size;
    Complex<double> sum{0, 0};
    const i64 terms = k < a.at.y.used ? a.at.x.used : 0;
    for (i64 j = 0, t = 0; j < terms; ++j) {
      sum = sum + a.load(row, j) * get(a.roots + t);
      t = t + k < a.n ? t + k : t + k - a.n;  // j k modulo n
    }
    a.store(row, k, sum);
  }
}
i64 naive_workspace(const FftArgs& a) { return a.y.numel() == 0 ? 0 : roots_bytes<double>(a.n); }
// It is what first uses are compared with: not for minutes.
const char* why_not_naive(const FftArgs& a) {
  const double products = double(a.y.numel()) * double(a.n);
  return products > 0x1p37 && a.n < i64{1} << 31 ? "is for at most 2^37 products" : nullptr;
}
void launch_naive(const FftArgs& a, const Launch& l) {
  if (a.y.numel() == 0) return;
  const Complex<double>* const roots = make_roots<double>(a, l);
  with_type(a, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = kernel_of<T>(a, roots);
    launch<fft_naive<T>>(grid_of(l, ceil_div(k.at.rows.count * k.at.y.size, kThreads), kThreads),
                         k);
  });
}

// --- one stage of transforms that lie beside each other ---

// `total` numbers, of transforms that are `n` long, of which `s` neighbours have been brought
// together; `lanes` of them, of one place in as many transforms, are neighbours from the beginning.
struct FftStage {
  u32 total, n, s, lanes;
};

// Butterfly i of the total / R ones.
template <int R, class C>
__device__ __forceinline__ void fft_butterfly(const FftStage& g, const Complex<C>* x, Complex<C>* y,
                                              const Complex<C>* roots, u32 i) {
  const u32 slice = g.total / R, p = i / g.s, q = i - p * g.s, turn = p * (g.s / g.lanes);
  Complex<C> v[R];
#pragma unroll
  for (int j = 0; j < R; ++j) v[j] = get(x + i + j * slice);
  butterfly(v);
  Complex<C>* const to = y + q + R * p * g.s;
  put(to, v[0]);
#pragma unroll
  for (int k = 1; k < R; ++k) put(to + k * g.s, v[k] * get(roots + k * turn));
}
// Number k of butterfly i, of any radix r.
template <class C>
__device__ __forceinline__ void fft_sum(const FftStage& g, u32 r, const Complex<C>* x,
                                        Complex<C>* y, const Complex<C>* roots, u32 i, u32 k) {
  const u32 slice = g.total / r, p = i / g.s, q = i - p * g.s;
  const u32 step = k * (g.n / r);
  u32 t = k * p * (g.s / g.lanes);  // the stage's twiddle, in the roots of the sum
  Complex<C> sum{0, 0};
  for (u32 j = 0; j < r; ++j) {
    sum = sum + get(x + i + j * slice) * get(roots + t);
    t = t + step < g.n ? t + step : t + step - g.n;
  }
  put(y + q + (r * p + k) * g.s, sum);
}

// --- stages ---

// Rows first .. of a problem, and their numbers one after the other.
template <class T>
struct FftChunk {
  Fft<T> a;
  i64 first;
  u32 total;
  Complex<T>* work;
  template <class F>
  void visit_pointers(F&& f) const {
    a.visit_pointers(f), f(work);
  }
};
template <class T>
__global__ void __launch_bounds__(kThreads) fft_load(const __grid_constant__ FftChunk<T> c) {
  const u32 i = blockIdx.x * kThreads + threadIdx.x, n = u32(c.a.n);
  if (i >= c.total) return;
  put(c.work + i, c.a.load(c.first + i / n, i % n));
}
template <class T>
__global__ void __launch_bounds__(kThreads) fft_store(const __grid_constant__ FftChunk<T> c) {
  const u32 n = u32(c.a.n);
  const i64 size = c.a.at.y.size, total = c.total / n * size, stride = i64(gridDim.x) * kThreads;
  for (i64 i = i64(blockIdx.x) * kThreads + threadIdx.x; i < total; i += stride) {
    const i64 row = i / size, k = i % size;
    c.a.store(c.first + row, k, k < c.a.at.y.used ? get(c.work + row * n + k) : Complex<T>{0, 0});
  }
}
// The stages' numbers of one row are beside each other, so a butterfly belongs to a row.
template <int R, class C>
__global__ void __launch_bounds__(kThreads)
    fft_stage(FftStage g, const Complex<C>* x, Complex<C>* y, const Complex<C>* roots, u32 rows) {
  const u32 at = blockIdx.x * kThreads + threadIdx.x, each = g.n / R;
  if (at >= rows * each) return;
  const u32 row = at / each;
  fft_butterfly<R>(g, x + row * g.n, y + row * g.n, roots, at % each);
}
template <class C>
__global__ void __launch_bounds__(kThreads)
    fft_stage_sum(FftStage g, u32 r, const Complex<C>* x, Complex<C>* y, const Complex<C>* roots,
                  u32 rows) {
  const u32 at = blockIdx.x * kThreads + threadIdx.x;
  if (at >= rows * g.n) return;
  const u32 row = at / g.n, each = g.n / r, i = at % g.n;
  fft_sum(g, r, x + row * g.n, y + row * g.n, roots, i % each, i / each);
}

// Rows that are worked on at once: 32 Mi numbers, or one row.
i64 rows_at_once(const FftArgs& a) {
  const i64 rows = a.rows(), most = (i64{1} << 25) / a.n;
  return most < 1 ? 1 : rows < most ? rows : most;
}
template <class C>
i64 stages_bytes(const FftArgs& a) {
  return roots_bytes<C>(a.n) + 2 * rows_at_once(a) * a.n * i64(sizeof(Complex<C>));
}
i64 stages_workspace(const FftArgs& a) {
  if (a.y.numel() == 0) return 0;
  return a.y.dtype() == DType::f64 ? stages_bytes<double>(a) : stages_bytes<float>(a);
}

template <class C>
void launch_stage(const Launch& l, i64 r, const FftStage& g, const Complex<C>* x, Complex<C>* y,
                  const Complex<C>* roots, u32 rows) {
  const i64 numbers = i64(rows) * g.n;
  const Config butterflies = grid_of(l, ceil_div(numbers / r, kThreads), kThreads);
  switch (r) {
    case 2:
      return launch<fft_stage<2, C>>(butterflies, g, x, y, roots, rows);
    case 3:
      return launch<fft_stage<3, C>>(butterflies, g, x, y, roots, rows);
    case 4:
      return launch<fft_stage<4, C>>(butterflies, g, x, y, roots, rows);
    case 5:
      return launch<fft_stage<5, C>>(butterflies, g, x, y, roots, rows);
    default:
      return launch<fft_stage_sum<C>>(grid_of(l, ceil_div(numbers, kThreads), kThreads), g, u32(r),
                                      x, y, roots, rows);
  }
}
template <class C>
void stages_of(const FftArgs& a, const Launch& l) {
  Complex<C>* const roots = make_roots<C>(a, l);
  const i64 all = a.rows(), most = rows_at_once(a);
  auto* const first_half =
      reinterpret_cast<Complex<C>*>(static_cast<char*>(l.workspace) + roots_bytes<C>(a.n));
  FftChunk<C> c{kernel_of<C>(a, static_cast<const Complex<C>*>(roots)), 0, 0, nullptr};
  for (; c.first < all; c.first += most) {
    const i64 rows = all - c.first < most ? all - c.first : most;
    Complex<C>*x = first_half, *y = first_half + most * a.n;
    c.total = u32(rows * a.n), c.work = x;
    launch<fft_load<C>>(grid_of(l, ceil_div(c.total, kThreads), kThreads), c);
    i64 rest = a.n;
    for (i64 s = 1, r; rest > 1; s *= r, rest /= r) {
      r = next_radix(rest);
      launch_stage<C>(l, r, {u32(a.n), u32(a.n), u32(s), 1}, x, y, roots, u32(rows));
      Complex<C>* const written = y;
      y = x, x = written;
    }
    c.work = x;
    launch<fft_store<C>>(grid_of(l, ceil_div(rows * a.y.size(a.axis), kThreads), kThreads), c);
  }
}
const char* why_not_stages(const FftArgs& a) {
  return a.n < i64{1} << 31 ? nullptr : "takes transforms of less than 2^31 numbers only";
}
void launch_stages(const FftArgs& a, const Launch& l) {
  if (a.y.numel() == 0) return;
  with_type(a, [&](auto tag) { stages_of<typename decltype(tag)::type>(a, l); });
}

// --- shared ---

constexpr i64 kSharedRadix = 31;
// Numbers that a block works on where rows are short.
constexpr i64 kShortNumbers = 1024;
i64 lanes_of(const FftArgs& a) {
  const i64 rows = a.rows(), most = a.n >= kShortNumbers ? 1 : kShortNumbers / a.n;
  return rows < most ? rows : most;
}
i64 shared_numbers_bytes(const FftArgs& a) {
  return 2 * lanes_of(a) * a.n * i64(sizeof(Complex<float>));
}

struct FftRadices {
  int count;
  int r[32];  // n < 2^32
};
FftRadices radices_of(i64 n) {
  FftRadices list{};
  for (i64 rest = n; rest > 1; rest /= list.r[list.count++])
    list.r[list.count] = int(next_radix(rest));
  return list;
}

template <int R>
__device__ __forceinline__ void fft_shared_stage(const FftStage& g, const Complex<float>* x,
                                                 Complex<float>* y, const Complex<float>* roots) {
  for (u32 i = threadIdx.x; i < g.total / R; i += kThreads) fft_butterfly<R>(g, x, y, roots, i);
}

// Number j of row b of a block's `lanes` rows is at j * lanes + b.
__global__ void __launch_bounds__(kThreads)
    fft_shared(const __grid_constant__ Fft<float> a, const __grid_constant__ FftRadices radices,
               u32 lanes) {
  WT_DYN_SHARED(Complex<float>, numbers);
  FftStage g{u32(a.n) * lanes, u32(a.n), lanes, lanes};
  const u32 n = g.n;
  for (i64 first = i64(blockIdx.x) * lanes; first < a.at.rows.count;
       first += i64(gridDim.x) * lanes) {
    const u32 rows = a.at.rows.count - first < lanes ? u32(a.at.rows.count - first) : lanes;
    Complex<float>*x = numbers, *y = numbers + g.total;
    __syncthreads();  // the rows before have been stored
    // Neighbouring threads have neighbours in memory: of a row, or of one place in several rows.
    const bool along_x = a.at.x.step <= 2, along_y = a.at.y.step <= 2;
    for (u32 i = threadIdx.x; i < g.total; i += kThreads) {
      const u32 b = along_x ? i / n : i % lanes, j = along_x ? i % n : i / lanes;
      put(x + j * lanes + b, b < rows ? a.load(first + b, j) : Complex<float>{0, 0});
    }
    g.s = lanes;
    for (int k = 0; k < radices.count; ++k) {
      const u32 r = u32(radices.r[k]);
      __syncthreads();
      if (r == 4)
        fft_shared_stage<4>(g, x, y, a.roots);
      else if (r == 2)
        fft_shared_stage<2>(g, x, y, a.roots);
      else if (r == 3)
        fft_shared_stage<3>(g, x, y, a.roots);
      else if (r == 5)
        fft_shared_stage<5>(g, x, y, a.roots);
      else
        for (u32 i = threadIdx.x, each = g.total / r; i < g.total; i += kThreads)
          fft_sum(g, r, x, y, a.roots, i % each, i / each);
      g.s *= r;
      Complex<float>* const written = y;
      y = x, x = written;
    }
    __syncthreads();
    const u32 size = u32(a.at.y.size);
    for (u32 i = threadIdx.x; i < size * rows; i += kThreads) {
      const u32 b = along_y ? i / size : i % rows, k = along_y ? i % size : i / rows;
      a.store(first + b, k, k < u32(a.at.y.used) ? get(x + k * lanes + b) : Complex<float>{0, 0});
    }
  }
}
const char* why_not_shared(const FftArgs& a) {
  if (a.y.dtype() != DType::f32) return "takes f32 only";
  if (a.y.size(a.axis) >= i64{1} << 21) return "takes rows of less than 2^21 numbers only";
  return largest_radix(a.n) <= kSharedRadix ? nullptr
                                            : "takes lengths whose prime factors are at most 31";
}
const char* why_not_shared_on(const FftArgs& a, const DeviceLimits& limits) {
  return shared_numbers_bytes(a) <= limits.shared_bytes
             ? nullptr
             : "takes transforms that fit into a block's shared memory only";
}
i64 shared_workspace(const FftArgs& a) { return a.y.numel() == 0 ? 0 : roots_bytes<float>(a.n); }
void launch_shared(const FftArgs& a, const Launch& l) {
  if (a.y.numel() == 0) return;
  const Complex<float>* const roots = make_roots<float>(a, l);
  const i64 lanes = lanes_of(a);
  launch<fft_shared>(grid_of(l, ceil_div(a.rows(), lanes), kThreads, shared_numbers_bytes(a)),
                     kernel_of<float>(a, roots), radices_of(a.n), u32(lanes));
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, fft, FftArgs,
            {.name = "shared",
             .rank = 30,
             .why_not = why_not_shared,
             .why_not_on = why_not_shared_on,
             .workspace = shared_workspace,
             .launch = launch_shared},
            {.name = "stages",
             .rank = 20,
             .why_not = why_not_stages,
             .workspace = stages_workspace,
             .launch = launch_stages},
            {.name = "naive",
             .rank = 10,
             .why_not = why_not_naive,
             .workspace = naive_workspace,
             .launch = launch_naive});

}  // namespace wt
