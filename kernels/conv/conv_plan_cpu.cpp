#include "warptape/kernels/conv/conv_plan_cpu.h"

#include <algorithm>
#include <cstring>

namespace wt {

namespace {

constexpr i64 kSlack = 4 * kConvLanes;  // elements behind a buffer that vectors may touch

i64 floor_div(i64 a, i64 b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
i64 ceil_div(i64 a, i64 b) { return -floor_div(-a, b); }

// --- axes ---

void plan_forward_axis(ConvAxis& a, i64 kernel, i64 stride, i64 padding, i64 dilation) {
  a.in_step = stride;
  a.out_step = 1;
  a.margin = padding;
  for (i64 j = 0; j < kernel; ++j)
    a.taps.push_back({j, j * dilation % stride, j * dilation / stride});
  a.phases.push_back({0, a.destination, 0, int(kernel)});
}

// Destination position i is t * stride + r - padding; tap j reaches it from source position
// t - (j * dilation - r) / stride, if that is whole.
void plan_transposed_axis(ConvAxis& a, i64 kernel, i64 stride, i64 padding, i64 dilation) {
  a.in_step = 1;
  a.out_step = stride;
  a.margin = INT64_MIN;
  for (i64 r = 0; r < stride; ++r) {
    const i64 first = ceil_div(padding - r, stride);
    const i64 last = floor_div(a.destination - 1 + padding - r, stride);
    if (last < first) continue;
    const int begin = int(a.taps.size());
    for (i64 j = kernel; j-- > 0;) {
      if (j * dilation % stride != r) continue;
      const i64 shift = first - (j * dilation - r) / stride;
      a.margin = std::max(a.margin, -shift);
      a.taps.push_back({j, 0, shift});
    }
    a.phases.push_back({first * stride + r - padding, last - first + 1, begin, int(a.taps.size())});
  }
  if (a.taps.empty()) a.margin = 0;
  for (ConvTap& t : a.taps) t.shift += a.margin;
}

void plan_axis(ConvAxis& a, const ConvShape& s, int axis, bool transposed) {
  a.source = transposed ? s.out[axis] : s.in[axis];
  a.destination = transposed ? s.in[axis] : s.out[axis];
  a.phases.clear();
  a.taps.clear();
  (transposed ? plan_transposed_axis : plan_forward_axis)(a, s.kernel[axis], s.stride[axis],
                                                          s.padding[axis], s.dilation[axis]);
  a.max_shift = a.reach = 0;
  for (const ConvTap& t : a.taps) {
    a.max_shift = std::max(a.max_shift, t.shift);
    a.reach = std::max(a.reach, t.shift * a.in_step + t.remainder + 1);
  }
}

i64 most(const ConvAxis& a) {
  i64 count = 0;
  for (const ConvPhase& p : a.phases) count = std::max(count, p.count);
  return count;
}

// No pixel reads outside of the source.
bool stays_inside(const ConvAxis& a) {
  for (const ConvPhase& p : a.phases)
    for (int i = p.taps_begin; i < p.taps_end; ++i) {
      const i64 at = a.taps[size_t(i)].shift * a.in_step + a.taps[size_t(i)].remainder - a.margin;
      if (at < 0 || at + (p.count - 1) * a.in_step >= a.source) return false;
    }
  return true;
}
bool z_stays_inside(const ConvPlan& p) {
  if (p.transposed)
    return p.z_kernel == 1 && p.z_stride == 1 && p.z_padding == 0 && p.z_source == p.z_destination;
  return p.z_padding == 0 &&
         (p.z_destination - 1) * p.z_stride + (p.z_kernel - 1) * p.z_dilation < p.z_source;
}

// --- bands and buffers ---

// Buffer rows for `band` destination rows.
i64 rows_for(const ConvPlan& p, i64 band) {
  return p.channel_order ? (band - 1) * p.y.in_step + p.y.reach : band + p.y.max_shift;
}
i64 phases_in(const ConvPlan& p) { return p.channel_order ? 1 : p.y.in_step * p.x.in_step; }

void plan_bands(ConvPlan& p, const ConvBanding& wanted) {
  const i64 rows = most(p.y), columns = most(p.x);
  p.width = p.channel_order ? (columns - 1) * p.x.in_step + p.x.reach : columns + p.x.max_shift;
  const i64 row = p.z_kernel * p.source_channels * phases_in(p) * p.width;
  i64 band = rows;
  if (wanted.rows) band = std::min(band, wanted.rows);
  while (band > 1 && row * rows_for(p, band) > wanted.buffer_size) band = (band + 1) / 2;
  const i64 others = p.batch * p.groups * p.z_destination;
  const i64 bands = std::min(rows, std::max((rows + band - 1) / band, wanted.tasks / others));
  p.band = (rows + bands - 1) / std::max<i64>(bands, 1);
  p.bands = (rows + p.band - 1) / p.band;
  p.rows = rows_for(p, p.band);
  p.buffer = row * p.rows + kSlack;
}

// --- terms and offsets ---

struct WeightSteps {
  i64 channel, z, y, x;
};

void plan_pixel_pass(ConvPlan& p, const ConvPass& pass, const WeightSteps& w) {
  const i64 plane = p.rows * p.width;
  for (i64 z = 0; z < p.z_kernel; ++z)
    for (i64 c = 0; c < p.source_channels; ++c)
      for (int i = pass.y->taps_begin; i < pass.y->taps_end; ++i)
        for (int j = pass.x->taps_begin; j < pass.x->taps_end; ++j) {
          const ConvTap &y = p.y.taps[size_t(i)], &x = p.x.taps[size_t(j)];
          const i64 phase = y.remainder * p.x.in_step + x.remainder;
          p.offsets.push_back(((z * p.source_channels + c) * phases_in(p) + phase) * plane +
                              y.shift * p.width + x.shift);
          p.terms.push_back(c * w.channel + z * w.z + y.index * w.y + x.index * w.x);
        }
}

void plan_channel_pass(ConvPlan& p, const ConvPass& pass, const WeightSteps& w) {
  const i64 taps_a_run = p.segment / p.source_channels;
  for (i64 z = 0; z < p.z_kernel; ++z)
    for (int i = pass.y->taps_begin; i < pass.y->taps_end; ++i) {
      const ConvTap& y = p.y.taps[size_t(i)];
      for (int j = pass.x->taps_begin; j < pass.x->taps_end; ++j) {
        const ConvTap& x = p.x.taps[size_t(j)];
        if ((j - pass.x->taps_begin) % taps_a_run == 0)
          p.offsets.push_back(z * p.z_step + (y.shift * p.y.in_step + y.remainder) * p.row_step +
                              (x.shift * p.x.in_step + x.remainder) * p.pixel);
        for (i64 c = 0; c < p.source_channels; ++c)
          p.terms.push_back(c * w.channel + z * w.z + y.index * w.y + x.index * w.x);
      }
    }
}

// Taps of a row that are neighbours in every phase make one run of terms.
i64 run_length(const ConvPlan& p) {
  if (p.pixel != p.source_channels) return p.source_channels;
  i64 taps = 0;
  for (const ConvPhase& phase : p.x.phases) {
    const i64 n = phase.taps_end - phase.taps_begin;
    if (taps != 0 && n != 0 && n != taps) return p.source_channels;
    taps = std::max(taps, n);
    for (int i = phase.taps_begin + 1; i < phase.taps_end; ++i) {
      const ConvTap &a = p.x.taps[size_t(i) - 1], &b = p.x.taps[size_t(i)];
      if ((b.shift - a.shift) * p.x.in_step + b.remainder - a.remainder != 1)
        return p.source_channels;
    }
  }
  return std::max<i64>(taps, 1) * p.source_channels;
}

// The lanes that are results, of each vector of a band's rows laid end to end.
void plan_lanes(ConvPlan& p, const ConvPass& pass, i64 rows, int width) {
  const i64 columns = pass.x->count, end = rows > 0 ? (rows - 1) * p.width + columns : 0;
  i64 stored = 0;
  for (i64 f = 0; f < end; f += width) {
    ConvLanes lanes{stored, 0, {}};
    for (i64 i = f; i < std::min(end, f + width); ++i)
      if (i % p.width < columns) lanes.lane[lanes.count++] = i32(i - f);
    stored += lanes.count;
    p.lanes.push_back(lanes);
  }
}

void plan_passes(ConvPlan& p, const WeightSteps& w, int lanes) {
  p.passes.clear();
  p.offsets.clear();
  p.terms.clear();
  p.lanes.clear();
  p.weights = 0;
  for (const ConvPhase& y : p.y.phases)
    for (const ConvPhase& x : p.x.phases) {
      ConvPass pass{&y, &x, 0, i64(p.offsets.size()), 0, i64(p.terms.size()), p.weights, {0, 0}};
      if (p.channel_order)
        plan_channel_pass(p, pass, w);
      else
        plan_pixel_pass(p, pass, w);
      pass.depth = i64(p.terms.size()) - pass.terms;
      pass.n_offsets = i64(p.offsets.size()) - pass.offsets;
      p.weights += pass.depth * (p.depthwise       ? 1
                                 : p.channel_order ? p.padded_channels(2 * lanes)
                                                   : p.channels);
      if (!p.channel_order) {
        pass.lanes[0] = i64(p.lanes.size());
        plan_lanes(p, pass, std::min(p.band, y.count), lanes);
        pass.lanes[1] = i64(p.lanes.size());
        plan_lanes(p, pass, y.count - (p.bands - 1) * p.band, lanes);
      }
      p.passes.push_back(pass);
    }
}

// --- the buffer ---

template <class T>
void zero(T* to, i64 n) {
  std::memset(to, 0, size_t(n) * sizeof(T));
}

// `count` elements `step` apart in the source; those outside of [0, size) are zero.
template <class T>
void fill_pixels(T* to, i64 count, const T* row, i64 stride, i64 first, i64 step, i64 size) {
  const i64 begin = std::clamp<i64>(first >= 0 ? 0 : ceil_div(-first, step), 0, count);
  const i64 end = std::clamp<i64>(first >= size ? 0 : ceil_div(size - first, step), begin, count);
  zero(to, begin);
  if (stride * step == 1)
    std::memcpy(to + begin, row + (first + begin), size_t(end - begin) * sizeof(T));
  else
    for (i64 j = begin; j < end; ++j) to[j] = row[(first + j * step) * stride];
  zero(to + end, count - end);
}

// A plane without steps, rows [begin, end) of which are inside of the source.
template <class T>
void fill_plane(const ConvPlan& p, const T* from, i64 begin, i64 end, T* to) {
  const i64 left = std::clamp<i64>(p.x.margin, 0, p.width);
  const i64 first = left - p.x.margin;  // in the source
  const i64 columns = std::clamp<i64>(p.x.source - first, 0, p.width - left);
  zero(to, begin * p.width);
  conv_kernels<T>().copy_rows(to + begin * p.width + left, p.width, from + first, p.source.at[1],
                              end - begin, columns);
  // After the copies, which write whole vectors. Rows of one pixel have nothing beside it.
  for (i64 i = begin; i < end && columns < p.width; ++i) {
    T* const row = to + i * p.width;
    for (i64 j = 0; j < left; ++j) row[j] = 0;
    for (i64 j = left + columns; j < p.width; ++j) row[j] = 0;
  }
  zero(to + end * p.width, (p.rows - end) * p.width);
}

template <class T>
void fill_pixel_order(const ConvPlan& p, const T* slice, i64 row0, T* to) {
  const bool dense = p.source.at[2] == 1 || p.x.source == 1;  // 1-d: rows of a pixel, of any step
  if (slice && p.y.in_step * p.x.in_step == 1 && dense) {
    const i64 y0 = row0 - p.y.margin;
    const i64 begin = std::clamp<i64>(-y0, 0, p.rows);
    const i64 end = std::clamp<i64>(p.y.source - y0, begin, p.rows);
    for (i64 c = 0; c < p.source_channels; ++c, to += p.rows * p.width)
      fill_plane(p, slice + c * p.source.channel + (y0 + begin) * p.source.at[1], begin, end, to);
    return;
  }
  for (i64 c = 0; c < p.source_channels; ++c)
    for (i64 a = 0; a < p.y.in_step; ++a)
      for (i64 b = 0; b < p.x.in_step; ++b)
        for (i64 i = 0; i < p.rows; ++i, to += p.width) {
          const i64 y = (row0 + i) * p.y.in_step + a - p.y.margin;
          if (slice && y >= 0 && y < p.y.source)
            fill_pixels(to, p.width, slice + c * p.source.channel + y * p.source.at[1],
                        p.source.at[2], b - p.x.margin, p.x.in_step, p.x.source);
          else
            zero(to, p.width);
        }
}

// Pixels of a row, each with its channels.
template <class T>
void copy_channels(const ConvPlan& p, const T* from, i64 pixels, T* to) {
  const i64 channels = p.source_channels, step = p.source.at[2];
  if (p.source.channel == 1 && step == channels) {
    std::memcpy(to, from, size_t(pixels * channels) * sizeof(T));
    return;
  }
  for (i64 j = 0; j < pixels; ++j, from += step, to += channels)
    for (i64 c = 0; c < channels; ++c) to[c] = from[c * p.source.channel];
}

template <class T>
void fill_channel_order(const ConvPlan& p, const T* slice, i64 row0, T* to) {
  const i64 channels = p.source_channels, left = -p.x.margin;
  const i64 begin = std::clamp<i64>(-left, 0, p.width);
  const i64 end = std::clamp<i64>(p.x.source - left, begin, p.width);
  for (i64 i = 0; i < p.rows; ++i, to += p.width * channels) {
    const i64 y = row0 * p.y.in_step + i - p.y.margin;
    if (!slice || y < 0 || y >= p.y.source) {
      zero(to, p.width * channels);
      continue;
    }
    zero(to, begin * channels);
    copy_channels(p, slice + y * p.source.at[1] + (left + begin) * p.source.at[2], end - begin,
                  to + begin * channels);
    zero(to + end * channels, (p.width - end) * channels);
  }
}

// The source slice that tap k of slice z reads; false where there is none.
bool source_slice(const ConvPlan& p, i64 z, i64 k, i64* slice) {
  if (!p.transposed) {
    *slice = z * p.z_stride - p.z_padding + k * p.z_dilation;
    return *slice >= 0 && *slice < p.z_source;
  }
  const i64 from = z + p.z_padding - k * p.z_dilation;
  *slice = from / p.z_stride;
  return from >= 0 && from % p.z_stride == 0 && *slice < p.z_source;
}

}  // namespace

bool conv_channels_last(const ConvTensor& t, i64 channels) {
  return channels > 1 && t.channel == 1;
}

void turn_1d(ConvShape& s, ConvTensor& a, ConvTensor& b, ConvTensor& c) {
  const bool flat = s.in[1] == 1 && s.out[1] == 1 && s.kernel[1] == 1;
  if (!flat || s.padding[1] != 0 || s.out[2] == 1) return;
  for (i64(*axis)[3] : {&s.in, &s.out, &s.kernel, &s.stride, &s.padding, &s.dilation})
    std::swap((*axis)[1], (*axis)[2]);
  for (ConvTensor* t : {&a, &b, &c}) std::swap(t->at[1], t->at[2]);
}

void plan_conv(ConvPlan& p, const ConvShape& s, const ConvTensor& source,
               const ConvTensor& destination, const ConvTensor& w, bool transposed,
               bool channel_order, const ConvBanding& banding, int lanes) {
  p.transposed = transposed;
  p.channel_order = channel_order;
  p.source = source;
  p.destination = destination;
  p.batch = s.batch;
  p.depthwise = channel_order && s.groups > 1 && s.in_group() == 1 && s.out_group() == 1;
  p.groups = p.depthwise ? 1 : s.groups;
  p.source_channels = (transposed ? s.out_channels : s.in_channels) / p.groups;
  p.channels = (transposed ? s.in_channels : s.out_channels) / p.groups;
  p.z_source = transposed ? s.out[0] : s.in[0];
  p.z_destination = transposed ? s.in[0] : s.out[0];
  p.z_kernel = s.kernel[0];
  p.z_stride = s.stride[0];
  p.z_padding = s.padding[0];
  p.z_dilation = s.dilation[0];
  plan_axis(p.y, s, 1, transposed);
  plan_axis(p.x, s, 2, transposed);
  plan_bands(p, banding);
  p.in_place = channel_order && source.channel == 1 && stays_inside(p.y) && stays_inside(p.x) &&
               z_stays_inside(p);
  p.pixel = p.in_place ? source.at[2] : p.source_channels;
  p.row_step = p.in_place ? source.at[1] : p.width * p.source_channels;
  p.z_step = p.in_place ? source.at[0] * p.z_dilation : p.rows * p.row_step;
  p.segment = p.depthwise ? p.source_channels : run_length(p);
  const WeightSteps steps{transposed || p.depthwise ? w.batch : w.channel, w.at[0], w.at[1],
                          w.at[2]};
  p.direct = p.y.out_step == 1 && p.x.out_step == 1 &&
             (p.x.destination == 1 || destination.at[2] == 1) &&
             (p.y.destination == 1 || destination.at[1] == p.x.destination);
  plan_passes(p, steps, lanes);
}

template <class T>
const T* fill_conv_buffer(const ConvPlan& p, const ConvBand& b, T* buffer) {
  const T* image = static_cast<const T*>(p.source.data) + b.n * p.source.batch +
                   b.group * p.source_channels * p.source.channel;
  const i64 row0 = b.band * p.band;
  if (p.in_place)
    return image + (b.z * (p.transposed ? 1 : p.z_stride)) * p.source.at[0] +
           (row0 * p.y.in_step - p.y.margin) * p.source.at[1] - p.x.margin * p.source.at[2];
  const i64 slice_size = (p.buffer - kSlack) / p.z_kernel;
  for (i64 k = 0; k < p.z_kernel; ++k) {
    i64 z;
    const T* slice = source_slice(p, b.z, k, &z) ? image + z * p.source.at[0] : nullptr;
    (p.channel_order ? fill_channel_order<T> : fill_pixel_order<T>)(p, slice, row0,
                                                                    buffer + k * slice_size);
  }
  zero(buffer + p.buffer - kSlack, kSlack);
  return buffer;
}
template const float* fill_conv_buffer(const ConvPlan&, const ConvBand&, float*);
template const double* fill_conv_buffer(const ConvPlan&, const ConvBand&, double*);

}  // namespace wt
