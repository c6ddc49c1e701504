// QR on simt and cuda. The ladder:
//   naive  one thread a matrix, by the textbook in double
#include "warptape/kernels/device/linalg.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class T>
struct Qr {
  T *q, *r;
  const T* in;
  void* work;
  i64 count, m, n;
  template <class F>
  void visit_pointers(F&& f) const {
    f(q), f(r), f(in), f(work);
  }
  __device__ __forceinline__ i64 k() const { return m < n ? m : n; }
};

// --- naive ---

template <class T>
__global__ void __launch_bounds__(kMatrixThreads) qr_naive(Qr<T> a, i64 threads) {
  const i64 t = i64(blockIdx.x) * kMatrixThreads + threadIdx.x;
  double* const work = static_cast<double*>(a.work) + t * qr_work(a.m, a.n);
  for (i64 b = t; t < threads && b < a.count; b += threads)
    qr_of(a.q + b * a.m * a.k(), a.r + b * a.k() * a.n, a.in + b * a.m * a.n, a.m, a.n, work);
}

// --- host side ---

template <class T>
Qr<T> qr_args(const QrArgs& a, const Launch& l) {
  const MatrixBatch m(a.in);
  return {a.q.as<T>(), a.r.as<T>(), a.in.as<const T>(), l.workspace, m.count, m.rows, m.columns};
}

i64 naive_threads(const QrArgs& a) {
  const MatrixBatch m(a.in);
  return matrix_threads(m.count, qr_work(m.rows, m.columns));
}
i64 naive_workspace(const QrArgs& a) {
  const MatrixBatch m(a.in);
  return naive_threads(a) * qr_work(m.rows, m.columns) * i64(sizeof(double));
}
void launch_naive(const QrArgs& a, const Launch& l) {
  if (a.in.numel() == 0) return;
  const i64 threads = naive_threads(a);
  with_matrix_type(a.in.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<qr_naive<T>>(grid_of(l, ceil_div(threads, kMatrixThreads), kMatrixThreads),
                        qr_args<T>(a, l), threads);
  });
}

const char* why_not(const QrArgs& a) { return why_not_matrix_type(a.in.dtype()); }

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, qr, QrArgs,
            {.name = "naive",
             .rank = 10,
             .why_not = why_not,
             .workspace = naive_workspace,
             .launch = launch_naive});

}  // namespace wt
