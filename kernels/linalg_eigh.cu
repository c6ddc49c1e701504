// Eigenvalues and vectors of symmetric matrices on simt and cuda. The ladder:
//   naive  one thread a matrix, by the textbook in double
#include "warptape/kernels/device/linalg.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class T>
struct Eigh {
  T *values, *vectors;
  const T* in;
  i32* info;
  void* work;
  i64 count, n;
  template <class F>
  void visit_pointers(F&& f) const {
    f(values), f(vectors), f(in), f(info), f(work);
  }
};

// --- naive ---

template <class T>
__global__ void __launch_bounds__(kMatrixThreads) eigh_naive(Eigh<T> a, i64 threads) {
  const i64 t = i64(blockIdx.x) * kMatrixThreads + threadIdx.x;
  double* const work = static_cast<double*>(a.work) + t * eigh_work(a.n);
  for (i64 b = t; t < threads && b < a.count; b += threads)
    a.info[b] =
        eigh_of(a.values + b * a.n, a.vectors + b * a.n * a.n, a.in + b * a.n * a.n, a.n, work);
}

// --- host side ---

template <class T>
Eigh<T> eigh_args(const EighArgs& a, const Launch& l) {
  const MatrixBatch m(a.in);
  return {a.values.as<T>(),
          a.vectors.as<T>(),
          a.in.as<const T>(),
          a.info.as<i32>(),
          l.workspace,
          m.count,
          m.rows};
}

i64 naive_threads(const EighArgs& a) {
  const MatrixBatch m(a.in);
  return matrix_threads(m.count, eigh_work(m.rows));
}
i64 naive_workspace(const EighArgs& a) {
  return naive_threads(a) * eigh_work(MatrixBatch(a.in).rows) * i64(sizeof(double));
}
void launch_naive(const EighArgs& a, const Launch& l) {
  if (a.in.numel() == 0) return;
  const i64 threads = naive_threads(a);
  with_matrix_type(a.in.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<eigh_naive<T>>(grid_of(l, ceil_div(threads, kMatrixThreads), kMatrixThreads),
                          eigh_args<T>(a, l), threads);
  });
}

const char* why_not(const EighArgs& a) { return why_not_matrix_type(a.in.dtype()); }

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, eigh, EighArgs,
            {.name = "naive",
             .rank = 10,
             .why_not = why_not,
             .workspace = naive_workspace,
             .launch = launch_naive});

}  // namespace wt
