// Depthwise convolutions of small planes, or with a stride, f32 and f64: each plane has too few
// vectors of neighbours. Images are turned to channels side by side, where a vector has as many
// channels, some images at a time, and the direct variant's results are turned back.
#include <algorithm>

#include "warptape/core/device.h"
#include "warptape/kernels/conv/conv_turn_cpu.h"
#include "warptape/kernels/cpu/threads.h"

namespace wt {

namespace {

constexpr i64 kPartBytes = 1 << 20;      // of turned images at a time: of a second-level cache
constexpr i64 kTurnedAThread = 1 << 14;  // elements that are worth waking a thread

i64 round_up(i64 v, i64 step) { return (v + step - 1) / step * step; }
i64 product(const i64 (&size)[3]) { return size[0] * size[1] * size[2]; }

// Images of x and of y with channels inside, one after the other in the workspace, then that of the
// direct variant.
struct Turned {
  i64 x_image, y_image;  // elements
  i64 images;            // in a part
  i64 bytes;             // of both
};
Turned turned(const ConvShape& s) {
  Turned t{s.in_channels * product(s.in), s.out_channels * product(s.out), 0, 0};
  const i64 item = item_size(s.dtype);
  t.images = std::clamp<i64>(kPartBytes / ((t.x_image + t.y_image) * item), 1, s.batch);
  t.bytes = round_up(t.images * (t.x_image + t.y_image) * item, 64);
  return t;
}
ConvTensor laid(void* data, const i64 (&size)[3], i64 channels) {
  return {data,
          product(size) * channels,
          1,
          {size[1] * size[2] * channels, size[2] * channels, channels}};
}

// The first part's problem in the workspace.
template <class Args>
Args part_of(const Args& a, const Turned& t, void* workspace) {
  Args part = a;
  const ConvShape& s = a.shape;
  part.shape.batch = t.images;
  part.x = laid(workspace, s.in, s.in_channels);
  part.y = laid(static_cast<char*>(workspace) + t.images * t.x_image * item_size(s.dtype), s.out,
                s.out_channels);
  return part;
}

enum class Way : u8 { in, out };
// Images [n0, n0 + images) of `t` to or from those that lie in `part`.
template <class T>
void turn(Way way, const ConvTensor& t, const ConvTensor& part, const i64 (&size)[3], i64 channels,
          i64 n0, i64 images) {
  const i64 image = product(size) * channels;
  const i64 threads = std::min<i64>(num_threads(), images * image / kTurnedAThread + 1);
  parallel(int(threads), int(images), [&](int i, int) {
    T* const there = static_cast<T*>(t.data) + (n0 + i) * t.batch;
    T* const here = static_cast<T*>(part.data) + i * image;
    way == Way::in ? conv_turn_in<T>(there, t, size, channels, here)
                   : conv_turn_out<T>(here, t, size, channels, there);
  });
}
template <class Args>
void turn(Way way, const Args& a, const ConvTensor Args::*which, const Args& part, i64 n0) {
  const ConvShape& s = a.shape;
  const bool x = which == &Args::x;
  (s.dtype == DType::f32 ? turn<float> : turn<double>)(way, a.*which, part.*which, x ? s.in : s.out,
                                                       x ? s.in_channels : s.out_channels, n0,
                                                       part.shape.batch);
}

// run(part, n0) for parts of the batch.
template <class Args, class Run>
void in_parts(const Args& a, const Launch& l, Run run) {
  const Turned t = turned(a.shape);
  Args part = part_of(a, t, l.workspace);
  Launch inner = l;
  inner.workspace = static_cast<char*>(l.workspace) + t.bytes;
  for (i64 n0 = 0; n0 < a.shape.batch; n0 += t.images) {
    part.shape.batch = std::min(t.images, a.shape.batch - n0);
    run(part, inner, n0);
  }
}

const char* why_not(const ConvShape& s, const ConvTensor& x, const ConvTensor& y) {
  if (const char* why = conv_direct_why_not(s)) return why;
  if (s.groups == 1 || s.in_group() != 1 || s.out_group() != 1)
    return "takes as many groups as channels only";
  if (conv_channels_inside(x, s.in_channels) || conv_channels_inside(y, s.out_channels) ||
      !conv_can_turn(x, s.in, s.in_channels) || !conv_can_turn(y, s.out, s.out_channels))
    return "takes planes only";
  return nullptr;
}

// Ahead of the direct one's 20 where it was measured to be: that adds up a weight's gradient, and
// goes through strided rows, by parts of vectors.
int rank(const ConvShape& s, bool weight) {
  constexpr i64 kFewPositions = 100, kNotMany = 1024, kVector = 8;
  const bool in_parts = weight || s.stride[1] > 1 || s.stride[2] > 1;
  return s.in_channels >= kVector && product(s.in) <= (in_parts ? kNotMany : kFewPositions) ? 25
                                                                                            : 15;
}

}  // namespace

const char* conv_turned_why_not(const ConvForwardArgs& a) { return why_not(a.shape, a.x, a.y); }
const char* conv_turned_why_not(const ConvBackwardInputArgs& a) {
  return why_not(a.shape, a.x, a.y);
}
const char* conv_turned_why_not(const ConvBackwardWeightArgs& a) {
  return why_not(a.shape, a.x, a.y);
}
int conv_turned_rank(const ConvForwardArgs& a) { return rank(a.shape, false); }
int conv_turned_rank(const ConvBackwardInputArgs& a) { return rank(a.shape, false); }
int conv_turned_rank(const ConvBackwardWeightArgs& a) { return rank(a.shape, true); }

i64 conv_turned_workspace(const ConvForwardArgs& a) {
  const Turned t = turned(a.shape);
  return t.bytes + conv_direct_forward_workspace(part_of(a, t, nullptr));
}
i64 conv_turned_workspace(const ConvBackwardInputArgs& a) {
  const Turned t = turned(a.shape);
  return t.bytes + conv_direct_input_workspace(part_of(a, t, nullptr));
}
i64 conv_turned_workspace(const ConvBackwardWeightArgs& a) {
  const Turned t = turned(a.shape);
  return t.bytes + conv_direct_weight_workspace(part_of(a, t, nullptr));
}

void conv_turned_forward(const ConvForwardArgs& a, const Launch& l) {
  in_parts(a, l, [&](const ConvForwardArgs& part, const Launch& inner, i64 n0) {
    turn(Way::in, a, &ConvForwardArgs::x, part, n0);
    conv_direct_forward(part, inner);
    turn(Way::out, a, &ConvForwardArgs::y, part, n0);
  });
}
void conv_turned_input(const ConvBackwardInputArgs& a, const Launch& l) {
  in_parts(a, l, [&](const ConvBackwardInputArgs& part, const Launch& inner, i64 n0) {
    turn(Way::in, a, &ConvBackwardInputArgs::y, part, n0);
    conv_direct_input(part, inner);
    turn(Way::out, a, &ConvBackwardInputArgs::x, part, n0);
  });
}
void conv_turned_weight(const ConvBackwardWeightArgs& a, const Launch& l) {
  in_parts(a, l, [&](ConvBackwardWeightArgs part, const Launch& inner, i64 n0) {
    turn(Way::in, a, &ConvBackwardWeightArgs::x, part, n0);
    turn(Way::in, a, &ConvBackwardWeightArgs::y, part, n0);
    part.accumulate |= n0 > 0;
    part.accumulate_y_sum |= n0 > 0;
    conv_direct_weight(part, inner);
  });
}

}  // namespace wt
