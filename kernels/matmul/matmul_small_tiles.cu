// The matrix product's tensor-core rung with tiles of 64 x 64: for results of few tiles, and for
// split-K's parts. matmul/matmul_mma.cuh has the kernel, matmul_tensor_core.cu the large tiles.
#include "warptape/kernels/matmul/matmul_mma.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <bool Ends>
void small_tiles(const MatmulArgs& g, const Launch& l) {
  with_half(g.dtype,
            [&]<class T>(TypeTag<T>) { launch_mma<T, SmallMma, Ends>(g, l, {.each = g.k}); });
}

}  // namespace

void tensor_core_small(const MatmulArgs& g, const Launch& l) {
  if (ends_in_kernel(g))
    small_tiles<true>(g, l);
  else
    with_epilogue<small_tiles<false>>(g, l);
}

void tensor_core_parts(const MatmulArgs& g, const Launch& l, const KParts& parts) {
  with_half(g.dtype, [&]<class T>(TypeTag<T>) { launch_mma<T, SmallMma>(g, l, parts); });
}

}  // namespace WT_DEVICE_NS
}  // namespace wt
