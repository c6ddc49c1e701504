// The contracts that are graded: how the arguments of each are made of a Case. Both ends of the
// pipe include this: the student's side to launch, the grader's to ask for bytes(). Internal.
#pragma once
#include "warptape/kernels/channel_norm.h"
#include "warptape/kernels/conv.h"
#include "warptape/kernels/copy.h"
#include "warptape/kernels/cross_entropy.h"
#include "warptape/kernels/grad_norm.h"
#include "warptape/kernels/image_batch.h"
#include "warptape/kernels/layer_norm.h"
#include "warptape/kernels/matmul.h"
#include "warptape/kernels/optim_rule.h"
#include "warptape/kernels/pointwise.h"
#include "warptape/kernels/reduce.h"
#include "warptape/kernels/softmax.h"
#include "warptape/labs/09_fused/bias_gelu.h"
#include "warptape/tools/grade/case.h"

// X(contract, arguments): those of the library,
#define WT_LIBRARY_CONTRACTS(X)                              \
  X(adamw_step, AdamwStepArgs)                               \
  X(add, PointwiseArgs<pw::Add>)                             \
  X(channel_norm_backward, ChannelNormBackwardArgs)          \
  X(channel_norm_forward, ChannelNormForwardArgs)            \
  X(channel_norm_sums, ChannelNormSumsArgs)                  \
  X(channel_stats, ChannelStatsArgs)                         \
  X(conv_forward, ConvForwardArgs)                           \
  X(copy, CopyArgs)                                          \
  X(cross_entropy_forward, CrossEntropyForwardArgs)          \
  X(gelu, PointwiseArgs<pw::Gelu>)                           \
  X(grad_norm, GradNormArgs)                                 \
  X(image_batch, ImageBatchArgs)                             \
  X(layer_norm_backward_input, LayerNormBackwardInputArgs)   \
  X(layer_norm_backward_params, LayerNormBackwardParamsArgs) \
  X(layer_norm_forward, LayerNormForwardArgs)                \
  X(matmul, MatmulArgs)                                      \
  X(max, MaxArgs)                                            \
  X(softmax_backward, SoftmaxBackwardArgs)                   \
  X(softmax_forward, SoftmaxForwardArgs)                     \
  X(step_decide, StepDecideArgs)                             \
  X(sum, SumArgs)
// and those that only a lab has.
#define WT_LAB_CONTRACTS(X)  \
  X(bias_gelu, BiasGeluArgs) \
  X(bias_gelu_backward, BiasGeluBackwardArgs)
#define WT_GRADED_CONTRACTS(X) \
  WT_LIBRARY_CONTRACTS(X)      \
  WT_LAB_CONTRACTS(X)

