// What methods of Tensor take beside tensors, numbers and shapes.
#pragma once
#include "warptape/core/frame.h"
#include "warptape/core/misnamed.h"
#include "warptape/core/scalar.h"
#include "warptape/core/shape.h"

namespace wt {

// contiguous: C order. channels_last: NHWC in memory under NCHW shapes. preserve: as the input is.
enum class MemoryFormat : u8 { contiguous, channels_last, preserve };

// A half-open range of an axis with a positive step; negative bounds count from the end and bounds
// are clipped, as in Python.
struct Slice {
  i64 begin = 0, end = INT64_MAX, step = 1;
};
// An integer index, with the line where it was written (operators take no default arguments).
struct Position {
  i64 value;
  Frame at;
  template <Integer T>
  Position(T i, Frame where = Frame::here()) : value(Dim(i).value), at(where) {}  // NOLINT
};
// In an index list: all the axes that no other entry takes, and a new axis of size 1.
struct Ellipsis {};
struct NewAxis {};
inline constexpr Ellipsis ellipsis{};
inline constexpr NewAxis newaxis{};

struct BackwardOptions {
  bool retain_graph = false;
  WT_MISNAMED_SAYS(create_graph,
                   "backward() never records: write grad(y, x, {.create_graph = true})");
  WT_MISNAMED_SAYS(gradient, "the seed comes before the options: y.backward(seed)");
};
struct SumOptions {
  bool keep_dim = false;
  WT_MISNAMED(keepdim, keep_dim);
  WT_MISNAMED_SAYS(dim, "the axes come before the options: sum(x, 0, {.keep_dim = true})");
};
// Of var() and std().
struct VarOptions {
  double correction = 1;  // 1: the unbiased estimate; 0: the mean of the squared distances
  bool keep_dim = false;
  WT_MISNAMED(keepdim, keep_dim);
  WT_MISNAMED_SAYS(unbiased, "unbiased=False is {.correction = 0}");
};
struct SortOptions {
  bool descending = false;
  WT_MISNAMED_SAYS(stable, "sorting is always stable");
};
struct TopkOptions {
  bool largest = true;
  WT_MISNAMED_SAYS(sorted, "the result of topk() is always sorted");
};
struct IndexPutOptions {
  bool accumulate = false;
};
struct AddOptions {
  Scalar alpha = 1;  // what the other operand is multiplied with
};

}  // namespace wt
