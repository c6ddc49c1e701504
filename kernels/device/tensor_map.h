// What a tensor map says, and the rules that it has to keep: for both devices, plain
// C++; tensor_map.cpp has the functions.
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
const char* tensor_box_problem(const TensorBox& b);
// Throws KernelError.
[[noreturn]] void tensor_map_rejected(const char* reason, const TensorBox& box);
// cuda: fills in the 128 bytes of a CUtensorMap; throws when the driver does not.
void make_cuda_tensor_map(void* map, const TensorBox& box);
// Null where the driver makes tensor maps, else why it does not, in users' words.
const char* why_no_cuda_tensor_map();

}  // namespace wt
