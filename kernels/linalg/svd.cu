// Singular values and vectors on simt and cuda. The ladder:
//   naive   one thread a matrix, by the textbook in double: one pair of vectors after the other
//   block   one block a matrix: count / 2 pairs at a time, each of them a warp's, and in count - 1
//           such rounds each vector has met every other one
//   shared  the same where the vectors of both sides fit into shared memory: a round reads and
//   writes
//           all of them
#include "warptape/kernels/svd.h"

#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/linalg/linalg.cuh"
// After simt.h, which the headers above include.
#include "warptape/kernels/linalg/svd_common.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class T>
struct Svd {
  T *longer, *shorter, *values;  // the results of the two sides, or null
  const T* in;
  i32* info;
  void* work;
  i64 matrices;
  SvdShape shape;
  template <class F>
  void visit_pointers(F&& f) const {
    f(longer), f(shorter), f(values), f(in), f(info), f(work);
  }
  // Elements of the two results of one matrix.
  WT_HD i64 long_size() const { return shape.wanted * shape.length(); }
  WT_HD i64 short_size() const { return shape.vectors ? shape.count() * shape.count() : 0; }
};

// --- naive ---

template <class T>
__global__ void __launch_bounds__(kMatrixThreads) svd_naive(Svd<T> a, i64 threads) {
  const i64 t = i64(blockIdx.x) * kMatrixThreads + threadIdx.x;
  double* const work = static_cast<double*>(a.work) + t * svd_work(a.shape);
  for (i64 b = t; t < threads && b < a.matrices; b += threads)
    a.info[b] =
        svd_of(a.longer + b * a.long_size(), a.shorter + b * a.short_size(),
               a.values + b * a.shape.count(), a.in + b * a.shape.m * a.shape.n, a.shape, work);
}

// --- a block a matrix ---

// Elements from one vector to the next. In shared memory lanes that have a vector each are in
// different banks by the odd number.
WT_HD inline int vector_step(i64 length, bool shared) { return int(shared ? length | 1 : length); }
// Vectors of the longer side that there is room for.
WT_HD inline i64 long_vectors(const SvdShape& s) { return s.vectors ? s.wanted : s.count(); }
// These, the shorter side's, for each vector its order and a number, and for each of their elements
// one.
WT_HD inline i64 block_elements(const SvdShape& s, bool shared) {
  const i64 k = s.count(), length = s.length();
  return long_vectors(s) * (vector_step(length, shared) + 2) +
         (s.vectors ? k * vector_step(k, shared) + length : 0);
}

// Elements of a block's work space.
template <class T>
struct SvdRoom {
  T *basis, *turns, *numbers, *inside;
  int* order;
  int step, short_step;
  __device__ __forceinline__ SvdRoom(T* at, const SvdShape& s, bool shared)
      : basis(at),
        step(vector_step(s.length(), shared)),
        short_step(vector_step(s.count(), shared)) {
    const int vectors = int(long_vectors(s));
    numbers = basis + vectors * step;
    order = reinterpret_cast<int*>(numbers + vectors);
    turns = numbers + 2 * vectors;
    inside = turns + int(s.count()) * short_step;
  }
  __device__ __forceinline__ T* vector(int j) const { return basis + order[j] * step; }
};

// Makes vectors p and q of the longer side orthogonal; a warp's work. True where they were not.
template <class T>
__device__ __forceinline__ bool turn_vectors(const SvdRoom<T>& room, int p, int q, int length,
                                             int count, T cosine, bool vectors) {
  const int lane = int(threadIdx.x) % 32;
  T *const x = room.basis + p * room.step, *const y = room.basis + q * room.step;
  T xx = 0, xy = 0, yy = 0;
  for (int i = lane; i < length; i += 32) xx += x[i] * x[i], xy += x[i] * y[i], yy += y[i] * y[i];
  xx = warp_reduce(xx, Plus{}), xy = warp_reduce(xy, Plus{}), yy = warp_reduce(yy, Plus{});
  if (!must_turn(xx, xy, yy, cosine)) return false;
  const Rotation<T> r = rotation_of_vectors(xx, xy, yy);
  for (int i = lane; i < length; i += 32) r.turn(x[i], y[i]);
  if (!vectors) return true;
  T *const v = room.turns + p * room.short_step, *const w = room.turns + q * room.short_step;
  for (int i = lane; i < count; i += 32) r.turn(v[i], w[i]);
  return true;
}

