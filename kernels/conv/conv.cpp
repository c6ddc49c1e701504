// Convolution on the cpu: the references and the lists of variants. conv/conv_direct_cpu.cpp has
// the one that takes nearly all; faster where they fit: conv_matmul_cpu.cpp for kernels as large as
// the image or as a pixel, conv_images_cpu.cpp for small planes, conv_turned_cpu.cpp for depthwise
// ones in planes, conv_weight_packed_cpu.cpp. conv_widened_cpu.cpp has 16-bit floats.
#include "warptape/kernels/conv.h"

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/common/slow_reference.h"
#include "warptape/kernels/conv/conv_cpu.h"
#include "warptape/kernels/dispatch/run_matmul_epilogue.h"

namespace wt {

namespace {

// Element [i, c, at] of t.
template <class T>
T& element(const ConvTensor& t, i64 i, i64 c, const i64* at) {
  return static_cast<T*>(
      t.data)[i * t.batch + c * t.channel + at[0] * t.at[0] + at[1] * t.at[1] + at[2] * t.at[2]];
}

// f(n, c) for every image and channel.
template <class F>
void for_batch(i64 batch, i64 channels, F&& f) {
  for (i64 n = 0; n < batch; ++n)
    for (i64 c = 0; c < channels; ++c) f(n, c);
}

// f(at) for every position of a box, in C order.
template <class F>
void for_box(const i64 (&size)[3], F&& f) {
  i64 at[3];
  for (at[0] = 0; at[0] < size[0]; ++at[0])
    for (at[1] = 0; at[1] < size[1]; ++at[1])
      for (at[2] = 0; at[2] < size[2]; ++at[2]) f(at);
}

template <class T>
void forward(const ConvForwardArgs& a) {
  const ConvShape& s = a.shape;
  const T* bias = static_cast<const T*>(a.bias);
  for_batch(s.batch, s.out_channels, [&](i64 n, i64 o) {
    const i64 first = o / s.out_group() * s.in_group();
    for_box(s.out, [&](const i64* q) {
      ComputeType<T> sum = 0;
      for (i64 c = 0; c < s.in_group(); ++c)
        for_box(s.kernel, [&](const i64* k) {
          i64 p[3];
          if (conv_input_position(s, q, k, p))
            sum += ComputeType<T>(element<T>(a.x, n, first + c, p)) *
                   ComputeType<T>(element<T>(a.w, o, c, k));
        });
      if (bias) sum += ComputeType<T>(bias[o]);
      element<T>(a.y, n, o, q) = T(sum);
    });
  });
}

template <class T>
void backward_input(const ConvBackwardInputArgs& a) {
  const ConvShape& s = a.shape;
  const T* bias = static_cast<const T*>(a.bias);
  for_batch(s.batch, s.in_channels, [&](i64 n, i64 channel) {
    const i64 c = channel % s.in_group(), first = channel / s.in_group() * s.out_group();
    for_box(s.in, [&](const i64* p) {
      ComputeType<T> sum = 0;
      for (i64 o = first; o < first + s.out_group(); ++o)
        for_box(s.kernel, [&](const i64* k) {
          i64 q[3];
          if (conv_output_position(s, p, k, q))
            sum +=
                ComputeType<T>(element<T>(a.y, n, o, q)) * ComputeType<T>(element<T>(a.w, o, c, k));
        });
      if (bias) sum += ComputeType<T>(bias[channel]);
      element<T>(a.x, n, channel, p) = T(sum);
    });
  });
}

template <class T>
void backward_weight(const ConvBackwardWeightArgs& a) {
  const ConvShape& s = a.shape;
  T* const y_sum = static_cast<T*>(a.y_sum);
  for (i64 o = 0; o < s.out_channels; ++o) {
    const i64 first = o / s.out_group() * s.in_group();
    for (i64 c = 0; c < s.in_group(); ++c)
      for_box(s.kernel, [&](const i64* k) {
        ComputeType<T> sum = 0;
        for (i64 n = 0; n < s.batch; ++n)
          for_box(s.out, [&](const i64* q) {
            i64 p[3];
            if (conv_input_position(s, q, k, p))
              sum += ComputeType<T>(element<T>(a.y, n, o, q)) *
                     ComputeType<T>(element<T>(a.x, n, first + c, p));
          });
        T& w = element<T>(a.w, o, c, k);
        w = T(a.accumulate ? ComputeType<T>(w) + sum : sum);
      });
    if (!y_sum) continue;
    ComputeType<T> sum = 0;
    for (i64 n = 0; n < s.batch; ++n)
      for_box(s.out, [&](const i64* q) { sum += ComputeType<T>(element<T>(a.y, n, o, q)); });
    y_sum[o] = T(a.accumulate_y_sum ? ComputeType<T>(y_sum[o]) + sum : sum);
  }
}

void forward_reference(const ConvForwardArgs& a, const Launch&) {
  dispatch_floating(a.shape.dtype, [&]<class T>() { forward<T>(a); });
}
void backward_input_reference(const ConvBackwardInputArgs& a, const Launch&) {
  dispatch_floating(a.shape.dtype, [&]<class T>() { backward_input<T>(a); });
}
void backward_weight_reference(const ConvBackwardWeightArgs& a, const Launch&) {
  dispatch_floating(a.shape.dtype, [&]<class T>() { backward_weight<T>(a); });
}

template <class Args>
const char* direct_why_not(const Args& a) {
  return conv_direct_why_not(a.shape);
}
template <class Args>
const char* widened_why_not(const Args& a) {
  return conv_widened_why_not(a.shape);
}

}  // namespace

WT_VARIANTS(cpu, conv_forward, ConvForwardArgs,
            {.name = "matmul",
             .rank = 30,
             .why_not = conv_matmul_why_not,
             .rank_of = conv_matmul_rank,
             .workspace = conv_matmul_workspace,
             .launch = conv_matmul_forward},
            {.name = "winograd",
             .rank = 28,
             .why_not = conv_winograd_why_not,
             .rank_of = conv_winograd_rank,
             .workspace = conv_winograd_workspace,
             .launch = with_epilogue<conv_winograd_forward>},
            {.name = "images",
             .rank = 25,
             .why_not = conv_images_why_not,
             .rank_of = conv_images_rank,
             .workspace = conv_images_workspace,
             .launch = with_epilogue<conv_images_forward>},
            {.name = "turned",
             .rank = 25,
             .why_not = conv_turned_why_not,
             .rank_of = conv_turned_rank,
             .workspace = conv_turned_workspace,
             .launch = with_epilogue<conv_turned_forward>},
            {.name = "direct",
             .rank = 20,
             .why_not = direct_why_not<ConvForwardArgs>,
             .workspace = conv_direct_forward_workspace,
             .launch = with_epilogue<conv_direct_forward>},
            {.name = "widened",
             .rank = 10,
             .why_not = widened_why_not<ConvForwardArgs>,
             .workspace = conv_widened_workspace,
             .launch = with_epilogue<conv_widened_forward>},
            {.name = "reference",
             .rank = 1,
             .launch = told_if_slow<with_epilogue<forward_reference>>});

WT_VARIANTS(cpu, conv_backward_input, ConvBackwardInputArgs,
            {.name = "matmul",
             .rank = 30,
             .why_not = conv_matmul_why_not,
             .rank_of = conv_matmul_rank,
             .workspace = conv_matmul_workspace,
             .launch = conv_matmul_input},
            {.name = "winograd",
             .rank = 28,
             .why_not = conv_winograd_why_not,
             .rank_of = conv_winograd_rank,
             .workspace = conv_winograd_workspace,
             .launch = conv_winograd_input},
            {.name = "images",
             .rank = 25,
             .why_not = conv_images_why_not,
             .rank_of = conv_images_rank,
             .workspace = conv_images_workspace,
             .launch = conv_images_input},
            {.name = "turned",
             .rank = 25,
             .why_not = conv_turned_why_not,
             .rank_of = conv_turned_rank,
             .workspace = conv_turned_workspace,
             .launch = conv_turned_input},
            {.name = "direct",
             .rank = 20,
             .why_not = direct_why_not<ConvBackwardInputArgs>,
             .workspace = conv_direct_input_workspace,
             .launch = conv_direct_input},
            {.name = "widened",
             .rank = 10,
             .why_not = widened_why_not<ConvBackwardInputArgs>,
             .workspace = conv_widened_workspace,
             .launch = conv_widened_input},
            {.name = "reference", .rank = 1, .launch = told_if_slow<backward_input_reference>});

WT_VARIANTS(cpu, conv_backward_weight, ConvBackwardWeightArgs,
            {.name = "matmul",
             .rank = 30,
             .why_not = conv_matmul_why_not,
             .rank_of = conv_matmul_rank,
             .workspace = conv_matmul_workspace,
             .launch = conv_matmul_weight},
            {.name = "winograd",
             .rank = 28,
             .why_not = conv_winograd_why_not,
             .rank_of = conv_winograd_rank,
             .workspace = conv_winograd_workspace,
             .launch = conv_winograd_weight},
            {.name = "packed",
             .rank = 25,
             .why_not = conv_packed_weight_why_not,
             .rank_of = conv_packed_weight_rank,
             .workspace = conv_packed_weight_workspace,
             .launch = conv_packed_weight},
            {.name = "turned",
             .rank = 25,
             .why_not = conv_turned_why_not,
             .rank_of = conv_turned_rank,
             .workspace = conv_turned_workspace,
             .launch = conv_turned_weight},
            {.name = "direct",
             .rank = 20,
             .why_not = direct_why_not<ConvBackwardWeightArgs>,
             .workspace = conv_direct_weight_workspace,
             .launch = conv_direct_weight},
            {.name = "widened",
             .rank = 10,
             .why_not = widened_why_not<ConvBackwardWeightArgs>,
             .workspace = conv_widened_workspace,
             .launch = conv_widened_weight},
            {.name = "reference", .rank = 1, .launch = told_if_slow<backward_weight_reference>});

}  // namespace wt
