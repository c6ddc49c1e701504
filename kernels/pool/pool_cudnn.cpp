// Pooling through cuDNN's resampling: averages, forward and backward, and the largest element where
// nobody asks which one it was.
//
// Of a maximum's gradient cuDNN takes either x and y, which ours does not have, or an index tensor
// that cuDNN wrote. It does not say how it counts, nor which of equal elements it takes; ours are
// the first of them, as PyTorch's, and after a ReLU many are equal. So max_pool_backward and
// max_pool_gather have no variant here, and the forward pass writes no taps.
#include "warptape/kernels/cuda/cudnn_variant.h"
#include "warptape/kernels/pool.h"

namespace wt {
namespace {

enum class Pass : u8 { max, average, average_backward };
enum Id : i64 { kX = 1, kY };

struct Problem {
  Pass pass;
  PoolShape shape;
  ConvTensor x, y;
};
Problem problem_of(const MaxPoolForwardArgs& a) { return {Pass::max, a.shape, a.x, a.y}; }
Problem problem_of(const AvgPoolForwardArgs& a) { return {Pass::average, a.shape, a.x, a.y}; }
Problem problem_of(const AvgPoolBackwardArgs& a) {
  return {Pass::average_backward, a.shape, a.gx, a.gy};
}

// Adaptive windows are those of a stride where every one has the same length.
CudnnWindow window_of(const PoolShape& s, int d) {
  if (!s.adaptive) return {s.in[d], s.out[d], s.kernel[d], s.stride[d], s.padding[d], 1};
  const i64 length = s.out[d] ? s.in[d] / s.out[d] : 0;
  return {s.in[d], s.out[d], length, length, 0, 1};
}
int first_axis(const PoolShape& s) {
  const CudnnWindow w = window_of(s, 0);
  return cudnn_first_axis(w.in, w.out, w.kernel, w.padding);
}

bool channels_last(const Problem& p) {
  const PoolShape& s = p.shape;
  return s.channels > 1 && p.x.channel == 1 && (p.x.at[2] != 1 || (s.in[2] == 1 && p.x.at[1] != 1));
}
struct Tensors {
  CudnnTensor x, y;
};
Tensors tensors_of(const Problem& p) {
  const PoolShape& s = p.shape;
  const int from = first_axis(s);
  const bool last = channels_last(p);
  return {cudnn_image(kX, s.dtype, p.x, s.batch, s.channels, s.in, from, last),
          cudnn_image(kY, s.dtype, p.y, s.batch, s.channels, s.out, from, last)};
}

CudnnResampleMode mode_of(const Problem& p) {
  const PoolShape& s = p.shape;
  if (p.pass == Pass::max) return kResampleMax;
  // Where all windows lie inside the two are one.
  return s.divisor || s.count_padding || s.adaptive ? kResampleAverage : kResampleAverageInside;
}

void describe(CudnnGraph& graph, const void* problem) {
  const Problem& p = *static_cast<const Problem*>(problem);
  const int from = first_axis(p.shape), spatial = 3 - from;
  i64 window[3], stride[3], before[3], behind[3];
  for (int d = 0; d < spatial; ++d) {
    const CudnnWindow w = window_of(p.shape, from + d);
    window[d] = w.kernel, stride[d] = w.stride;
    before[d] = w.padding, behind[d] = w.padding_behind();
  }
  const CudnnResampleMode mode = mode_of(p);
  CudnnDescriptor how(graph.api(), kCudnnResample);
  how.set(kResampleMode, kTypeResampleMode, mode);
  how.set(kResampleComputeType, kTypeDataType, kCudnnFloat);
  how.set(kResampleNan, kTypeNanPropagation, kPropagateNan);
  how.set(kResamplePaddingMode, kTypePaddingMode,
          mode == kResampleMax ? kPaddingNegativeInfinity : kPaddingZero);
  how.set(kResampleSpatialDims, i64{spatial});
  how.set(kResampleWindow, kTypeInt64, spatial, window);
  how.set(kResampleStrides, kTypeInt64, spatial, stride);
  how.set(kResamplePrePaddings, kTypeInt64, spatial, before);
  how.set(kResamplePostPaddings, kTypeInt64, spatial, behind);
  how.finalize();
  const Tensors t = tensors_of(p);
  const bool back = p.pass == Pass::average_backward;
  CudnnDescriptor op(graph.api(), back ? kCudnnResampleBackward : kCudnnResampleForward);
  op.set(back ? kResampleBackwardDescriptor : kResampleForwardDescriptor,
         graph.keep(std::move(how)));
  op.set(back ? kResampleBackwardDx : kResampleForwardX, graph.tensor(t.x));
  op.set(back ? kResampleBackwardDy : kResampleForwardY, graph.tensor(t.y));
  graph.operation(std::move(op));
}

// What a window is divided by is what cuDNN divides by.
const char* why_not_divisor(const PoolShape& s) {
  if (s.divisor) return s.divisor == s.taps() ? nullptr : "divides by the window's size only";
  if (s.adaptive || !s.count_padding) return nullptr;
  for (int d = 0; d < 3; ++d)
    if (window_of(s, d).padding_behind() > s.padding[d])
      return "counts no window that reaches beyond the padding";
  return nullptr;
}

// The engine for these is compiled of parts whose sums, as those of reductions show, may come in
// any order without a note of it.
const char* why_not_order(const Problem& p) {
  if (p.pass != Pass::average_backward || !channels_last(p)) return nullptr;
  for (int d = 0; d < 3; ++d) {
    const CudnnWindow w = window_of(p.shape, d);
    if (w.kernel > w.stride && w.out > 1)
      return "promises no order of sums where windows overlap and channels are innermost";
  }
  return nullptr;
}

const char* why_not(const Problem& p) {
  const PoolShape& s = p.shape;
  if (s.dtype != DType::f32 && s.dtype != DType::f16 && s.dtype != DType::bf16)
    return "takes f32, f16 and bf16 only";
  if (s.x_numel() == 0 || s.y_numel() == 0) return "takes no empty tensors";
  for (int d = 0; d < 3; ++d) {
    const CudnnWindow w = window_of(s, d);
    if (s.adaptive && s.in[d] % s.out[d]) return "takes adaptive windows of one length only";
    if (!s.adaptive && s.dilation[d] != 1 && s.kernel[d] > 1) return "takes no windows with gaps";
    if (w.padding < 0) return "takes no negative padding";
    // cuDNN's own rule; and the last window begins inside.
    if (w.padding >= w.kernel && w.padding) return "takes no padding as wide as the window";
    if ((w.out - 1) * w.stride - w.padding >= w.in) return "takes no window outside the image";
    if (!w.agrees()) return "takes no image of which a window's step at the end is left out";
  }
  if (p.pass != Pass::max)
    if (const char* why = why_not_divisor(s)) return why;
  if (const char* why = why_not_order(p)) return why;
  const Tensors t = tensors_of(p);
  for (const CudnnTensor* one : {&t.x, &t.y})
    if (const char* why = cudnn_why_not(*one)) return why;
  return cudnn_why_not();  // last: it looks for the library
}

template <class Args>
void launch(const Args& a, const Launch& l) {
  static constexpr const char* kNames[] = {"max_pool_forward", "avg_pool_forward",
                                           "avg_pool_backward"};
  const Problem p = problem_of(a);
  const Tensors t = tensors_of(p);
  CudnnCall call{.key = {kNames[int(p.pass)], {t.x.type, mode_of(p)}},
                 .exact = p.shape.dtype == DType::f32,
                 .describe = describe,
                 .problem = &p};
  call.key.add(t.x), call.key.add(t.y);
  for (int d = first_axis(p.shape); d < 3; ++d) {
    const CudnnWindow w = window_of(p.shape, d);
    for (const i64 word : {w.kernel, w.stride, w.padding, w.padding_behind()})
      call.key.words.push_back(word);
  }
  call.bind(kX, p.x.data), call.bind(kY, p.y.data);
  std::string reason;
  if (!cudnn_compute(call, l, reason)) launch_without_cudnn(a, l, reason);
}

}  // namespace

const char* max_pool_forward_cudnn_why_not(const MaxPoolForwardArgs& a) {
  if (a.taps.data || a.indices.data) return "does not say which element is the largest";
  return why_not(problem_of(a));
}
const char* avg_pool_forward_cudnn_why_not(const AvgPoolForwardArgs& a) {
  return why_not(problem_of(a));
}
const char* avg_pool_backward_cudnn_why_not(const AvgPoolBackwardArgs& a) {
  return why_not(problem_of(a));
}
void max_pool_forward_cudnn(const MaxPoolForwardArgs& a, const Launch& l) { launch(a, l); }
void avg_pool_forward_cudnn(const AvgPoolForwardArgs& a, const Launch& l) { launch(a, l); }
void avg_pool_backward_cudnn(const AvgPoolBackwardArgs& a, const Launch& l) { launch(a, l); }

}  // namespace wt
