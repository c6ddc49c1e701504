// Dropout on simt and cuda.
//   naive   one thread an element, a generator block each
//   blocks  one thread four elements: one generator block
#include "warptape/kernels/dropout.h"

#include "warptape/kernels/float_types.cuh"
#include "warptape/kernels/launch.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 128;
constexpr i64 kMaxBlocks = 1 << 20;

template <class T, class A, int kPerThread>
__global__ void __launch_bounds__(kThreads)
    dropout_kernel(T* out, const T* in, i64 n, PhiloxKey key, u64 call, float p, A scale) {
  const i64 stride = i64(gridDim.x) * kThreads;
  for (i64 t = i64(blockIdx.x) * kThreads + threadIdx.x; t * kPerThread < n; t += stride) {
    const i64 first = t * kPerThread;
    const PhiloxBlock r = philox(key, u64(first) / 4, call);
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      const i64 i = first + k;
      if (i < n) out[i] = uniform24(r.v[i % 4]) >= p ? T(A(in[i]) * scale) : T(A(0));
    }
  }
}

template <int kPerThread>
void dropout_launch(const DropoutArgs& a, const Launch& l) {
  const i64 n = a.out.numel(), threads = (n + kPerThread - 1) / kPerThread;
  const i64 blocks = (threads + kThreads - 1) / kThreads;
  with_float_or_double(a.out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    launch<dropout_kernel<T, A, kPerThread>>(
        {.grid = dim3(unsigned(blocks < kMaxBlocks ? blocks : kMaxBlocks)),
         .block = dim3(kThreads),
         .stream = l.stream,
         .op_name = "dropout"},
        a.out.as<T>(), a.in.as<T>(), n, a.key, a.call, float(a.p), A(dropout_scale(a.p)));
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, dropout, DropoutArgs,
            {.name = "blocks", .rank = 10, .launch = dropout_launch<4>},
            {.name = "naive", .rank = 1, .launch = dropout_launch<1>});

}  // namespace wt
