// The matrix product's tensor-core rung: the host's side, and its large tiles.
// matmul/matmul_mma.cuh has the kernel, matmul_small_tiles.cu the instances for small tiles:
// together they would take a compiler as long as all other rungs.
#include "warptape/kernels/matmul/matmul_mma.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <bool Ends>
void large_tiles(const MatmulArgs& g, const Launch& l) {
  with_half(g.dtype,
            [&]<class T>(TypeTag<T>) { launch_mma<T, LargeMma, Ends>(g, l, {.each = g.k}); });
}

}  // namespace

void tensor_core(const MatmulArgs& g, const Launch& l) {
  // Large tiles read each operand less often but need enough of them to fill the machine.
  const double large = double(tiles(g.m, LargeMma::kRows)) * tiles(g.n, LargeMma::kColumns);
  if (large * double(g.batches()) < 64)
    tensor_core_small(g, l);
  else if (ends_in_kernel(g))
    large_tiles<true>(g, l);
  else
    with_epilogue<large_tiles<false>>(g, l);
}

}  // namespace WT_DEVICE_NS
}  // namespace wt
