// Hopper's rung of the matrix product: the host's side. matmul/matmul_hopper.cuh has the kernel.
#include "warptape/kernels/matmul/matmul_hopper.cuh"

#include "warptape/kernels/device/mma_tile.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {

void launch_row_sums(const MatmulArgs& g, const Launch& l);  // matmul.cu

namespace {

// `lines`: rows of a, columns of b. Boxes are the same for both ways an operand may lie.
TensorMap operand_map(const MatmulArgs& g, const void* data, i64 lines, i64 lead, bool across) {
  TensorBox box;
  box.data = data;
  box.inner = across ? lines : g.k;
  box.outer = across ? g.k : lines;
  // Of a single run nothing else is read, and its stride may be anything; a map's may not.
  box.stride_bytes = box.outer > 1 ? 2 * lead : (2 * box.inner + 15) / 16 * 16;
  box.box_inner = box.box_outer = kBox;
  box.item = 2;
  box.bfloat = g.dtype == DType::bf16;
  box.swizzled = true;
  return tensor_map_2d(box);
}

template <class T, bool TA, bool TB, bool Ends>
void launch_hopper(const MatmulArgs& g, const Launch& l) {
  Config c = tile_grid(g, l, kHopperSide, kHopperSide, kHopperThreads);
  c.shared_bytes = kHopperShared;
  launch<matmul_hopper<T, TA, TB, Ends>>(c, g,
                                         operand_map(g, g.a, g.m, TA ? g.a_column : g.a_row, TA),
                                         operand_map(g, g.b, g.n, TB ? g.b_column : g.b_row, !TB),
                                         packs_aligned(g, Ends ? kStaged : 2));
}

template <class T, bool Ends>
void launch_hopper(const MatmulArgs& g, const Launch& l) {
  const bool ta = g.a_column != 1, tb = g.b_column != 1;
  if (!ta)
    tb ? launch_hopper<T, false, true, Ends>(g, l) : launch_hopper<T, false, false, Ends>(g, l);
  else if constexpr (!Ends)
    tb ? launch_hopper<T, true, true, false>(g, l) : launch_hopper<T, true, false, false>(g, l);
}

template <bool Ends>
void hopper_product(const MatmulArgs& g, const Launch& l) {
  // A grid a matrix: a tensor map begins at an address that the host knows.
  const i64 batches = g.batches();
  for (i64 z = 0; z < batches; ++z)
    with_half(g.dtype, [&]<class T>(TypeTag<T>) { launch_hopper<T, Ends>(matmul_at(g, z), l); });
  if (g.row_sum) launch_row_sums(g, l);
}

}  // namespace

void hopper(const MatmulArgs& g, const Launch& l) {
  if (ends_in_kernel(g))
    hopper_product<true>(g, l);
  else
    with_epilogue<hopper_product<false>>(g, l);
}

const char* hopper_why_not(const MatmulArgs& g) {
  if (!is_half(g.dtype)) return "takes f16 and bf16 only";
  if (g.m == 0 || g.n == 0 || g.k == 0 || g.batches() == 0) return "takes no empty products";
  // TMA's coordinates are 32 bits; a box may begin one side before the end.
  constexpr i64 kMost = INT32_MAX - 2 * kHopperSide;
  if (g.m > kMost || g.n > kMost || g.k > kMost) return "takes sides below 2^31 - 256 only";
  const i64 a_lead = g.a_column == 1 ? g.a_row : g.a_column;
  const i64 b_lead = g.b_column == 1 ? g.b_row : g.b_column;
  bool aligned = aligned_16(g.a) && aligned_16(g.b) && a_lead % 8 == 0 && b_lead % 8 == 0;
  for (int d = 0; d < g.batch_ndim; ++d) aligned &= g.batch[d].a % 8 == 0 && g.batch[d].b % 8 == 0;
  return aligned ? nullptr : "needs rows of a and b that begin at multiples of 16 bytes";
}

const char* hopper_why_not_on(const MatmulArgs&, const DeviceLimits& d) {
  // wgmma is Hopper's alone: neither older nor newer GPUs have it.
  if (d.major != 9) return "TMA and wgmma of this kernel need compute capability 9.0 (Hopper)";
  if (d.shared_bytes < i64(kHopperShared) + 64) return "needs 97 KiB of shared memory a block";
#if defined(__CUDACC__) && !defined(WARPTAPE_BUILT_FOR_90A)
  return "this build has no code for Hopper's own instructions (CMAKE_CUDA_ARCHITECTURES: 90a)";
#elif defined(__CUDACC__)
  return why_no_cuda_tensor_map();
#else
  return nullptr;
#endif
}

}  // namespace WT_DEVICE_NS
}  // namespace wt
