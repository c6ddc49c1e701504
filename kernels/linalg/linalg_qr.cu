// QR on simt and cuda. The ladder:
//   naive   one thread a matrix, by the textbook in double: the others of its warp are at other
//           matrices, and no two of them read the same sector
//   block   one block a matrix, a warp a column: the reflection of a column is 32 products at a
//   time
//           and a sum by shuffles, of neighbours in memory
//   shared  the same where the matrix and q fit into shared memory: each of the min(m, n) steps
//   reads
//           and writes all that is left of the matrix
#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/linalg/linalg.cuh"

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

// --- a block a matrix ---

// Elements from one column to the next, which are laid one after the other: lanes go down a column.
// The odd number keeps those that go along a row, as `in`, q and r lie, in different banks.
WT_HD inline int column_step(int m, bool shared) { return shared ? m | 1 : m; }
// The matrix, q, and three numbers a reflection.
WT_HD inline i64 block_elements(i64 m, i64 n, bool shared) {
  const i64 k = m < n ? m : n;
  return (n + k) * column_step(int(m), shared) + 3 * k;
}

// column -= factor (v . column) v, v = (head, v[from + 1], ..) from row `from` on. Whatever `from`
// is, a lane has the same rows: what it reads it wrote itself.
template <class T>
__device__ __forceinline__ void reflect_column(T* column, const T* v, T head, T factor, int from,
                                               int m) {
  const int lane = int(threadIdx.x) % 32, first = from / 32 * 32 + lane;
  T dot = 0;
  for (int i = first; i < m; i += 32)
    if (i >= from) dot += (i == from ? head : v[i]) * column[i];
  dot = factor * warp_reduce(dot, Plus{});
  for (int i = first; i < m; i += 32)
    if (i >= from) column[i] -= dot * (i == from ? head : v[i]);
}

template <class T, bool Shared>
__global__ void __launch_bounds__(kBlockThreads, kBlocksAtOnce) qr_block(Qr<T> a) {
  const int m = int(a.m), n = int(a.n), k = int(a.k()), step = column_step(m, Shared);
  T* const matrix = block_work<T, Shared>(a.work, block_elements(m, n, Shared));
  T* const basis = matrix + n * step;
  // Of the reflection that makes zeros of column j below its diagonal: its vector's first element
  // (the others stay where they lie), 2 / (v . v), and what is on the diagonal then.
  T *const heads = basis + k * step, *const factors = heads + k, *const diagonal = factors + k;
  const int t = int(threadIdx.x), threads = int(blockDim.x);
  const int lane = t % 32, warp = t / 32, warps = threads / 32;
  for (i64 b = blockIdx.x; b < a.count; b += gridDim.x) {
    const T* const in = a.in + b * m * n;
    T largest = 0;
    for (int at = t; at < m * n; at += threads) largest = max(largest, T(fabs(in[at])));
    const T scale = scale_of(block_reduce(largest, Larger{})), back = 1 / scale;
    for (int i = warp; i < m; i += warps)
      for (int c = lane; c < n; c += 32) matrix[c * step + i] = in[i * n + c] * scale;
    for (int j = 0; j < k; ++j) {
      __syncthreads();
      // Every warp for itself: that takes no longer than to wait for one that does it.
      const T* const v = matrix + j * step;
      T below = 0;
      for (int i = j + 1 + lane; i < m; i += 32) below += v[i] * v[i];
      below = warp_reduce(below, Plus{});
      // A column that is done already stays.
      const T top = v[j], turn = below == 0 ? T(0) : turn_of(top, below), head = top + turn;
      const T factor = below == 0 ? T(0) : 2 / (head * head + below);
      if (below != 0)
        for (int c = j + 1 + warp; c < n; c += warps)
          reflect_column(matrix + c * step, v, head, factor, j, m);
      if (t == 0) heads[j] = head, factors[j] = factor, diagonal[j] = below == 0 ? top : -turn;
    }
    __syncthreads();
    T* const r = a.r + b * k * n;
    for (int i = warp; i < k; i += warps)
      for (int c = lane; c < n; c += 32)
        r[i64(i) * n + c] = c < i ? T(0) : back * (c == i ? diagonal[i] : matrix[c * step + i]);
    // Columns of q do not need each other: each is a column of the identity, with the reflections
    // from the last to the first, of which those beyond it have nothing to reflect there.
    for (int c = warp; c < k; c += warps) {
      T* const column = basis + c * step;
      for (int i = lane; i < m; i += 32) column[i] = T(i == c);
      for (int j = c; j >= 0; --j)
        if (factors[j] != 0) reflect_column(column, matrix + j * step, heads[j], factors[j], j, m);
    }
    __syncthreads();
    T* const q = a.q + b * m * k;
    for (int i = warp; i < m; i += warps)
      for (int c = lane; c < k; c += 32) q[i64(i) * k + c] = basis[c * step + i];
    __syncthreads();  // the next matrix is written over this one
  }
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

i64 block_bytes(const QrArgs& a, bool shared) {
  const MatrixBatch m(a.in);
  return block_elements(m.rows, m.columns, shared) * item_size(a.in.dtype());
}
i64 blocks_at_once(const QrArgs& a) {
  return matrices_at_once(MatrixBatch(a.in).count, block_bytes(a, false));
}
i64 block_workspace(const QrArgs& a) { return blocks_at_once(a) * block_bytes(a, false); }
template <bool Shared>
void launch_block(const QrArgs& a, const Launch& l) {
  if (a.in.numel() == 0) return;
  const MatrixBatch m(a.in);
  with_matrix_type(a.in.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<qr_block<T, Shared>>(
        grid_of(l, Shared ? m.count : blocks_at_once(a), block_threads(m.columns),
                Shared ? block_bytes(a, true) : 0),
        qr_args<T>(a, l));
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_MATRIX_LADDER(qr, QrArgs);

}  // namespace wt
