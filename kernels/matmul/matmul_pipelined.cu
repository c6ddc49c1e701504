// The matrix product's rungs with a pipeline of asynchronous copies: the host's side.
// matmul/matmul_pipelined.cuh has the kernel.
#include "warptape/kernels/matmul/matmul_pipelined.cuh"

#include "warptape/kernels/matmul/matmul_split.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <bool Ends>
void pipelined_product(const MatmulArgs& g, const Launch& l) {
  with_half(g.dtype, [&]<class T>(TypeTag<T>) { launch_pipelined<T, Ends>(g, l, {.each = g.k}); });
}

}  // namespace

void pipelined(const MatmulArgs& g, const Launch& l) {
  if (ends_in_kernel(g))
    pipelined_product<true>(g, l);
  else
    with_epilogue<pipelined_product<false>>(g, l);
}

const char* pipelined_why_not_on(const MatmulArgs&, const DeviceLimits& d) {
  return d.major >= 8 ? nullptr : "cp.async and mma.m16n8k16 need compute capability 8.0";
}

void pipelined_split_k(const MatmulArgs& g, const Launch& l) {
  const KParts parts = parts_in<LargeMma::kRows>(g, l);
  with_half(g.dtype, [&]<class T>(TypeTag<T>) { launch_pipelined<T>(g, l, parts); });
  add_parts(g, parts, l);
}

const char* pipelined_split_k_why_not(const MatmulArgs& g) {
  const char* why = tensor_core_why_not(g);
  return why ? why : why_not_split(g);
}
int pipelined_split_k_rank(const MatmulArgs& g) {
  return parts_of(g, LargeMma::kRows).count > 1 ? 35 : 0;
}

}  // namespace WT_DEVICE_NS
}  // namespace wt