namespace wt::grade {

enum GradedContract : i32 {
#define WT_NUMBER(contract, ...) k_##contract,
  WT_GRADED_CONTRACTS(WT_NUMBER)
#undef WT_NUMBER
      kNumContracts
};

// v: a view of each operand, in the order of the case; absent ones are empty.
template <class Args>
struct ArgsOf;

template <>
struct ArgsOf<PointwiseArgs<pw::Add>> {  // out, a, b
  static PointwiseArgs<pw::Add> make(const Case&, const View* v) {
    PointwiseArgs<pw::Add> a;
    a.out = v[0], a.in[0] = v[1], a.in[1] = v[2];
    return a;
  }
};
template <>
struct ArgsOf<PointwiseArgs<pw::Gelu>> {  // out, x
  static PointwiseArgs<pw::Gelu> make(const Case&, const View* v) {
    PointwiseArgs<pw::Gelu> a;
    a.out = v[0], a.in[0] = v[1];
    return a;
  }
};
template <>
struct ArgsOf<CopyArgs> {  // out, in
  static CopyArgs make(const Case&, const View* v) { return {.out = v[0], .in = v[1]}; }
};
template <>
struct ArgsOf<CrossEntropyForwardArgs> {  // loss_sum, weight, stats, logits, labels
  static CrossEntropyForwardArgs make(const Case& c, const View* v) {
    return {.loss_sum = v[0],
            .weight = v[1],
            .stats = v[2],
            .logits = v[3],
            .labels = v[4],
            .axis = int(c.integers[0]),
            .ignore_index = c.integers[1],
            .smoothing = c.reals[0]};
  }
};
template <>
struct ArgsOf<LayerNormForwardArgs> {  // y, stats, x, weight, bias
  static LayerNormForwardArgs make(const Case& c, const View* v) {
    return {.y = v[0], .stats = v[1], .x = v[2], .weight = v[3], .bias = v[4], .eps = c.reals[0]};
  }
};
template <>
struct ArgsOf<MaxArgs> {  // out, in
  static MaxArgs make(const Case& c, const View* v) {
    return {.out = v[0], .in = v[1], .mask = u32(c.integers[0]), .f = {c.integers[1] != 0}};
  }
};
template <>
struct ArgsOf<SumArgs> {  // out, in
  static SumArgs make(const Case& c, const View* v) {
    return {.out = v[0], .in = v[1], .mask = u32(c.integers[0]), .f = {c.integers[1], false}};
  }
};
template <>
struct ArgsOf<SoftmaxForwardArgs> {  // y, x
  static SoftmaxForwardArgs make(const Case& c, const View* v) {
    return {.y = v[0], .x = v[1], .axis = int(c.integers[0]), .log = c.integers[1] != 0};
  }
};
template <>
struct ArgsOf<SoftmaxBackwardArgs> {  // gx, gy, y
  static SoftmaxBackwardArgs make(const Case& c, const View* v) {
    return {
        .gx = v[0], .gy = v[1], .y = v[2], .axis = int(c.integers[0]), .log = c.integers[1] != 0};
  }
};
template <>
struct ArgsOf<LayerNormBackwardInputArgs> {  // gx, gy, x, stats, weight
  static LayerNormBackwardInputArgs make(const Case&, const View* v) {
    return {.gx = v[0], .gy = v[1], .x = v[2], .stats = v[3], .weight = v[4]};
  }
};
template <>
struct ArgsOf<LayerNormBackwardParamsArgs> {  // gweight, gbias, gy, x, stats
  static LayerNormBackwardParamsArgs make(const Case& c, const View* v) {
    const bool accumulate = c.integers[0] != 0;
    return {.gweight = v[0],
            .gbias = v[1],
            .gy = v[2],
            .x = v[3],
            .stats = v[4],
            .accumulate_weight = accumulate,
            .accumulate_bias = accumulate};
  }
};
template <>
struct ArgsOf<ChannelStatsArgs> {  // stats, variance, x
  static ChannelStatsArgs make(const Case& c, const View* v) {
    return {.stats = v[0], .variance = v[1], .x = v[2], .groups = c.integers[0], .eps = c.reals[0]};
  }
};
template <>
struct ArgsOf<ChannelNormForwardArgs> {  // y, x, stats, weight, bias
  static ChannelNormForwardArgs make(const Case& c, const View* v) {
    return {.y = v[0],
            .x = v[1],
            .stats = v[2],
            .weight = v[3],
            .bias = v[4],
            .groups = c.integers[0],
            .activation = Activation(c.integers[1])};
  }
};
template <>
struct ArgsOf<ChannelNormSumsArgs> {  // sums, gy, x, stats
  static ChannelNormSumsArgs make(const Case& c, const View* v) {
    return {.sums = v[0], .gy = v[1], .x = v[2], .stats = v[3], .groups = c.integers[0]};
  }
};
template <>
struct ArgsOf<ChannelNormBackwardArgs> {  // gx, gy, x, stats, weight, sums
  static ChannelNormBackwardArgs make(const Case& c, const View* v) {
    return {.gx = v[0],
            .gy = v[1],
            .x = v[2],
            .stats = v[3],
            .weight = v[4],
            .sums = v[5],
            .groups = c.integers[0]};
  }
};
template <>
struct ArgsOf<GradNormArgs> {  // partials, grad
  static GradNormArgs make(const Case&, const View* v) {
    return {
        .grad = v[1].data, .n = v[1].numel(), .dtype = v[1].dtype(), .partials = v[0].as<double>()};
  }
};
template <>
struct ArgsOf<StepDecideArgs> {  // norm, factor, partials
  static StepDecideArgs make(const Case& c, const View* v) {
    return {.partials = v[2].as<const double>(),
            .count = v[2].numel(),
            .max_norm = c.reals[0],
            .norm = v[0].as<double>(),
            .factor = v[1].as<double>(),
            .step = nullptr,
            .on_found = NonFinite::ignore,
            .mailbox = nullptr};
  }
};
template <>
struct ArgsOf<AdamwStepArgs> {  // param, m, v, the largest v, grad, block, grad_factor, flag
  static AdamwStepArgs make(const Case&, const View* v) {
    AdamwStepArgs a;
    a.param = v[0].data, a.grad = v[4].data, a.n = v[0].numel(), a.dtype = v[0].dtype();
    for (int k = 0; k < 3; ++k) a.state[k] = v[1 + k].data;
    a.block = v[5].as<const OptimBlock>();
    a.grad_factor = v[6].as<const double>();
    a.flags.flag[0] = v[7].as<const i32>();
    return a;
  }
};
template <>
struct ArgsOf<ConvForwardArgs> {  // y, x, w, bias; two axes
  static ConvTensor tensor(const View& v) {
    return {v.data, v.stride(0), v.stride(1), {0, v.stride(2), v.stride(3)}};
  }
  static ConvForwardArgs make(const Case& c, const View* v) {
    ConvForwardArgs a;
    a.y = tensor(v[0]), a.x = tensor(v[1]), a.w = tensor(v[2]), a.bias = v[3].data;
    ConvShape& s = a.shape;
    s.batch = v[1].size(0), s.in_channels = v[1].size(1), s.out_channels = v[0].size(1);
    s.groups = c.integers[3], s.dtype = v[0].dtype();
    for (int d = 0; d < 3; ++d) {
      s.in[d] = d ? v[1].size(d + 1) : 1, s.out[d] = d ? v[0].size(d + 1) : 1;
      s.kernel[d] = d ? v[2].size(d + 1) : 1;
      s.stride[d] = d ? c.integers[0] : 1, s.padding[d] = d ? c.integers[1] : 0;
      s.dilation[d] = d ? c.integers[2] : 1;
    }
    return a;
  }
};
template <>
struct ArgsOf<ImageBatchArgs> {  // out, targets, images, labels, order
  static ImageBatchArgs make(const Case& c, const View* v) {
    const i64* const n = c.integers;
    ImageBatchArgs a;
    a.out = v[0], a.images = v[2];
    a.targets = v[1].as<i64>(), a.labels = v[3].as<const i64>(), a.order = v[4].as<const i64>();
    a.shuffle = n[0] != 0, a.seed = u64(n[1]), a.epoch = n[2], a.place = n[3];
    a.augment.padding = i32(n[4]), a.augment.reflect = n[5] != 0;
    a.augment.random_crop = n[6] != 0, a.augment.hole = i32(n[7]);
    a.augment.mirror = float(c.reals[0]);
    for (int k = 0; k < kImageChannels; ++k)
      a.scale[k] = float(c.reals[1 + k]), a.shift[k] = float(c.reals[5 + k]);
    return a;
  }
};
template <>
struct ArgsOf<BiasGeluArgs> {  // x, bits, bias
  static BiasGeluArgs make(const Case&, const View* v) {
    return {.x = v[0], .bits = v[1], .bias = v[2]};
  }
};
template <>
struct ArgsOf<BiasGeluBackwardArgs> {  // g, y, bits
  static BiasGeluBackwardArgs make(const Case&, const View* v) {
    return {.g = v[0], .y = v[1], .bits = v[2]};
  }
};
template <>
struct ArgsOf<MatmulArgs> {  // out, a, b, bias; no batch
  static MatmulArgs make(const Case& c, const View* v) {
    MatmulArgs a;
    a.out = v[0].data, a.a = v[1].data, a.b = v[2].data, a.bias = v[3].data;
    a.m = v[0].size(0), a.n = v[0].size(1), a.k = v[1].size(1);
    a.out_row = v[0].stride(0);
    a.a_row = v[1].stride(0), a.a_column = v[1].stride(1);
    a.b_row = v[2].stride(0), a.b_column = v[2].stride(1);
    a.dtype = v[0].dtype();
    a.epilogue.activation = Activation(c.integers[0]);
    return a;
  }
};

}  // namespace wt::grade
