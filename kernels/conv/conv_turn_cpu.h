// Images between planes and channels side by side, for kernels that read the latter. Internal to
// this room.
#pragma once
#include "warptape/kernels/conv/conv_cpu.h"

namespace wt {

inline bool conv_channels_inside(const ConvTensor& t, i64 channels) {
  return t.channel == 1 || channels == 1;
}
// Channels side by side, or the pixels of a row: what the two below read and write.
inline bool conv_can_turn(const ConvTensor& t, const i64 (&size)[3], i64 channels) {
  return conv_channels_inside(t, channels) || t.at[2] == 1 || size[2] == 1;
}

// f(positions, offset in t, offset in a copy with channels inside) for runs of positions that lie
// one after the other in both.
template <class F>
void conv_for_runs(const ConvTensor& t, const i64 (&size)[3], F&& f) {
  const bool plane = size[1] == 1 || t.at[1] == size[2];
  const i64 rows = plane ? 1 : size[1], run = plane ? size[1] * size[2] : size[2];
  for (i64 z = 0; z < size[0]; ++z)
    for (i64 y = 0; y < rows; ++y)
      f(run, z * t.at[0] + y * t.at[1], z * size[1] * size[2] + y * run);
}

// An image in planes (at[2] = 1) to channels inside without gaps, and back.
template <class T>
void conv_turn_in(const T* from, const ConvTensor& t, const i64 (&size)[3], i64 channels, T* to) {
  conv_for_runs(t, size, [&](i64 run, i64 at, i64 copy) {
    conv_kernels<T>().planes_of(to + copy * channels, channels, from + at, t.channel, channels,
                                run);
  });
}
template <class T>
void conv_turn_out(const T* from, const ConvTensor& t, const i64 (&size)[3], i64 channels, T* to) {
  conv_for_runs(t, size, [&](i64 run, i64 at, i64 copy) {
    conv_kernels<T>().planes_of(to + at, t.channel, from + copy * channels, channels, run,
                                channels);
  });
}

inline i64 conv_positions(const i64 (&size)[3]) { return size[0] * size[1] * size[2]; }

// Images with channels inside: a tensor's from `first` on where they lie, or turned ones.
template <class T>
struct ConvImages {
  T* data;
  i64 image, at[3];
  T* of(const i64 (&p)[3]) const { return data + p[0] * at[0] + p[1] * at[1] + p[2] * at[2]; }
};
template <class T>
ConvImages<T> conv_images_of(const ConvTensor& t, const i64 (&size)[3], i64 channels, i64 first,
                             T* turned) {
  if (conv_channels_inside(t, channels))
    return {static_cast<T*>(t.data) + first * t.batch, t.batch, {t.at[0], t.at[1], t.at[2]}};
  const i64 row = size[2] * channels;
  return {turned, conv_positions(size) * channels, {size[1] * row, row, channels}};
}

inline i64 conv_round_up(i64 v, i64 step) { return (v + step - 1) / step * step; }

// A convolution or a transposed one: sums over the channels of source positions.
template <class T>
struct ConvSums {
  const ConvShape& s;
  ConvTensor from, to, w;
  const T* bias;
  bool transposed;
  i64 depth, columns;            // channels of a source and of a destination position
  i64 depth_step, columns_step;  // in w
  const i64 (&source() const)[3] { return transposed ? s.out : s.in; }
  const i64 (&destination() const)[3] { return transposed ? s.in : s.out; }
};
template <class T>
ConvSums<T> conv_sums(const ConvForwardArgs& a) {
  const ConvShape& s = a.shape;
  return {s,
          a.x,
          a.y,
          a.w,
          static_cast<const T*>(a.bias),
          false,
          s.in_channels,
          s.out_channels,
          a.w.channel,
          a.w.batch};
}
template <class T>
ConvSums<T> conv_sums(const ConvBackwardInputArgs& a) {
  const ConvShape& s = a.shape;
  return {s,
          a.y,
          a.x,
          a.w,
          static_cast<const T*>(a.bias),
          true,
          s.out_channels,
          s.in_channels,
          a.w.batch,
          a.w.channel};
}

}  // namespace wt
