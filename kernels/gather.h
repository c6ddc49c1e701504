// Elements read and written along one axis by index.
#pragma once
#include "warptape/kernels/contract.h"

namespace wt {

// out[.., j, ..] = in[.., index[.., j, ..], ..], j along `axis`.
//
// index: i64 or i32, the shape of out; in: as many axes, of which all but `axis` are at least as
// long as out's. Any strides (an index that is the same along an axis has stride 0 there), any
// dtype, in and out the same; they do not overlap. 0-d operands are one element at index 0.
// An index outside [0, size) raises the mailbox with its position in `index`. On cpu, whose
// operators throw, nothing is written then; elsewhere the first element of the axis stands in.
struct GatherArgs {
  static constexpr int kSliceViews = 3;  // kernels/dispatch/run_slices.h
  static constexpr bool kSliceBroadcast = false;
  void shift_axes(int n) { axis += n; }
  View out;
  View in, index;
  int axis = 0;
  MailboxRecord* mailbox = nullptr;  // null: the indices are known to be good
  u32 op_id = 0;
  i64 bytes() const { return 2 * out.bytes() + index.bytes(); }
  i64 flops() const { return 0; }
};
WT_CONTRACT(gather, GatherArgs);

enum class ScatterMode : u8 { set, add };

// set: out[.., index[.., j, ..], ..] = source[.., j, ..]; of equal places the largest j counts.
// add: the same with +=, in ascending order of j, whatever the number of threads; 16-bit floats are
// added in f32 and rounded once, integers modulo 2^bits.
//
// index and source have one shape; out has as many axes, of which all but `axis` are at least as
// long. Any strides but for out, of which no two elements share a place. set: any dtype; add: f64
// f32 f16 bf16 i64 i32 u8. Bad indices as above: on cpu nothing is written, elsewhere they are
// skipped. What no index names keeps its value.
struct ScatterArgs {
  static constexpr int kSliceViews = 3;  // kernels/dispatch/run_slices.h
  static constexpr bool kSliceBroadcast = false;
  void shift_axes(int n) { axis += n; }
  View out;
  View source, index;
  int axis = 0;
  ScatterMode mode = ScatterMode::set;
  MailboxRecord* mailbox = nullptr;  // null: the indices are known to be good
  u32 op_id = 0;
  i64 bytes() const { return source.bytes() * (mode == ScatterMode::add ? 3 : 2) + index.bytes(); }
  i64 flops() const { return mode == ScatterMode::add ? source.numel() : 0; }
};
WT_CONTRACT(scatter, ScatterArgs);

}  // namespace wt
