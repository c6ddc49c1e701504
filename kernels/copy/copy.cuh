// What copies and fills share: a thread an element.
#pragma once
#include "warptape/kernels/copy.h"
#include "warptape/kernels/device/strided_index.cuh"
#include "warptape/kernels/device/vector.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ i64 global_thread() {
  return i64(blockIdx.x) * blockDim.x + threadIdx.x;
}
inline Config one_thread_each(i64 n, const Launch& l) {
  return {.grid = unsigned((n + kThreads - 1) / kThreads),
          .block = kThreads,
          .stream = l.stream,
          .op_name = l.op ? l.op->name : nullptr};
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
