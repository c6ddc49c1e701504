// Convolutions through cuDNN's graphs: forward, and the gradients of image and weight.
//
// A graph is one convolution, or a forward one whose result, in f32 and never in memory, has the
// bias added. What cuDNN has no deterministic engine for our own kernels compute, and one line says
// so.
#include "warptape/kernels/conv.h"
#include "warptape/kernels/cuda/cudnn_variant.h"

namespace wt {
namespace {

enum class Pass : u8 { forward, data, filter };
enum Id : i64 { kX = 1, kW, kY, kBias };

struct Problem {
  Pass pass;
  ConvShape shape;
  ConvTensor x, w, y;
  const void* bias = nullptr;
  bool accumulate = false;
};
Problem problem_of(const ConvForwardArgs& a) {
  return {Pass::forward, a.shape, a.x, a.w, a.y, a.bias};
}
Problem problem_of(const ConvBackwardInputArgs& a) {
  return {Pass::data, a.shape, a.x, a.w, a.y, a.bias};
}
Problem problem_of(const ConvBackwardWeightArgs& a) {
  return {Pass::filter, a.shape, a.x, a.w, a.y, nullptr, a.accumulate};
}

int first_axis(const ConvShape& s) {
  return cudnn_first_axis(s.in[0], s.out[0], s.kernel[0], s.padding[0]);
}
CudnnWindow window_of(const ConvShape& s, int d) {
  return {s.in[d], s.out[d], s.kernel[d], s.stride[d], s.padding[d], s.dilation[d]};
}

struct Tensors {
  CudnnTensor x, w, y;
};
Tensors tensors_of(const Problem& p) {
  const ConvShape& s = p.shape;
  const bool last = (s.in_channels > 1 && p.x.channel == 1 && p.x.at[2] != 1) ||
                    (s.out_channels > 1 && p.y.channel == 1 && p.y.at[2] != 1);
  const int from = first_axis(s);
  return {cudnn_image(kX, s.dtype, p.x, s.batch, s.in_channels, s.in, from, last),
          cudnn_image(kW, s.dtype, p.w, s.out_channels, s.in_group(), s.kernel, from, last),
          cudnn_image(kY, s.dtype, p.y, s.batch, s.out_channels, s.out, from, last)};
}

CudnnKey key_of(const Problem& p, const Tensors& t) {
  static constexpr const char* kPassNames[] = {"conv_forward", "conv_backward_input",
                                               "conv_backward_weight"};
  CudnnKey key{kPassNames[int(p.pass)], {}};
  const ConvShape& s = p.shape;
  key.words = {t.x.type, s.groups, p.accumulate, p.bias != nullptr,
               p.bias ? cudnn_alignment(p.bias) : 0};
  for (const CudnnTensor* one : {&t.x, &t.w, &t.y}) key.add(*one);
  for (int d = first_axis(s); d < 3; ++d)
    for (const i64 w : {s.stride[d], s.padding[d], window_of(s, d).padding_behind(), s.dilation[d]})
      key.words.push_back(w);
  return key;
}

struct Names {  // of the attributes of one direction
  CudnnDescriptorType type;
  CudnnAttribute alpha, beta, conv, x, w, y;
};
constexpr Names kNames[] = {
    {kCudnnConvForward, kForwardAlpha, kForwardBeta, kForwardConv, kForwardX, kForwardW, kForwardY},
    {kCudnnConvBackwardData, kDataAlpha, kDataBeta, kDataConv, kDataDx, kDataW, kDataDy},
    {kCudnnConvBackwardFilter, kFilterAlpha, kFilterBeta, kFilterConv, kFilterX, kFilterDw,
     kFilterDy}};

void describe(CudnnGraph& graph, const void* problem) {
  const Problem& p = *static_cast<const Problem*>(problem);
  const ConvShape& s = p.shape;
  const Tensors t = tensors_of(p);
  const int from = first_axis(s), spatial = 3 - from;
  i64 behind[3];
  for (int d = 0; d < 3; ++d) behind[d] = window_of(s, d).padding_behind();

  CudnnDescriptor conv(graph.api(), kCudnnConvolution);
  conv.set(kConvComputeType, kTypeDataType, kCudnnFloat);
  conv.set(kConvMode, kTypeConvMode, kCrossCorrelation);
  conv.set(kConvSpatialDims, i64{spatial});
  conv.set(kConvStrides, kTypeInt64, spatial, s.stride + from);
  conv.set(kConvDilations, kTypeInt64, spatial, s.dilation + from);
  conv.set(kConvPrePaddings, kTypeInt64, spatial, s.padding + from);
  conv.set(kConvPostPaddings, kTypeInt64, spatial, behind + from);
  conv.finalize();

  // With a bias the convolution's result is virtual.
  const CudnnTensor sum = p.bias ? t.y.step() : t.y;
  const CudnnDescriptor& x = graph.tensor(t.x);
  const CudnnDescriptor& w = graph.tensor(t.w);
  const CudnnDescriptor& y = graph.tensor(sum);
  const Names& n = kNames[int(p.pass)];
  CudnnDescriptor op(graph.api(), n.type);
  op.set(n.conv, graph.keep(std::move(conv)));
  op.set(n.x, x);
  op.set(n.w, w);
  op.set(n.y, y);
  op.set(n.alpha, 1.0f);
  op.set(n.beta, p.accumulate ? 1.0f : 0.0f);
  graph.operation(std::move(op));
  if (!p.bias) return;

  CudnnTensor bias{.id = kBias, .type = t.x.type, .ndim = sum.ndim};
  bias.alignment = cudnn_alignment(p.bias);
  for (int d = 0; d < sum.ndim; ++d) bias.dims[d] = 1, bias.strides[d] = 1;
  bias.dims[1] = sum.dims[1], bias.strides[0] = sum.dims[1];
  graph.pointwise(kPointwiseAdd, t.y, y, graph.tensor(bias));
}

const char* why_not(const Problem& p) {
  const ConvShape& s = p.shape;
  if (s.dtype != DType::f32 && s.dtype != DType::f16 && s.dtype != DType::bf16)
    return "takes f32, f16 and bf16 only";
  if (s.x_numel() == 0 || s.y_numel() == 0 || s.w_numel() == 0) return "takes no empty tensors";
  // cuDNN 9.19 lists no engine that adds one to an image's gradient, whatever the type and layout.
  if (p.bias && p.pass == Pass::data) return "adds no bias";
  for (int d = 0; d < 3; ++d) {
    if (s.padding[d] < 0) return "takes no negative padding";
    if (!window_of(s, d).agrees())
      return "takes no image of which a kernel's step at the end is left out";
  }
  const Tensors t = tensors_of(p);
  for (const CudnnTensor* one : {&t.x, &t.w, &t.y})
    if (const char* why = cudnn_why_not(*one)) return why;
  return cudnn_why_not();  // last: it looks for the library
}

template <class Args>
void launch(const Args& a, const Launch& l) {
  const Problem p = problem_of(a);
  CudnnCall call{.key = key_of(p, tensors_of(p)),
                 .exact = p.shape.dtype == DType::f32,
                 .describe = describe,
                 .problem = &p};
  call.bind(kX, p.x.data), call.bind(kW, p.w.data), call.bind(kY, p.y.data);
  if (p.bias) call.bind(kBias, p.bias);
  std::string reason;
  if (!cudnn_compute(call, l, reason)) launch_without_cudnn(a, l, reason);
}

}  // namespace

const char* conv_forward_cudnn_why_not(const ConvForwardArgs& a) { return why_not(problem_of(a)); }
const char* conv_backward_input_cudnn_why_not(const ConvBackwardInputArgs& a) {
  return why_not(problem_of(a));
}
const char* conv_backward_weight_cudnn_why_not(const ConvBackwardWeightArgs& a) {
  return why_not(problem_of(a));
}
void conv_forward_cudnn(const ConvForwardArgs& a, const Launch& l) { launch(a, l); }
void conv_backward_input_cudnn(const ConvBackwardInputArgs& a, const Launch& l) { launch(a, l); }
void conv_backward_weight_cudnn(const ConvBackwardWeightArgs& a, const Launch& l) {
  ConvBackwardWeightArgs w = a;
  w.y_sum = nullptr;  // the caller's, conv_weight.cu: a kernel of our own
  launch(w, l);
}

}  // namespace wt
