// What a tensor map says, and the rules that it has to keep: for both devices, plain C++.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace wt {

// A matrix in global memory as TMA sees it, and the box of it that one load brings. Counted in
// elements, `inner` along neighbours in memory, but for the stride.
struct TensorBox {
  const void* data = nullptr;
  int64_t inner = 0, outer = 0;
  int64_t stride_bytes = 0;  // from one contiguous run to the next
  int box_inner = 0, box_outer = 0;
  int item = 0;           // bytes of an element
  bool bfloat = false;    // of 2 bytes: bf16, not f16
  bool swizzled = false;  // in shared memory by 128 bytes; else run after run
};

// Why no map can be made of it, or null. The driver has the same rules and answers with a number.
inline const char* tensor_box_problem(const TensorBox& b) {
  constexpr int64_t kSide = int64_t(1) << 32, kStride = int64_t(1) << 40;
  if (reinterpret_cast<uintptr_t>(b.data) % 16 != 0)
    return "a tensor map's data begin at a multiple of 16 bytes";
  if (b.inner < 1 || b.outer < 1 || b.inner > kSide || b.outer > kSide)
    return "a tensor map has 1 to 2^32 elements a side";
  if (b.stride_bytes % 16 != 0 || b.stride_bytes < 0 || b.stride_bytes >= kStride)
    return "a tensor map's stride is a multiple of 16 bytes below 2^40";
  if (b.box_inner < 1 || b.box_inner > 256 || b.box_outer < 1 || b.box_outer > 256)
    return "a box of TMA has 1 to 256 elements a side";
  if (b.box_inner * b.item % 16 != 0) return "a row of a box of TMA is a multiple of 16 bytes";
  if (b.swizzled && b.box_inner * b.item != 128)
    return "a row of a box with the 128-byte swizzle is 128 bytes";
  return nullptr;
}

// Throws KernelError; kernels/device/tensor_map.cpp.
[[noreturn]] void tensor_map_rejected(const char* reason, const TensorBox& box);
// cuda: fills in the 128 bytes of a CUtensorMap; throws when the driver does not.
void make_cuda_tensor_map(void* map, const TensorBox& box);
// Null where the driver makes tensor maps, else why it does not, in users' words.
const char* why_no_cuda_tensor_map();

}  // namespace wt
