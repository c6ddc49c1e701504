// Eigenvalues and vectors of symmetric matrices on simt and cuda. The ladder:
//   naive   one thread a matrix, by the textbook in double: one rotation after the other, each of
//           which changes two rows and two columns
//   block   one block a matrix: n / 2 rotations at a time, of pairs of which none shares a row with
//           another, and in n - 1 such rounds each pair is met once
//   shared  the same where the matrix and its vectors fit into shared memory: a round reads and
//           writes all of them
#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/linalg/linalg.cuh"

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

// --- a block a matrix ---

// Elements from one row to the next. In shared memory lanes that go down a column are in different
// banks by the odd number.
WT_HD inline int row_step(i64 n, bool shared) { return even(n) + shared; }
// The matrix, the vectors, and a round's rotations.
WT_HD inline i64 block_elements(i64 n, bool shared) {
  return i64(even(n)) * (2 * row_step(n, shared) + 1);
}

// Rows of v are the vectors, so that lanes go along them.
template <class T, bool Shared>
__global__ void __launch_bounds__(kBlockThreads, kBlocksAtOnce) eigh_block(Eigh<T> g) {
  const int n = int(g.n), rows = even(n), pairs = rows / 2, step = row_step(n, Shared);
  T* const a = block_work<T, Shared>(g.work, block_elements(n, Shared));
  T *const v = a + rows * step, *const cosines = v + rows * step, *const sines = cosines + pairs;
  const int t = int(threadIdx.x), threads = int(blockDim.x);
  const int lane = t % 32, warp = t / 32, warps = threads / 32;
  for (i64 b = blockIdx.x; b < g.count; b += gridDim.x) {
    const T* const in = g.in + b * n * n;
    T largest = 0;
    for (int i = warp; i < n; i += warps)
      for (int j = lane; j <= i; j += 32) largest = max(largest, T(fabs(in[i * n + j])));
    const T scale = scale_of(block_reduce(largest, Larger{})), back = 1 / scale;
    T size = 0;
    for (int i = warp; i < rows; i += warps)
      for (int j = lane; j <= i; j += 32) {
        const T e = i < n && j < n ? scale * in[i * n + j] : T(0);
        a[i * step + j] = a[j * step + i] = e;
        v[i * step + j] = T(i == j);
        if (i != j) v[j * step + i] = 0;
        size += (i == j ? 1 : 2) * e * e;
      }
    size = block_reduce(size, Plus{});
    const T nothing = kJacobiZero<T> * sqrt(size);
    // Infinities and NaN would take all sweeps and come to nothing.
    bool done = false, hopeless = !(size < INFINITY);
    for (int sweep = 0; sweep < kJacobiSweeps && !done && !hopeless; ++sweep) {
      int turned = 0;
      for (int round = 0; round < rows - 1; ++round) {
        __syncthreads();
        for (int k = t; k < pairs; k += threads) {
          const Pair p(round, k, rows);
          Rotation<T> r{1, 0};
          const T between = a[p.p * step + p.q];
          if (!(fabs(between) <= nothing)) {
            r = rotation_of(a[p.p * step + p.p], between, a[p.q * step + p.q]);
            turned = 1;
          }
          cosines[k] = r.c, sines[k] = r.s;
        }
        __syncthreads();
        // Two pairs share four elements of the matrix, and nobody else has these: rows and columns
        // turn in one go.
        for (int k = warp; k < pairs; k += warps) {
          const Pair down(round, k, rows);
          const Rotation<T> turn{cosines[k], sines[k]};
          for (int l = lane; l < pairs; l += 32) {
            const Pair along(round, l, rows);
            const Rotation<T> other{cosines[l], sines[l]};
            if (turn.s == 0 && other.s == 0) continue;  // most of the last sweeps
            T &pp = a[down.p * step + along.p], &pq = a[down.p * step + along.q];
            T &qp = a[down.q * step + along.p], &qq = a[down.q * step + along.q];
            T w = pp, x = pq, y = qp, z = qq;
            other.turn(w, x), other.turn(y, z);
            turn.turn(w, y), turn.turn(x, z);
            // What rounding leaves there may never get small enough.
            if (k == l && turn.s != 0) x = y = 0;
            pp = w, pq = x, qp = y, qq = z;
          }
          if (turn.s != 0)
            for (int i = lane; i < n; i += 32)
              turn.turn(v[down.p * step + i], v[down.q * step + i]);
        }
      }
      done = block_reduce(turned, Larger{}) == 0;
    }
    __syncthreads();
    // In ascending order. The places lie where the rotations were.
    int* const order = reinterpret_cast<int*>(cosines);
    for (int i = t; i < n; i += threads) {
      const int to = int(rank_on_diagonal(a, step + 1, n, i));
      order[to] = i;
      g.values[b * n + to] = back * a[i * (step + 1)];
    }
    __syncthreads();
    for (int i = warp; i < n; i += warps)
      for (int j = lane; j < n; j += 32) g.vectors[(b * n + i) * n + j] = v[order[j] * step + i];
    if (t == 0) g.info[b] = done ? 0 : 1;
    __syncthreads();  // the next matrix is written over this one
  }
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

i64 block_bytes(const EighArgs& a, bool shared) {
  return block_elements(MatrixBatch(a.in).rows, shared) * item_size(a.in.dtype());
}
i64 blocks_at_once(const EighArgs& a) {
  return matrices_at_once(MatrixBatch(a.in).count, block_bytes(a, false));
}
i64 block_workspace(const EighArgs& a) { return blocks_at_once(a) * block_bytes(a, false); }
template <bool Shared>
void launch_block(const EighArgs& a, const Launch& l) {
  if (a.in.numel() == 0) return;
  const MatrixBatch m(a.in);
  with_matrix_type(a.in.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<eigh_block<T, Shared>>(grid_of(l, Shared ? m.count : blocks_at_once(a),
                                          block_threads(m.rows), Shared ? block_bytes(a, true) : 0),
                                  eigh_args<T>(a, l));
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_MATRIX_LADDER(eigh, EighArgs);

}  // namespace wt
