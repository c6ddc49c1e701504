// How the cpu's direct convolution goes through one problem. Internal to this room.
//
// Forward and transposed convolution are one thing here: every destination pixel is a sum over taps
// of source pixels at fixed offsets from it. With a stride, the source of a forward falls into
// stride^2 phases (positions with one remainder) and so does the destination of a transposed one;
// destination pixels of a phase have the same taps (a `Pass`), and source pixels of a phase that
// are neighbours there are `stride` apart in the image. No zeros are multiplied but those of the
// padding.
//
// The source of a band of destination rows is copied to a buffer with its padding, so that inner
// loops know no borders. In pixel order (NCHW, the source's channels one after the other) a row of
// a phase is contiguous, whatever the stride; in channel order (NHWC) a pixel's channels are.
#pragma once
#include <vector>

#include "warptape/kernels/conv/conv_cpu.h"

namespace wt {

struct ConvTap {
  i64 index;      // in the kernel
  i64 remainder;  // of its position, by the source's step
  i64 shift;      // its position / the source's step, from the destination pixel's own
};
struct ConvPhase {
  i64 first, count;  // destination positions first, first + out_step, ...
  int taps_begin, taps_end;
};
// One spatial axis.
struct ConvAxis {
  i64 source, destination;
  i64 in_step, out_step;
  i64 margin;     // buffer position 0 is source position -margin
  i64 max_shift;  // over all taps
  i64 reach;      // positions that the taps of a pixel span, at most
  std::vector<ConvPhase> phases;
  std::vector<ConvTap> taps;  // of each phase by rising position
};

struct ConvPass {
  const ConvPhase *y, *x;
  i64 depth;               // terms of a destination element
  i64 offsets, n_offsets;  // range of ConvPlan::offsets: of terms (pixel order) or of segments
  i64 terms;               // first of ConvPlan::terms
  i64 weights;             // first packed weight of a group
  i64 lanes[2];            // ranges of ConvPlan::lanes: for full bands, for the last one
};

struct ConvPlan {
  bool transposed;     // from y to x
  bool channel_order;  // of the destination (for the weight gradient: of x)
  bool depthwise;      // one channel a group, in channel order: groups count as channels
  bool in_place;       // channel order without padding: the source is read where it lies
  ConvTensor source, destination;
  i64 batch, groups, source_channels, channels;  // the latter two of one group
  i64 z_source, z_destination, z_kernel, z_stride, z_padding, z_dilation;
  ConvAxis y, x;
  i64 band, bands;       // destination rows (of a phase) in a band
  i64 rows, width;       // of the buffer (pixel order: of a phase), in pixels
  i64 pixel;             // channel order: elements from a pixel to the next
  i64 row_step, z_step;  // channel order: elements from a row, a slice to the next
  i64 segment;           // channel order: terms of a run
  i64 buffer;            // elements
  i64 weights;           // packed weights of a group
  bool direct;           // pixel order: destination rows follow each other without gaps
  std::vector<ConvPass> passes;
  std::vector<i64> offsets;  // see ConvPass
  std::vector<i64> terms;    // where a term's weight lies, from the group's first
  std::vector<ConvLanes> lanes;

  i64 padded_channels(int panel) const { return (channels + panel - 1) / panel * panel; }
};

struct ConvBanding {
  i64 buffer_size;  // elements at most, if a band can be that small
  i64 tasks;        // at least, if there are as many rows
  i64 rows;         // at most; 0: any
};
// Fills `plan`, whose vectors keep their memory from call to call, for vectors of `lanes` elements.
void plan_conv(ConvPlan& plan, const ConvShape& s, const ConvTensor& source,
               const ConvTensor& destination, const ConvTensor& w, bool transposed,
               bool channel_order, const ConvBanding& banding, int lanes);

// Where band `b` of slice z of image n and group g is: the source, in the buffer or where it lies.
struct ConvBand {
  i64 n, group, z, band;
};
template <class T>
const T* fill_conv_buffer(const ConvPlan& plan, const ConvBand& b, T* buffer);

// Of a tensor: channels lie side by side.
bool conv_channels_last(const ConvTensor& t, i64 channels);
// 1-d problems along the rows: bands then cut them.
void turn_1d(ConvShape& s, ConvTensor& a, ConvTensor& b, ConvTensor& c);

}  // namespace wt
