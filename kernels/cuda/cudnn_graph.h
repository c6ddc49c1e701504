// Graphs of cuDNN's operations, as the variants that go through it describe them.
#pragma once
#include <initializer_list>
#include <vector>

#include "warptape/kernels/conv.h"
#include "warptape/kernels/cuda/cudnn_api.h"

namespace wt {

// A tensor of a graph. Strides in elements. Id 0: a step on the way, which is never in memory (a
// virtual tensor; the graph gives it a number).
struct CudnnTensor {
  i64 id = 0;
  int type = kCudnnFloat;
  int ndim = 0;
  i64 dims[5] = {}, strides[5] = {};
  i64 alignment = 16;
  bool by_value = false;  // one number, which the pointer in the pack gives in host memory

  // Sizes `dims`, without gaps, the last axis innermost.
  static CudnnTensor packed(i64 id, int type, std::initializer_list<i64> dims);
  static CudnnTensor number(i64 id, int ndim);
  // The same sizes and strides as a step on the way: f32, or another type.
  CudnnTensor step(int its_type = kCudnnFloat) const;
};

// f16, bf16, and f32 for every other.
int cudnn_type(DType t);
// What a pointer is a multiple of, 16 at most.
i64 cudnn_alignment(const void* p);

// --- images: ConvTensor as cuDNN has it, with two or three spatial axes ---

// The first axis that does something: 0, or 1 where `in`, `out` and `kernel` are 1 without padding.
int cudnn_first_axis(i64 in, i64 out, i64 kernel, i64 padding);
// The image `t` of `first` x `second` (batch and channels) x sizes[from..2]. The stride of an axis
// of one element is anything in ours; cuDNN finds out the layout by the strides.
CudnnTensor cudnn_image(i64 id, DType type, const ConvTensor& t, i64 first, i64 second,
                        const i64* sizes, int from, bool channels_last);
// Null: cuDNN can be told of these strides and sizes.
const char* cudnn_why_not(const CudnnTensor& t);

// Along an axis of an image.
struct CudnnWindow {
  i64 in, out, kernel, stride, padding, dilation;
  i64 reach() const { return (kernel - 1) * dilation + 1; }
  // Padding behind the last element. An engine more takes what is padded alike at both ends, and
  // elements behind the last one that a kernel reaches make no difference.
  i64 padding_behind() const;
  // By cuDNN's rule, which has no sizes of its own, there are `out` windows.
  bool agrees() const;
};

// Operations and what they point to, which lives as long as this.
class CudnnGraph {
 public:
  explicit CudnnGraph(const CudnnApi& api) : api_(api) {}
  const CudnnApi& api() const { return api_; }

  using Ref = const CudnnDescriptor&;  // finalized; good as long as the graph
  Ref tensor(const CudnnTensor& t);
  // One operation each; they return y, which is made here. Sums and products are f32.
  Ref pointwise(CudnnPointwiseMode mode, const CudnnTensor& y, Ref x);
  Ref pointwise(CudnnPointwiseMode mode, const CudnnTensor& y, Ref x, Ref b);
  Ref index(int axis, const CudnnTensor& y, Ref x);  // of x's elements along the axis
  Ref select(const CudnnTensor& y, Ref condition, Ref yes, Ref no);
  Ref reduction(CudnnReductionMode mode, const CudnnTensor& y, Ref x);  // axes of size 1 in y
  Ref matmul(const CudnnTensor& y, Ref a, Ref b);  // of the last two axes; the others broadcast
  Ref reshape(const CudnnTensor& y, Ref x);        // the same elements under other strides

  // For what only one variant needs.
  Ref keep(CudnnDescriptor d);
  void operation(CudnnDescriptor d);
  // The graph of these operations.
  CudnnDescriptor build(void* handle) const;

 private:
  Ref pointwise(CudnnPointwiseMode mode, const CudnnTensor& y, int compute, int axis, Ref x,
                const CudnnDescriptor* b, const CudnnDescriptor* t);
  const CudnnApi& api_;
  std::vector<std::vector<CudnnDescriptor>> kept_;  // a descriptor each: references stay good
  std::vector<CudnnDescriptor> operations_;
  i64 next_step_ = 1000;
};

}  // namespace wt
