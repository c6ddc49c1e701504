// Cholesky and triangular systems on simt and cuda (qr and eigh have files of their own). The
// ladder:
//   naive  one thread a matrix, or a right side, by the textbook in double
#include "warptape/kernels/device/linalg.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// --- naive ---

template <class T>
struct Cholesky {
  T* out;
  const T* in;
  i32* info;
  i64 count, n;
  template <class F>
  void visit_pointers(F&& f) const {
    f(out), f(in), f(info);
  }
};

template <class T>
__global__ void __launch_bounds__(kMatrixThreads) cholesky_naive(Cholesky<T> a) {
  const i64 stride = i64(gridDim.x) * kMatrixThreads;
  for (i64 b = i64(blockIdx.x) * kMatrixThreads + threadIdx.x; b < a.count; b += stride)
    a.info[b] = cholesky_of(a.out + b * a.n * a.n, a.in + b * a.n * a.n, a.n);
}

template <class T>
struct Systems {
  T* x;
  const T* a;
  Triangle triangle;
  i64 count, n, columns;
  template <class F>
  void visit_pointers(F&& f) const {
    f(x), f(a);
  }
};

// Neighbouring threads have neighbouring right sides, whose elements are neighbours in memory too.
template <class T>
__global__ void __launch_bounds__(kMatrixThreads) solve_naive(Systems<T> a) {
  const i64 total = a.count * a.columns, stride = i64(gridDim.x) * kMatrixThreads;
  for (i64 at = i64(blockIdx.x) * kMatrixThreads + threadIdx.x; at < total; at += stride) {
    const i64 b = at / a.columns, c = at % a.columns;
    substitute(a.triangle, a.a + b * a.n * a.n, a.x + b * a.n * a.columns, a.n, a.columns, c,
               c + 1);
  }
}

// --- host side ---

template <class T>
Cholesky<T> cholesky_args(const CholeskyArgs& a) {
  const MatrixBatch m(a.in);
  return {a.out.as<T>(), a.in.as<const T>(), a.info.as<i32>(), m.count, m.rows};
}
void launch_cholesky_naive(const CholeskyArgs& a, const Launch& l) {
  if (a.in.numel() == 0) return;
  with_matrix_type(a.in.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = cholesky_args<T>(a);
    launch<cholesky_naive<T>>(grid_of(l, ceil_div(k.count, kMatrixThreads), kMatrixThreads), k);
  });
}

template <class T>
Systems<T> system_args(const SolveTriangularArgs& a) {
  const MatrixBatch x(a.out);
  return {a.out.as<T>(), a.a.as<const T>(), {a.upper, a.transposed, a.unit}, x.count,
          x.rows,        x.columns};
}
void launch_solve_naive(const SolveTriangularArgs& a, const Launch& l) {
  if (a.out.numel() == 0) return;
  with_matrix_type(a.out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = system_args<T>(a);
    launch<solve_naive<T>>(
        grid_of(l, ceil_div(k.count * k.columns, kMatrixThreads), kMatrixThreads), k);
  });
}

const char* cholesky_why_not(const CholeskyArgs& a) { return why_not_matrix_type(a.in.dtype()); }
const char* solve_why_not(const SolveTriangularArgs& a) { return why_not_matrix_type(a.a.dtype()); }

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(
    WT_DEVICE_NS, cholesky, CholeskyArgs,
    {.name = "naive", .rank = 10, .why_not = cholesky_why_not, .launch = launch_cholesky_naive});
WT_VARIANTS(WT_DEVICE_NS, solve_triangular, SolveTriangularArgs,
            {.name = "naive", .rank = 10, .why_not = solve_why_not, .launch = launch_solve_naive});

}  // namespace wt
