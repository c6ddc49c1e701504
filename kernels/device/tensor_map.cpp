// Tensor maps of TMA. They are made by the driver's cuTensorMapEncodeTiled, which is asked of the
// runtime by name: nothing is linked against libcuda, and a driver that lacks it is no error until
// a kernel is named that needs it.
#include "warptape/kernels/device/tensor_map.h"

#include "warptape/core/error.h"
#include "warptape/kernels/cuda/api.h"
#include "warptape/kernels/simt/executor.h"

namespace wt {
namespace {

// cuTensorMapEncodeTiled of cuda.h, its enumerations as the ints that they are.
using Encode = int (*)(void* map, int type, unsigned rank, void* data, const uint64_t* sizes,
                       const uint64_t* strides, const unsigned* box, const unsigned* steps,
                       int interleave, int swizzle, int l2_promotion, int fill);

// Found once a thread and table of functions: why_not_on comes by before launches.
Encode find_encode() {
  thread_local const CudaApi* asked = nullptr;
  thread_local Encode found = nullptr;
  const CudaApi* api = cuda_api();
  if (api != asked || !found) {
    asked = api;
    found = api && api->driver_function
                ? reinterpret_cast<Encode>(api->driver_function("cuTensorMapEncodeTiled"))
                : nullptr;
  }
  return found;
}

}  // namespace

const char* tensor_box_problem(const TensorBox& b) {
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

void tensor_map_rejected(const char* reason, const TensorBox& b) {
  throw KernelError(str(reason, ": ", b.outer, " runs of ", b.inner, " elements of ", b.item,
                        " bytes, ", b.stride_bytes, " bytes from one to the next, in boxes of ",
                        b.box_outer, " by ", b.box_inner));
}

const char* why_no_cuda_tensor_map() {
  return find_encode() ? nullptr
                       : "needs a CUDA driver that makes tensor maps (cuTensorMapEncodeTiled, CUDA "
                         "12.0 or newer)";
}

void make_cuda_tensor_map(void* map, const TensorBox& b) {
  if (const char* problem = tensor_box_problem(b)) tensor_map_rejected(problem, b);
  const Encode encode = find_encode();
  if (!encode) throw NotAvailable(str("a tensor map ", why_no_cuda_tensor_map()));
  const uint64_t sizes[2] = {uint64_t(b.inner), uint64_t(b.outer)};
  const uint64_t strides[1] = {uint64_t(b.stride_bytes)};
  const unsigned box[2] = {unsigned(b.box_inner), unsigned(b.box_outer)}, steps[2] = {1, 1};
  const int type = b.item == 4 ? kTensorFloat32 : b.bfloat ? kTensorBfloat16 : kTensorFloat16;
  const int code = encode(map, type, 2, const_cast<void*>(b.data), sizes, strides, box, steps,
                          kTensorNoInterleave, b.swizzled ? kTensorSwizzle128 : kTensorNoSwizzle,
                          kTensorL2Lines256, kTensorZeros);
  if (code != 0)
    tensor_map_rejected(str("cuTensorMapEncodeTiled: CUDA driver error ", code).c_str(), b);
}

}  // namespace wt
