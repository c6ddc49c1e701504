// Squared error on simt and cuda.
//   forward:  naive  one block adds everything
//             parts  many blocks add a run each, one block adds their sums
//             vectorized  the same in 16-byte loads, for contiguous operands
//   backward: naive  one thread an element, any strides
//             vectorized  one thread 16 bytes, contiguous operands
#include "warptape/kernels/mse.h"

#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/row_kernels.cuh"
#include "warptape/kernels/device/strided_index.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 128;
constexpr i64 kMaxParts = 1024, kElementsPerPart = 8192;

// Block b adds the b-th run into out[b], or, being the only one, the loss and the weight.
template <class T, class A, class Map>
__global__ void __launch_bounds__(kThreads)
    mse_sum(Map map, i64 n, const T* a, const T* b, double* parts, A* loss_sum, A* weight) {
  // Block and thread of an element depend on n and the grid alone: the sum has one order.
  const i64 run = (n + gridDim.x - 1) / gridDim.x, begin = run * blockIdx.x;
  const i64 end = begin + run < n ? begin + run : n;
  double sum = 0;
  for (i64 i = begin + threadIdx.x; i < end; i += kThreads) {
    // Threads of a block are neighbours in every turn: a warp reads 128 bytes in a row of each
    // operand (f32, dense). Elements one by one, because the strides may be any.
    typename Map::Offset at[2];
    map.offsets(typename Map::Index(i), at);
    const A d = A(a[at[0]]) - A(b[at[1]]);
    // An addition of doubles a pair of loads: the memory is still what the kernel waits for on an
    // H100, and the sum of 1e8 squares keeps its digits.
    sum += double(d * d);
  }
  // All threads come here, those without an element with 0: there are barriers inside.
  sum = block_reduce(sum, Plus());
  if (threadIdx.x != 0) return;
  // One block's thread 0, so a plain store. The blocks' sums meet in the next kernel: atomicAdd
  // would save it and lose the order.
  if (parts) {
    parts[blockIdx.x] = sum;
  } else {
    *loss_sum = A(sum);
    *weight = A(n);
  }
}

// The same of contiguous operands.
template <class T>
__global__ void __launch_bounds__(kThreads)
    mse_sum_packs(i64 n, const T* a, const T* b, double* parts, float* loss_sum, float* weight) {
  constexpr int kSize = kPerPack<T>, kAhead = 2;
  const i64 stride = i64(gridDim.x) * kThreads, packs = n / kSize;
  const i64 first = i64(blockIdx.x) * kThreads + threadIdx.x;
  double sum = 0;
  const auto add = [&](const Pack16<T>& x, const Pack16<T>& y) WT_INLINE_LAMBDA {
    // The squares of a pack in float: each is rounded there anyway, and f64 additions, of which a
    // GeForce makes one where it makes 64 in f32, are a fourth or an eighth.
    float squares = 0;
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      const float d = float(x.v[j]) - float(y.v[j]);
      squares += d * d;
    }
    sum += double(squares);
  };
  Pack16<T> x[kAhead], y[kAhead];
  i64 p = first;
  // Four 16-byte loads a thread are under way before the first is used; `parts` has two of an
  // element each, which is a fourth to an eighth of what memory needs to be busy.
  for (; p + (kAhead - 1) * stride < packs; p += kAhead * stride) {
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      x[k] = vload<Pack16<T>>(a + (p + k * stride) * kSize);
      y[k] = vload<Pack16<T>>(b + (p + k * stride) * kSize);
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) add(x[k], y[k]);
  }
  if (p < packs) add(vload<Pack16<T>>(a + p * kSize), vload<Pack16<T>>(b + p * kSize));
  // Fewer elements than a pack: the first threads of the grid take one each.
  if (const i64 i = packs * kSize + first; i < n) {
    const float d = float(a[i]) - float(b[i]);
    sum += double(d * d);
  }
  sum = block_reduce(sum, Plus());
  if (threadIdx.x != 0) return;
  if (parts) {
    parts[blockIdx.x] = sum;
  } else {
    *loss_sum = float(sum);
    *weight = float(n);
  }
}

template <class A>
__global__ void __launch_bounds__(kThreads)
    mse_sum_of_parts(const double* parts, int count, i64 n, A* loss_sum, A* weight) {
  double own = 0;
  for (int i = int(threadIdx.x); i < count; i += kThreads) own += parts[i];
  const double sum = block_reduce(own, Plus());
  if (threadIdx.x != 0) return;
  *loss_sum = A(sum);
  *weight = A(n);
}