// Vectors [from, to) in their order, as complete_basis() makes them. What the others have of the
// axes is in `inside`.
template <class T>
__device__ void complete_block(const SvdRoom<T>& room, int length, int from, int to) {
  const int t = int(threadIdx.x), threads = int(blockDim.x);
  const int lane = t % 32, warp = t / 32, warps = threads / 32;
  for (int i = t; i < length; i += threads) {
    T sum = 0;
    for (int j = 0; j < from; ++j) sum += room.vector(j)[i] * room.vector(j)[i];
    room.inside[i] = sum;
  }
  for (int c = from; c < to; ++c) {
    __syncthreads();
    T least = T(-INFINITY);
    for (int i = t; i < length; i += threads) least = max(least, -room.inside[i]);
    least = block_reduce(least, Larger{});
    int first = -length;
    for (int i = t; i < length; i += threads)
      if (-room.inside[i] == least) first = max(first, -i);
    const int axis = -block_reduce(first, Larger{});
    T* const x = room.vector(c);
    for (int i = t; i < length; i += threads) x[i] = T(i == axis);
    T square = 0;
    for (int round = 0; round < 2; ++round) {
      __syncthreads();
      for (int j = warp; j < c; j += warps) {
        const T* const v = room.vector(j);
        T dot = 0;
        for (int i = lane; i < length; i += 32) dot += v[i] * x[i];
        dot = warp_reduce(dot, Plus{});
        if (lane == 0) room.numbers[j] = dot;
      }
      __syncthreads();
      square = 0;
      for (int i = t; i < length; i += threads) {
        T e = x[i];
        for (int j = 0; j < c; ++j) e -= room.numbers[j] * room.vector(j)[i];
        x[i] = e;
        square += e * e;
      }
    }
    const T size = sqrt(block_reduce(square, Plus{}));
    for (int i = t; i < length; i += threads) {
      x[i] /= size;
      room.inside[i] += x[i] * x[i];
    }
  }
}

// Lengths in their order, and vectors where they are wanted: what comes after the rotations.
template <class T>
__device__ void leave_block(const SvdRoom<T>& room, const Svd<T>& g, i64 b, T back) {
  const bool tall = g.shape.tall;
  const int count = int(g.shape.count()), length = int(g.shape.length());
  const int wanted = int(g.shape.wanted);
  const int t = int(threadIdx.x), threads = int(blockDim.x);
  const int lane = t % 32, warp = t / 32, warps = threads / 32;
  __syncthreads();
  for (int j = warp; j < count; j += warps) {
    const T* const x = room.basis + j * room.step;
    T square = 0;
    for (int i = lane; i < length; i += 32) square += x[i] * x[i];
    square = warp_reduce(square, Plus{});
    if (lane == 0) room.numbers[j] = square;
  }
  __syncthreads();
  int found = 0;
  for (int j = t; j < count; j += threads) {
    const int to = int(rank_of_length(room.numbers, count, j));
    room.order[to] = j;
    g.values[b * count + to] = back * sqrt(room.numbers[j]);
    found += room.numbers[j] > kNoLength<T>;
  }
  if (!g.shape.vectors) return;
  for (int j = count + t; j < wanted; j += threads) room.order[j] = j;
  found = block_reduce(found, Plus{});
  __syncthreads();  // of one warp that was none
  for (int j = warp; j < found; j += warps) {
    const T size = sqrt(room.numbers[room.order[j]]);
    T* const x = room.vector(j);
    for (int i = lane; i < length; i += 32) x[i] /= size;
  }
  __syncthreads();
  if (found < wanted) complete_block(room, length, found, wanted);
  __syncthreads();
  // Lanes go along the rows of what they write.
  T* const longer = g.longer + b * g.long_size();
  const int down = tall ? length : wanted, along = tall ? wanted : length;
  for (int i = warp; i < down; i += warps)
    for (int j = lane; j < along; j += 32)
      longer[i64(i) * along + j] = tall ? room.vector(j)[i] : room.vector(i)[j];
  T* const shorter = g.shorter + b * g.short_size();
  for (int i = warp; i < count; i += warps)
    for (int j = lane; j < count; j += 32) {
      const int vector = room.order[tall ? i : j], element = tall ? j : i;
      shorter[i64(i) * count + j] = room.turns[vector * room.short_step + element];
    }
}

