// Batch norm's elementwise halves through cuDNN's graphs: y of x and its statistics, and x's
// gradient of the sums. They are written out, step by step, and fused by cuDNN.
//
// The two contracts that add up have no variant here, as no graph equals them. channel_stats:
// cuDNN's batch norm writes y beside the statistics, twice the bytes of ours, and keeps nothing of
// what rounding left of the mean; sum and sum of squares cancel where the mean is large; and for
// deviations from a mean of the same graph cuDNN 9.19 and 9.26 have no engine. channel_norm_sums:
// for two sums in a graph, channels last, they have one that may add in any order; asked to repeat
// itself (an attribute of a reduction) it does not compile.
#include "warptape/kernels/channel_norm.h"
#include "warptape/kernels/copy.h"
#include "warptape/kernels/cuda/cudnn_variant.h"
#include "warptape/kernels/run.h"

namespace wt {
namespace {

enum Id : i64 { kX = 1, kGy, kOut, kMean, kRest, kRstd, kWeight, kBias, kSum, kProducts, kShare };

enum class Layout { none, planes, columns };  // innermost: the inside of a channel, or channels
Layout layout_of(const View& v) {
  if (v.dense()) return Layout::planes;
  const i64 channels = v.size(1), inside = v.size(2);
  const auto is = [&](int axis, i64 stride) {
    return v.size(axis) == 1 || v.stride(axis) == stride;
  };
  return is(0, channels * inside) && is(1, 1) && is(2, channels) ? Layout::columns : Layout::none;
}

// cuDNN's elementwise engines know rows of a matrix (three axes) and images with channels last
// (four); the same tensor under other axes has no engine.
struct Axes {
  Layout layout;
  i64 samples, channels, inside;
  int type;
  Axes(const View& x, Layout layout)
      : layout(layout),
        samples(x.size(0)),
        channels(x.size(1)),
        inside(x.size(2)),
        type(cudnn_type(x.dtype())) {}
  CudnnTensor image(i64 id, const void* data) const {
    CudnnTensor t;
    if (layout == Layout::planes) {
      t = CudnnTensor::packed(id, type, {samples, channels, inside});
    } else {
      t = CudnnTensor::packed(id, type, {samples, channels, inside, 1});
      t.strides[1] = 1, t.strides[2] = t.strides[3] = channels;
    }
    t.alignment = cudnn_alignment(data);
    return t;
  }
  CudnnTensor step() const { return image(0, nullptr).step(); }
  // A number a channel: f32, or of the image's type.
  CudnnTensor channel(i64 id, const void* data, int its_type = kCudnnFloat) const {
    CudnnTensor t = layout == Layout::planes
                        ? CudnnTensor::packed(id, its_type, {1, channels, 1})
                        : CudnnTensor::packed(id, its_type, {1, channels, 1, 1});
    if (layout == Layout::columns) t.strides[1] = 1, t.strides[2] = t.strides[3] = channels;
    t.alignment = cudnn_alignment(data);
    return t;
  }
};

// [3, C] and [2, C], as their contracts have them.
const float* row_of(const View& v, int row) { return v.as<float>() + row * v.size(1); }

struct Problem {
  View x, stats, weight, bias, gy, sums, out;
  Axes axes;
  Activation activation;
};
Problem problem_of(const ChannelNormForwardArgs& a) {
  return {a.x, a.stats, a.weight, a.bias, {}, {}, a.y, Axes(a.x, layout_of(a.x)), a.activation};
}
Problem problem_of(const ChannelNormBackwardArgs& a) {
  return {a.x, a.stats, a.weight, {}, a.gy, a.sums, a.gx, Axes(a.x, layout_of(a.x)), a.activation};
}

// The tensors in memory of the graph, with their pointers, in one place for the key and the run.
template <class F>
void each_operand(const Problem& p, F f) {
  const Axes& n = p.axes;
  const auto image = [&](Id id, const View& v) { f(n.image(id, v.data), v.data); };
  const auto channel = [&](Id id, const void* data, int type) {
    f(n.channel(id, data, type), data);
  };
  if (!p.gy || p.sums) {  // statistics that were constants: x is not read
    image(kX, p.x);
    channel(kMean, row_of(p.stats, 0), kCudnnFloat);
    channel(kRest, row_of(p.stats, 1), kCudnnFloat);
  }
  channel(kRstd, row_of(p.stats, 2), kCudnnFloat);
  if (p.gy) image(kGy, p.gy);
  if (p.weight) channel(kWeight, p.weight.data, n.type);
  if (p.bias) channel(kBias, p.bias.data, n.type);
  if (p.sums) channel(kSum, row_of(p.sums, 0), kCudnnFloat);
  if (p.sums) channel(kProducts, row_of(p.sums, 1), kCudnnFloat);
  image(kOut, p.out);
}

void describe(CudnnGraph& graph, const void* problem) {
  const Problem& p = *static_cast<const Problem*>(problem);
  const CudnnTensor step = p.axes.step();
  CudnnTensor out;
  const CudnnDescriptor* in[kShare + 1] = {};
  each_operand(p, [&](const CudnnTensor& t, const void*) {
    t.id == kOut ? void(out = t) : void(in[t.id] = &graph.tensor(t));
  });
  using Ref = CudnnGraph::Ref;
  const CudnnDescriptor* last = nullptr;
  // The last of the steps that there are writes the result.
  int left = 1 + bool(p.weight) + bool(p.bias);
  const auto next = [&](CudnnPointwiseMode mode, Ref x, Ref b) {
    last = &graph.pointwise(mode, --left == 0 ? out : step, x, b);
  };
  const auto centred = [&]() -> Ref {
    return graph.pointwise(kPointwiseSub, step,
                           graph.pointwise(kPointwiseSub, step, *in[kX], *in[kMean]), *in[kRest]);
  };
  if (!p.gy) {
    next(kPointwiseMul, centred(), *in[kRstd]);
    if (p.weight) next(kPointwiseMul, *last, *in[kWeight]);
    if (p.bias) next(kPointwiseAdd, *last, *in[kBias]);
    return;
  }
  const CudnnDescriptor* g = in[kGy];
  if (p.sums) {
    // The weight, one number a channel, comes last.
    Ref h = graph.pointwise(kPointwiseMul, step, centred(), *in[kRstd]);
    Ref share = graph.tensor(CudnnTensor::number(kShare, step.ndim));
    Ref products = graph.pointwise(kPointwiseMul, step, h, *in[kProducts]);
    Ref both = graph.pointwise(kPointwiseAdd, step, products, *in[kSum]);
    Ref mean = graph.pointwise(kPointwiseMul, step, both, share);
    g = &graph.pointwise(kPointwiseSub, step, *g, mean);
  }
  next(kPointwiseMul, *g, *in[kRstd]);
  if (p.weight) next(kPointwiseMul, *last, *in[kWeight]);
}

const char* why_not(const Problem& p, i64 groups) {
  if (groups != 0) return "takes batch norm only";
  if (p.activation != Activation::none) return "has no activation behind the norm";
  const DType t = p.x.dtype();
  if (t != DType::f32 && t != DType::f16 && t != DType::bf16) return "takes f32, f16 and bf16 only";
  if (p.x.numel() == 0) return "takes no empty tensors";
  for (const View* v : {&p.x, &p.out, &p.gy}) {
    if (!*v) continue;
    if (p.axes.layout == Layout::none || layout_of(*v) != p.axes.layout)
      return "takes tensors without gaps in one order of their axes only";
  }
  if (p.out.data == p.x.data) return "writes its result beside its operands only";
  if (const char* why = cudnn_why_not(p.axes.step())) return why;
  return cudnn_why_not();  // last: it looks for the library
}

template <class Args>
void launch(const char* name, const Args& a, const Launch& l) {
  Problem p = problem_of(a);
  // gx in gy's memory: nothing says that an engine may write what it reads, so it reads a copy.
  const bool in_place = p.gy && p.out.data == p.gy.data;
  const CudnnWorkspace copy(l.device, in_place ? p.gy.bytes() : 0);
  if (in_place) {
    const View from = p.gy;
    p.gy.data = copy.data();
    run(CopyArgs{p.gy, from}, l);
  }
  // Nothing is multiplied but element by element, so an engine has nothing to round to TF32 that
  // its note of tensor cores, which every engine that fuses steps has, could mean.
  CudnnCall call{.key = {name, {p.axes.type, p.axes.layout == Layout::planes}},
                 .describe = describe,
                 .problem = &p};
  each_operand(p, [&](const CudnnTensor& t, const void* data) {
    call.key.words.push_back(t.id);
    call.key.add(t);
    call.bind(t.id, data);
  });
  const float share = 1.0f / float(p.axes.samples * p.axes.inside);
  if (p.sums) call.bind(kShare, &share);
  std::string reason;
  if (!cudnn_compute(call, l, reason)) launch_without_cudnn(a, l, reason);
}

}  // namespace

const char* channel_norm_forward_cudnn_why_not(const ChannelNormForwardArgs& a) {
  return why_not(problem_of(a), a.groups);
}
const char* channel_norm_backward_cudnn_why_not(const ChannelNormBackwardArgs& a) {
  return why_not(problem_of(a), a.groups);
}
void channel_norm_forward_cudnn(const ChannelNormForwardArgs& a, const Launch& l) {
  launch("channel_norm_forward", a, l);
}
void channel_norm_backward_cudnn(const ChannelNormBackwardArgs& a, const Launch& l) {
  launch("channel_norm_backward", a, l);
}

}  // namespace wt