template <class T, class A, class Map>
__global__ void __launch_bounds__(kThreads)
    mse_gradient(Map map, i64 n, T* ga, const T* a, const T* b, const A* grad, A factor) {
  const i64 stride = i64(gridDim.x) * kThreads;
  // The incoming gradient is a number in device memory: every thread reads the same address, which
  // is one transaction a warp, and the host never learns it.
  const A scale = factor * *grad;
  for (i64 i = i64(blockIdx.x) * kThreads + threadIdx.x; i < n; i += stride) {
    typename Map::Offset at[3];
    map.offsets(typename Map::Index(i), at);
    ga[at[0]] = T(scale * (A(a[at[1]]) - A(b[at[2]])));
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    mse_gradient_packs(i64 n, T* ga, const T* a, const T* b, const float* grad, float factor) {
  // Two loads and one store of 16 bytes for 4 or 8 elements: 512 bytes a warp and instruction.
  constexpr int kSize = kPerPack<T>;
  const i64 stride = i64(gridDim.x) * kThreads, packs = n / kSize;
  const i64 first = i64(blockIdx.x) * kThreads + threadIdx.x;
  const float scale = factor * *grad;
  for (i64 p = first; p < packs; p += stride) {
    auto x = vload<Pack16<T>>(a + p * kSize);
    const auto y = vload<Pack16<T>>(b + p * kSize);
#pragma unroll
    for (int j = 0; j < kSize; ++j) x.v[j] = T(scale * (float(x.v[j]) - float(y.v[j])));
    vstore(ga + p * kSize, x);
  }
  // Fewer elements than a pack: the first threads of the grid take one each.
  for (i64 i = packs * kSize + first; i < n; i += stride)
    ga[i] = T(scale * (float(a[i]) - float(b[i])));
}

void launch_forward(const MseForwardArgs& args, const Launch& l, i64 parts) {
  const LoopNest<2> nest = loop_nest({args.a, args.b});
  with_float_or_double(args.a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = ComputeType<T>;
    A *loss_sum = args.loss_sum.as<A>(), *weight = args.weight.as<A>();
    double* sums = parts > 1 ? static_cast<double*>(l.workspace) : nullptr;
    with_index_map(nest, [&](auto map) {
      launch<mse_sum<T, A, decltype(map)>>(grid_of(l, parts, kThreads), map, nest.numel,
                                           args.a.as<const T>(), args.b.as<const T>(), sums,
                                           loss_sum, weight);
    });
    if (sums)
      launch<mse_sum_of_parts<A>>(grid_of(l, 1, kThreads), sums, int(parts), nest.numel, loss_sum,
                                  weight);
  });
}
void forward_naive(const MseForwardArgs& args, const Launch& l) { launch_forward(args, l, 1); }

i64 parts_of(const MseForwardArgs& args) {
  // 64 elements a thread before a block's sum is worth its barriers.
  const i64 wanted = ceil_div(args.a.numel(), kElementsPerPart);
  return wanted < 1 ? 1 : wanted > kMaxParts ? kMaxParts : wanted;
}
i64 parts_workspace(const MseForwardArgs&) { return kMaxParts * i64(sizeof(double)); }
void forward_parts(const MseForwardArgs& args, const Launch& l) {
  launch_forward(args, l, parts_of(args));
}

const char* forward_why_not_vectorized(const MseForwardArgs& args) {
  if (args.a.dtype() == DType::f64) return "f64 has the rungs below only";
  if (!args.a.dense() || !args.b.dense()) return "the operands must be contiguous";
  return aligned_16(args.a.data) && aligned_16(args.b.data)
             ? nullptr
             : "the operands must begin at 16-byte boundaries";
}
void forward_vectorized(const MseForwardArgs& args, const Launch& l) {
  with_float(args.a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const i64 n = args.a.numel(), parts = parts_of(args);
    double* sums = parts > 1 ? static_cast<double*>(l.workspace) : nullptr;
    float *loss_sum = args.loss_sum.as<float>(), *weight = args.weight.as<float>();
    launch<mse_sum_packs<T>>(grid_of(l, parts, kThreads), n, args.a.as<const T>(),
                             args.b.as<const T>(), sums, loss_sum, weight);
    if (sums)
      launch<mse_sum_of_parts<float>>(grid_of(l, 1, kThreads), sums, int(parts), n, loss_sum,
                                      weight);
  });
}

void backward_naive(const MseBackwardArgs& args, const Launch& l) {
  const LoopNest<3> nest = loop_nest({args.ga, args.a, args.b});
  with_float_or_double(args.a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = ComputeType<T>;
    with_index_map(nest, [&](auto map) {
      launch<mse_gradient<T, A, decltype(map)>>(
          grid_of(l, ceil_div(nest.numel, kThreads), kThreads), map, nest.numel, args.ga.as<T>(),
          args.a.as<const T>(), args.b.as<const T>(), args.grad.as<const A>(), A(args.factor));
    });
  });
}

const char* why_not_vectorized(const MseBackwardArgs& args) {
  if (args.a.dtype() == DType::f64) return "f64 has the naive rung only";
  // Contiguous, so that element i of all three lies at i, and no offsets are computed.
  if (!args.ga.dense() || !args.a.dense() || !args.b.dense())
    return "the operands must be contiguous";
  return aligned_16(args.ga.data) && aligned_16(args.a.data) && aligned_16(args.b.data)
             ? nullptr
             : "the operands must begin at 16-byte boundaries";
}
void backward_vectorized(const MseBackwardArgs& args, const Launch& l) {
  with_float(args.a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const i64 n = args.a.numel();
    launch<mse_gradient_packs<T>>(grid_of(l, ceil_div(n, kThreads * kPerPack<T>), kThreads), n,
                                  args.ga.as<T>(), args.a.as<const T>(), args.b.as<const T>(),
                                  args.grad.as<const float>(), float(args.factor));
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, mse_forward, MseForwardArgs,
            {.name = "vectorized",
             .rank = 30,
             .why_not = forward_why_not_vectorized,
             .workspace = parts_workspace,
             .launch = forward_vectorized},
            {.name = "parts", .rank = 20, .workspace = parts_workspace, .launch = forward_parts},
            {.name = "naive", .rank = 10, .launch = forward_naive});
WT_VARIANTS(WT_DEVICE_NS, mse_backward, MseBackwardArgs,
            {.name = "vectorized",
             .rank = 20,
             .why_not = why_not_vectorized,
             .launch = backward_vectorized},
            {.name = "naive", .rank = 10, .launch = backward_naive});

}  // namespace wt
