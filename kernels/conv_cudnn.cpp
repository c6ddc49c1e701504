// Convolutions through cuDNN's graphs: forward, and the gradients of image and weight.
//
// A graph is one convolution, or a forward one whose result, in f32 and never in memory, has the
// bias added. What cuDNN has no deterministic engine for our own kernels compute, and one line says
// so.
#include <algorithm>

#include "warptape/core/error.h"
#include "warptape/core/storage.h"
#include "warptape/core/warning.h"
#include "warptape/kernels/conv.h"
#include "warptape/kernels/cuda/cudnn_plan.h"

namespace wt {
namespace {

enum class Pass : u8 { forward, data, filter };
enum Id : i64 { kX = 1, kW, kY, kBias, kSum };

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

// cuDNN has two or three spatial axes: a first one that does nothing is left out.
int first_axis(const ConvShape& s) {
  return s.in[0] == 1 && s.out[0] == 1 && s.kernel[0] == 1 && s.padding[0] == 0 ? 1 : 0;
}

// Padding behind the last element. An engine more takes what is padded alike at both ends, and
// elements behind the last one that a kernel reaches make no difference.
i64 padding_behind(const ConvShape& s, int d) {
  const i64 reach = (s.kernel[d] - 1) * s.dilation[d] + 1;
  const i64 alike = s.in[d] + 2 * s.padding[d] - reach;
  if (alike >= 0 && alike / s.stride[d] + 1 == s.out[d]) return s.padding[d];
  return std::max(i64{0}, (s.out[d] - 1) * s.stride[d] + reach - s.in[d] - s.padding[d]);
}

i64 alignment_of(const void* p) { return i64{1} << __builtin_ctzll(reinterpret_cast<u64>(p) | 16); }

// Sizes and strides of one tensor, as the graph and the key have them. The stride of an axis of one
// element is anything in ours; cuDNN finds out the layout by the strides.
CudnnTensor tensor_of(Id id, const Problem& p, const ConvTensor& t, i64 first, i64 second,
                      const i64* sizes, bool channels_last) {
  const int from = first_axis(p.shape), spatial = 3 - from;
  CudnnTensor to;
  to.id = id;
  to.type = p.shape.dtype == DType::f16    ? kCudnnHalf
            : p.shape.dtype == DType::bf16 ? kCudnnBfloat16
                                           : kCudnnFloat;
  to.ndim = spatial + 2;
  to.alignment = alignment_of(t.data);
  to.dims[0] = first, to.dims[1] = second;
  to.strides[0] = t.batch, to.strides[1] = t.channel;
  for (int d = 0; d < spatial; ++d)
    to.dims[d + 2] = sizes[from + d], to.strides[d + 2] = t.at[from + d];
  i64 next = 1;  // from the innermost axis outwards
  const auto see = [&](int axis) {
    if (to.dims[axis] == 1) to.strides[axis] = next;
    next = std::max(next, to.strides[axis] * to.dims[axis]);
  };
  if (channels_last) see(1);
  for (int d = spatial + 1; d >= 2; --d) see(d);
  if (!channels_last) see(1);
  see(0);
  return to;
}

struct Tensors {
  CudnnTensor x, w, y;
};
Tensors tensors_of(const Problem& p) {
  const ConvShape& s = p.shape;
  const bool last = (s.in_channels > 1 && p.x.channel == 1 && p.x.at[2] != 1) ||
                    (s.out_channels > 1 && p.y.channel == 1 && p.y.at[2] != 1);
  return {tensor_of(kX, p, p.x, s.batch, s.in_channels, s.in, last),
          tensor_of(kW, p, p.w, s.out_channels, s.in_group(), s.kernel, last),
          tensor_of(kY, p, p.y, s.batch, s.out_channels, s.out, last)};
}

CudnnKey key_of(const Problem& p, const Tensors& t) {
  static constexpr const char* kPassNames[] = {"conv_forward", "conv_backward_input",
                                               "conv_backward_weight"};
  CudnnKey key{kPassNames[int(p.pass)], {}};
  const ConvShape& s = p.shape;
  key.words = {t.x.type, s.groups, p.accumulate, p.bias != nullptr,
               p.bias ? alignment_of(p.bias) : 0};
  for (const CudnnTensor* one : {&t.x, &t.w, &t.y}) {
    key.words.push_back(one->alignment);
    key.words.insert(key.words.end(), one->dims, one->dims + one->ndim);
    key.words.insert(key.words.end(), one->strides, one->strides + one->ndim);
  }
  for (int d = first_axis(s); d < 3; ++d)
    for (const i64 w : {s.stride[d], s.padding[d], padding_behind(s, d), s.dilation[d]})
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
  for (int d = 0; d < 3; ++d) behind[d] = padding_behind(s, d);

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
  CudnnTensor sum = t.y;
  if (p.bias) sum.id = kSum, sum.type = kCudnnFloat, sum.is_virtual = true, sum.alignment = 16;
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
  bias.alignment = alignment_of(p.bias);
  for (int d = 0; d < sum.ndim; ++d) bias.dims[d] = 1, bias.strides[d] = 1;
  bias.dims[1] = sum.dims[1], bias.strides[0] = sum.dims[1];
  CudnnDescriptor mode(graph.api(), kCudnnPointwise);
  mode.set(kPointwiseMode, kTypePointwiseMode, kPointwiseAdd);
  mode.set(kPointwiseMathPrecision, kTypeDataType, kCudnnFloat);
  mode.finalize();
  CudnnDescriptor add(graph.api(), kCudnnPointwiseOperation);
  add.set(kPointwiseDescriptor, graph.keep(std::move(mode)));
  add.set(kPointwiseX, y);
  add.set(kPointwiseB, graph.tensor(bias));
  add.set(kPointwiseY, graph.tensor(t.y));
  graph.operation(std::move(add));
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
    const i64 left =
        s.in[d] + s.padding[d] + padding_behind(s, d) - ((s.kernel[d] - 1) * s.dilation[d] + 1);
    if (left < 0 || left / s.stride[d] + 1 != s.out[d])
      return "takes no image of which a kernel's step at the end is left out";
  }
  const Tensors t = tensors_of(p);
  for (const CudnnTensor* one : {&t.x, &t.w, &t.y})
    for (int d = 0; d < one->ndim; ++d) {
      if (one->strides[d] <= 0) return "takes no operand that repeats or goes backwards";
      if (one->dims[d] > INT32_MAX) return "takes sizes below 2^31 only";
    }
  return cudnn_why_not();  // last: it looks for the library
}

// The best of our own kernels, with the workspace that it asks for.
template <class Args>
WT_COLD void launch_own(const Args& a, Launch l, const std::string& reason) {
  const char* contract = ContractTable<Args>::kName;
  const Variants<Args>* list = ContractTable<Args>::rows[int(l.device.kind)];
  const Variant<Args>* best = nullptr;
  int score = -1;
  for (int i = 0; list && i < list->count; ++i) {
    const Variant<Args>& v = list->rows[i];
    if (std::string_view(v.name) == "cudnn" || refusal(v, a, l.device)) continue;
    const int rank = v.rank_of ? v.rank_of(a) : v.rank;
    if (rank > score) best = &v, score = rank;
  }
  if (!best) throw NotAvailable(str("[", contract, "] cuDNN cannot: ", reason));
  warn_once(str(contract, " without cuDNN"),
            str("[", contract, "] cuDNN cannot: ", reason, "; our own kernel \"", best->name,
                "\" computes here (and for every such convolution)"));
  const CategoryScope scope(Category::workspace);
  const i64 bytes = best->workspace ? best->workspace(a) : 0;
  Storage* workspace = bytes ? allocate(l.device, bytes) : nullptr;
  struct Free {
    Storage* s;
    ~Free() {
      if (s) release(s);
    }
  } free{workspace};
  l.workspace = workspace ? workspace->data : nullptr;
  best->launch(a, l);
}

// False when cuDNN cannot, and nothing was queued.
bool convolve(const Problem& p, const Launch& l, std::string& reason) {
  const Tensors t = tensors_of(p);
  CudnnPlan& plan = cudnn_plan(l.device, key_of(p, t), p.shape.dtype == DType::f32, describe, &p);
  bool done = false;
  if (plan.why_not.empty()) {
    // The size of a plan is known on its device alone, so it is asked for here.
    const CategoryScope scope(Category::workspace);
    Storage* workspace = plan.workspace ? allocate(l.device, plan.workspace) : nullptr;
    struct Free {
      Storage* s;
      ~Free() {
        if (s) release(s);
      }
    } free{workspace};
    const i64 ids[] = {kX, kW, kY, kBias};
    void* pointers[] = {p.x.data, p.w.data, p.y.data, const_cast<void*>(p.bias)};
    done = cudnn_run(plan, l.device, l.stream, p.bias ? 4 : 3, ids, pointers,
                     workspace ? workspace->data : nullptr);
  }
  if (!done) reason = plan.why_not;
  return done;
}

template <class Args>
void launch(const Args& a, const Launch& l) {
  std::string reason;
  if (!convolve(problem_of(a), l, reason)) launch_own(a, l, reason);
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
