// What the kernel files of this folder share: they are students' files, and short.
#pragma once
#include "warptape/kernels/simt/simt.h"
//
#include "warptape/kernels/contract.h"

namespace wt {
inline namespace WT_DEVICE_NS {

inline unsigned blocks_for(i64 n, i64 per_block) {
  return unsigned((n + per_block - 1) / per_block);
}

// Grids of students who write Config by hand.
inline Config grid(const Launch& l, i64 blocks, i64 threads, size_t shared = 0) {
  return {.grid = unsigned(blocks),
          .block = unsigned(threads),
          .shared_bytes = shared,
          .stream = l.stream,
          .op_name = l.op->name};
}

inline bool plain_f32(const View& v) { return v.dtype() == DType::f32 && v.dense(); }

// Strides of three operands of two axes.
struct i64x6 {
  i64 v[6];
};

// The grader's memory begins at multiples of 256 bytes, unless it is told to begin elsewhere.
inline bool aligned16(const View& v) { return reinterpret_cast<uintptr_t>(v.data) % 16 == 0; }

}  // namespace WT_DEVICE_NS
}  // namespace wt
