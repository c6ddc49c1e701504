// TMA: one thread asks for a box of a matrix, a unit of its own computes the addresses, brings it
// to shared memory and tells an mbarrier how many bytes have landed. With cp.async every thread of
// a block computes addresses and asks for 16 bytes at a time.
//
// A tensor map describes the matrix; the host makes it (tensor_map_2d) and the kernel takes it as
// `const __grid_constant__ TensorMap`. What of a box lies outside of the matrix is zero in shared
// memory and counts as landed: the bytes of a box are always the same.
//
// swizzled: rows of 128 bytes; row r's 16-byte pieces are permuted by an exclusive or with r % 8,
// so that eight rows' pieces of one column lie in eight different places. The destination then is
// at a multiple of 1024 bytes, or wgmma's descriptors would not find it.
#pragma once
#include "warptape/kernels/device/mbarrier.cuh"
#include "warptape/kernels/device/tensor_map.h"

namespace wt {
inline namespace WT_DEVICE_NS {

// The first address at a multiple of 1024 in shared memory that is 1024 bytes longer than needed.
template <class T>
__device__ __forceinline__ T* align_1024(T* p) {
  const uintptr_t from = reinterpret_cast<uintptr_t>(p);
#if defined(__CUDACC__)
  return reinterpret_cast<T*>(from + (0u - shared_address(p)) % 1024);
#else
  return reinterpret_cast<T*>(from + (0 - from) % 1024);
#endif
}

#if defined(__CUDACC__)

struct alignas(128) TensorMap {  // as CUDA 13 has it; 64 is what the hardware asks for
  uint64_t opaque[16];
};
inline TensorMap tensor_map_2d(const TensorBox& box) {
  TensorMap map;
  make_cuda_tensor_map(&map, box);
  return map;
}

#if WT_HAS_HOPPER
// The box whose first element is (inner, outer).
__device__ __forceinline__ void tma_load_2d(void* to, const TensorMap* map, int inner, int outer,
                                            Mbarrier* landed) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(to)),
      "l"(map), "r"(inner), "r"(outer), "r"(shared_address(landed))
      : "memory");
}
#endif

#else

struct TensorMap {
  TensorBox box;
  template <class F>
  void visit_pointers(F&& f) const {
    f(box.data);
  }
};
inline TensorMap tensor_map_2d(const TensorBox& box) {
  if (const char* problem = tensor_box_problem(box)) tensor_map_rejected(problem, box);
  return {box};
}
WT_FN void tma_load_2d(void* to, const TensorMap* map, int inner, int outer, Mbarrier* landed,
                       Loc at = Loc::current()) {
  exec_tma_load_2d(to, map->box, inner, outer, landed, at);
}

#endif

}  // namespace WT_DEVICE_NS
}  // namespace wt
