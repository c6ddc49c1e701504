// Sequences of numbers on simt and cuda: one thread an element, neighbours side by side. Nothing is
// read, so stores of 2 to 8 bytes a lane are all that memory sees.
#include "warptape/kernels/sequence.h"

#include "warptape/kernels/copy/sequence_values.h"
#include "warptape/kernels/device/number.cuh"
#include "warptape/kernels/device/row_kernels.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr i64 kThreads = 256;

struct SequenceMemory {
  SequenceValues values;
  void* out;
  DType dtype;
  i64 n;
  template <class F>
  void visit_pointers(F&& f) const {
    f(out);
  }
};

__global__ void __launch_bounds__(kThreads) sequence_naive(SequenceMemory m) {
  const i64 stride = i64(gridDim.x) * blockDim.x;
  for (i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x; i < m.n; i += stride)
    m.values.element(
        i, [&](i64 at, auto v) WT_INLINE_LAMBDA { DeviceNumbers::put(m.dtype, m.out, at, v); });
}

void launch_naive(const SequenceArgs& a, const Launch& l) {
  const i64 n = a.out.numel();
  launch<sequence_naive>(grid_of(l, ceil_div(n, kThreads), kThreads),
                         SequenceMemory{SequenceValues(a), a.out.data, a.out.dtype(), n});
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, sequence, SequenceArgs,
            {.name = "naive", .rank = 10, .launch = launch_naive});

}  // namespace wt
