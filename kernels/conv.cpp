// Convolution on the cpu: the references and the lists of variants. cpu/conv_direct.cpp has the
// fast one.
#include "warptape/kernels/conv.h"

#include <algorithm>

#include "warptape/core/device.h"
#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/cpu/conv.h"
#include "warptape/kernels/cpu/threads.h"

namespace wt {

namespace {

constexpr double kWorkAThread = 2e5;  // multiplications that are worth waking a thread

// f(i) for every i in [0, n), on as many threads as the problem is worth.
template <class F>
void for_each(const ConvShape& s, i64 n, F&& f) {
  const int threads = int(std::min(double(num_threads()), s.flops() / 2 / kWorkAThread + 1));
  const i64 tasks = std::min<i64>(n, 1 << 16);
  parallel(threads, int(tasks), [&](int task, int) {
    for (i64 i = n * task / tasks; i < n * (task + 1) / tasks; ++i) f(i);
  });
}

// Element [i, c, at] of t.
template <class T>
T& element(const ConvTensor& t, i64 i, i64 c, const i64* at) {
  return static_cast<T*>(
      t.data)[i * t.batch + c * t.channel + at[0] * t.at[0] + at[1] * t.at[1] + at[2] * t.at[2]];
}

// f(at) for every position of a box, in C order.
template <class F>
void for_box(const i64 (&size)[3], F&& f) {
  i64 at[3];
  for (at[0] = 0; at[0] < size[0]; ++at[0])
    for (at[1] = 0; at[1] < size[1]; ++at[1])
      for (at[2] = 0; at[2] < size[2]; ++at[2]) f(at);
}

// p = q * stride - padding + k * dilation; false outside of x.
bool input_position(const ConvShape& s, const i64* q, const i64* k, i64* p) {
  for (int d = 0; d < 3; ++d) {
    p[d] = q[d] * s.stride[d] - s.padding[d] + k[d] * s.dilation[d];
    if (p[d] < 0 || p[d] >= s.in[d]) return false;
  }
  return true;
}
// The q that takes p by tap k; false where there is none.
bool output_position(const ConvShape& s, const i64* p, const i64* k, i64* q) {
  for (int d = 0; d < 3; ++d) {
    const i64 from = p[d] + s.padding[d] - k[d] * s.dilation[d];
    q[d] = from / s.stride[d];
    if (from < 0 || from % s.stride[d] != 0 || q[d] >= s.out[d]) return false;
  }
  return true;
}

template <class T>
void forward(const ConvForwardArgs& a) {
  const ConvShape& s = a.shape;
  if (s.y_numel() == 0) return;
  const T* bias = static_cast<const T*>(a.bias);
  for_each(s, s.batch * s.out_channels, [&](i64 task) {
    const i64 n = task / s.out_channels, o = task % s.out_channels;
    const i64 first = o / s.out_group() * s.in_group();
    for_box(s.out, [&](const i64* q) {
      ComputeType<T> sum = 0;
      for (i64 c = 0; c < s.in_group(); ++c)
        for_box(s.kernel, [&](const i64* k) {
          i64 p[3];
          if (input_position(s, q, k, p))
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
  if (s.x_numel() == 0) return;
  const T* bias = static_cast<const T*>(a.bias);
  for_each(s, s.batch * s.in_channels, [&](i64 task) {
    const i64 n = task / s.in_channels, channel = task % s.in_channels;
    const i64 c = channel % s.in_group(), first = channel / s.in_group() * s.out_group();
    for_box(s.in, [&](const i64* p) {
      ComputeType<T> sum = 0;
      for (i64 o = first; o < first + s.out_group(); ++o)
        for_box(s.kernel, [&](const i64* k) {
          i64 q[3];
          if (output_position(s, p, k, q))
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
  for_each(s, s.out_channels, [&](i64 o) {
    const i64 first = o / s.out_group() * s.in_group();
    for (i64 c = 0; c < s.in_group(); ++c)
      for_box(s.kernel, [&](const i64* k) {
        ComputeType<T> sum = 0;
        for (i64 n = 0; n < s.batch; ++n)
          for_box(s.out, [&](const i64* q) {
            i64 p[3];
            if (input_position(s, q, k, p))
              sum += ComputeType<T>(element<T>(a.y, n, o, q)) *
                     ComputeType<T>(element<T>(a.x, n, first + c, p));
          });
        T& w = element<T>(a.w, o, c, k);
        w = T(a.accumulate ? ComputeType<T>(w) + sum : sum);
      });
    if (!y_sum) return;
    ComputeType<T> sum = 0;
    for (i64 n = 0; n < s.batch; ++n)
      for_box(s.out, [&](const i64* q) { sum += ComputeType<T>(element<T>(a.y, n, o, q)); });
    y_sum[o] = T(a.accumulate_y_sum ? ComputeType<T>(y_sum[o]) + sum : sum);
  });
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

}  // namespace

WT_VARIANTS(cpu, conv_forward, ConvForwardArgs,
            {.name = "direct",
             .rank = 20,
             .why_not = direct_why_not<ConvForwardArgs>,
             .workspace = conv_direct_forward_workspace,
             .launch = conv_direct_forward},
            {.name = "reference", .rank = 1, .launch = forward_reference});

WT_VARIANTS(cpu, conv_backward_input, ConvBackwardInputArgs,
            {.name = "direct",
             .rank = 20,
             .why_not = direct_why_not<ConvBackwardInputArgs>,
             .workspace = conv_direct_input_workspace,
             .launch = conv_direct_input},
            {.name = "reference", .rank = 1, .launch = backward_input_reference});

WT_VARIANTS(cpu, conv_backward_weight, ConvBackwardWeightArgs,
            {.name = "direct",
             .rank = 20,
             .why_not = direct_why_not<ConvBackwardWeightArgs>,
             .workspace = conv_direct_weight_workspace,
             .launch = conv_direct_weight},
            {.name = "reference", .rank = 1, .launch = backward_weight_reference});

}  // namespace wt