template <class T, bool Shared>
__global__ void __launch_bounds__(kBlockThreads, kBlocksAtOnce) svd_block(Svd<T> g) {
  const SvdShape& shape = g.shape;
  const int count = int(shape.count()), length = int(shape.length());
  const int players = even(count), pairs = players / 2;
  const bool vectors = shape.vectors;
  const SvdRoom<T> room(block_work<T, Shared>(g.work, block_elements(shape, Shared)), shape,
                        Shared);
  const T cosine = orthogonal<T>(length);
  const int t = int(threadIdx.x), threads = int(blockDim.x);
  const int lane = t % 32, warp = t / 32, warps = threads / 32;
  for (i64 b = blockIdx.x; b < g.matrices; b += gridDim.x) {
    const T* const in = g.in + b * shape.m * shape.n;
    const int rows = int(shape.m), columns = int(shape.n);
    T largest = 0;
    for (int at = t; at < rows * columns; at += threads) largest = max(largest, T(fabs(in[at])));
    const T scale = scale_of(block_reduce(largest, Larger{})), back = 1 / scale;
    T size = 0;
    for (int i = warp; i < rows; i += warps)
      for (int c = lane; c < columns; c += 32) {
        const T e = scale * in[i * columns + c];
        room.basis[shape.tall ? c * room.step + i : i * room.step + c] = e;
        size += e * e;
      }
    for (int i = warp; vectors && i < count; i += warps)
      for (int j = lane; j < count; j += 32) room.turns[i * room.short_step + j] = T(i == j);
    size = block_reduce(size, Plus{});
    // Infinities and NaN would take all sweeps and come to nothing.
    bool done = false, hopeless = !(size < INFINITY);
    for (int sweep = 0; sweep < kJacobiSweeps && !done && !hopeless; ++sweep) {
      int turned = 0;
      for (int round = 0; round < players - 1; ++round) {
        __syncthreads();
        for (int k = warp; k < pairs; k += warps) {
          const Pair pair(round, k, players);
          if (pair.p < count && pair.q < count &&
              turn_vectors(room, pair.p, pair.q, length, count, cosine, vectors))
            turned = 1;
        }
      }
      done = block_reduce(turned, Larger{}) == 0;
    }
    if (!hopeless) leave_block(room, g, b, back);
    if (t == 0) g.info[b] = done ? 0 : 1;
    __syncthreads();  // the next matrix is written over this one
  }
}

// --- host side ---

template <class T>
Svd<T> svd_args(const SvdArgs& a, const Launch& l) {
  const SvdShape shape = svd_shape(a);
  T *const u = a.vectors() ? a.u.as<T>() : nullptr, *const vh =
                                                        a.vectors() ? a.vh.as<T>() : nullptr;
  return {shape.tall ? u : vh,
          shape.tall ? vh : u,
          a.s.as<T>(),
          a.in.as<const T>(),
          a.info.as<i32>(),
          l.workspace,
          MatrixBatch(a.in).count,
          shape};
}

i64 naive_threads(const SvdArgs& a) {
  return matrix_threads(MatrixBatch(a.in).count, svd_work(svd_shape(a)));
}
i64 naive_workspace(const SvdArgs& a) {
  return naive_threads(a) * svd_work(svd_shape(a)) * i64(sizeof(double));
}
void launch_naive(const SvdArgs& a, const Launch& l) {
  if (a.in.numel() == 0) return;
  const i64 threads = naive_threads(a);
  with_matrix_type(a.in.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<svd_naive<T>>(grid_of(l, ceil_div(threads, kMatrixThreads), kMatrixThreads),
                         svd_args<T>(a, l), threads);
  });
}

i64 block_bytes(const SvdArgs& a, bool shared) {
  return block_elements(svd_shape(a), shared) * item_size(a.in.dtype());
}
i64 blocks_at_once(const SvdArgs& a) {
  return matrices_at_once(MatrixBatch(a.in).count, block_bytes(a, false));
}
i64 block_workspace(const SvdArgs& a) { return blocks_at_once(a) * block_bytes(a, false); }
template <bool Shared>
void launch_block(const SvdArgs& a, const Launch& l) {
  if (a.in.numel() == 0) return;
  const SvdShape shape = svd_shape(a);
  const i64 pairs = even(shape.count()) / 2, across = shape.length() / 32;
  const i64 threads = block_threads(pairs < across ? across : pairs);
  with_matrix_type(a.in.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<svd_block<T, Shared>>(grid_of(l, Shared ? MatrixBatch(a.in).count : blocks_at_once(a),
                                         threads, Shared ? block_bytes(a, true) : 0),
                                 svd_args<T>(a, l));
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_MATRIX_LADDER(svd, SvdArgs);

}  // namespace wt
