// The weight gradient of the cpu's direct convolution, f32 and f64: a matrix product over pixels,
// block by block of neighbouring rows. A block of x is unfolded into a matrix of terms by pixels
// (or the other way round, in channel order) that stays in the cache, its gradient into panels as
// the packed matrix product reads them; a last term of ones gives the bias gradient. A first layer
// has so few weights that packing would cost as much as multiplying: there each has a vector of
// sums, and products run along the pixels, y's where they lie.
//
// The blocks are dealt out to a number of shares that depends on the shape alone; each share adds
// up in order into sums of its own, and these are added in order at the end: the result is the same
// for any number of threads.
#include <algorithm>
#include <cstring>

#include "warptape/core/device.h"
#include "warptape/core/thread_object.h"
#include "warptape/kernels/conv/conv_plan_cpu.h"
#include "warptape/kernels/cpu/threads.h"

namespace wt {

namespace {

constexpr double kWorkAThread = 5e5;    // multiplications that are worth waking a thread
constexpr i64 kPixels = 160;            // of a block, about
constexpr i64 kBlockBytes = 512 << 10;  // of an unfolded block, at most
constexpr i64 kSharesBytes = 8 << 20;   // of all shares' sums, if there can be so few shares
constexpr i64 kMostShares = 16, kFewestShares = 2;
constexpr i64 kFewWeights = 2048;  // whose vectors of sums stay in a second-level cache
// The same of long planes, between which all sums are read and written once.
constexpr i64 kMoreWeights = 8192, kMoreTerms = 64, kLongPlane = 512;
constexpr i64 kFewTerms = 128;     // that a panel is read for so seldom that packing costs more
constexpr i64 kThinPixels = 1280;  // of a block of few weights: y is read in one piece

// panels: the general way. thin: few weights, x and y in planes. lanes: one channel a group,
// channels side by side. dots: one channel a group, one after the other.
enum class Way : u8 { panels, thin, lanes, dots };

struct Problem {
  ConvShape shape;
  ConvTensor w, y, x;
  Way way;
  bool y_sum;
  i64 terms() const {  // of a group, without the one of ones
    return shape.in_group() * shape.kernel[0] * shape.kernel[1] * shape.kernel[2];
  }
};

// Panels can be read where y lies: a pixel's channels make whole vectors.
template <class T>
bool in_vectors(const ConvTensor& y, i64 channels) {
  return y.channel == 1 && channels % conv_kernels<T>().lanes == 0;
}

template <class T>
Problem problem(const ConvBackwardWeightArgs& a) {
  Problem p{a.shape, a.w, a.y, a.x, Way::panels, a.y_sum != nullptr};
  const ConvShape& s = a.shape;
  const bool depthwise = s.groups > 1 && s.in_group() == 1 && s.out_group() == 1;
  bool channel_order = conv_channels_last(a.x, s.in_channels);
  if (depthwise) channel_order &= conv_channels_last(a.y, s.out_channels);
  const bool long_planes = s.out[1] * s.out[2] >= kLongPlane && p.terms() <= kMoreTerms;
  const bool thin = !depthwise &&
                    s.out_channels * p.terms() <= (long_planes ? kMoreWeights : kFewWeights) &&
                    !in_vectors<T>(a.y, s.out_group());
  if (thin) p.way = Way::thin;
  if (!channel_order || thin) turn_1d(p.shape, p.x, p.y, p.w);
  if (depthwise && channel_order) p.way = Way::lanes;
  if (depthwise && !channel_order && (p.y.at[2] == 1 || p.shape.out[2] == 1)) p.way = Way::dots;
  return p;
}

template <class T>
const ConvPlan& plan_of(const Problem& p) {
  ConvPlan& plan = thread_object<ConvPlan, struct WeightPlan>();
  const bool channel_order =
      p.way == Way::lanes ||
      (p.way == Way::panels && conv_channels_last(p.x, p.shape.in_channels) &&
       !(p.shape.groups > 1 && p.shape.in_group() == 1 && p.shape.out_group() == 1));
  const i64 terms = p.terms();
  const i64 most = p.way == Way::thin ? kThinPixels : terms < 32 ? 4 * kPixels : kPixels;
  const i64 pixels =
      std::clamp<i64>(kBlockBytes / i64(sizeof(T)) / std::max<i64>(terms, 1), 32, most);
  plan_conv(plan, p.shape, p.x, p.y, p.w, false, channel_order,
            {kBlockBytes / i64(sizeof(T)), 0, std::max<i64>(1, pixels / p.shape.out[2])},
            conv_kernels<T>().lanes);
  return plan;
}

i64 round_up(i64 v, i64 step) { return (v + step - 1) / step * step; }

// What the sums of a share look like, and the workspace, in elements.
struct Parts {
  i64 terms;    // of a group, without the one of ones
  i64 columns;  // of the sums: output channels of a group, padded
  i64 sums;     // of a share
  i64 units, shares, threads;
  i64 pixels;       // of a block, at most
  i64 pitch;        // of the unfolded block; thin: of a plane of y, too
  bool y_in_place;  // panels are read where y lies
  i64 buffer, unfolded, panels;
  i64 size() const { return shares * sums + threads * (buffer + unfolded + panels); }
};
// Thin: the vectors of sums of a group's weights.
template <class T>
i64 lane_sums(const ConvPlan& plan, const Parts& parts) {
  return plan.channels * (parts.terms + 1) * conv_kernels<T>().lanes;
}
template <class T>
Parts parts_of(const ConvPlan& plan, const Problem& p) {
  const ConvShape& s = p.shape;
  Parts r{};
  const int panel = 2 * conv_kernels<T>().lanes;
  r.pixels = plan.band * plan.x.destination;
  r.terms = plan.passes[0].depth;
  if (p.way == Way::lanes) {
    r.sums = round_up(r.terms + plan.channels, 16);
  } else {
    r.columns = p.way == Way::dots   ? 1
                : p.way == Way::thin ? plan.channels
                                     : plan.padded_channels(panel);
    r.sums = round_up(plan.groups * (r.terms + 1) * r.columns, 16);
  }
  r.units = plan.batch * plan.z_destination * plan.bands;
  r.shares = std::min(
      r.units, std::clamp(kSharesBytes / i64(sizeof(T)) / r.sums, kFewestShares, kMostShares));
  r.threads =
      i64(std::min({double(num_threads()), s.flops() / 2 / kWorkAThread + 1, double(r.shares)}));
  r.buffer = plan.in_place ? 0 : round_up(plan.buffer, 16);
  // A row more than its length, because copies write whole vectors; never a multiple of 4 KiB,
  // which would put all rows into the same sets of the cache.
  r.pitch = round_up((plan.channel_order ? r.terms + 1 : r.pixels) + kConvLanes, 16);
  if (r.pitch % 1024 == 0) r.pitch += 16;
  if (p.way == Way::panels) {
    r.unfolded = r.pitch * (plan.channel_order ? r.pixels : r.terms + 1) + kConvLanes;
    r.y_in_place = r.terms < kFewTerms && in_vectors<T>(p.y, plan.channels) &&
                   (plan.band == 1 || p.y.at[1] == plan.x.destination * p.y.at[2]);
    r.panels = r.y_in_place ? 0 : r.columns * r.pixels;
  } else if (p.way == Way::thin) {
    r.unfolded = r.pitch * (r.terms + 1) + kConvLanes;
    r.panels = plan.channels * r.pitch + plan.groups * lane_sums<T>(plan, r);
  } else if (p.way == Way::dots) {
    r.unfolded = round_up(plan.x.destination, 16);  // a row of ones
  }
  return r;
}

// A block of one image and slice.
template <class T>
struct Block {
  const ConvPlan& plan;
  const Parts& parts;
  const ConvTensor& y;
  const T* source;
  const T* gradient;  // of y, at the block's first pixel and the group's first channel
  const T* next;      // the same of the block after it
  i64 rows;
  T *unfolded, *panels;
  T* sums;  // of the group; thin: vectors of them
  bool y_sum;
};

template <class T>
void unfold(const Block<T>& b) {
  const ConvPlan& p = b.plan;
  const ConvKernels<T>& k = conv_kernels<T>();
  const i64 columns = p.x.destination, pixels = b.rows * columns, terms = b.parts.terms;
  if (!p.channel_order) {
    for (i64 i = 0; i < terms; ++i)
      k.copy_rows(b.unfolded + i * b.parts.pitch, columns, b.source + p.offsets[size_t(i)], p.width,
                  b.rows, columns);
    std::fill_n(b.unfolded + terms * b.parts.pitch, pixels, T(1));
    return;
  }
  const i64 segments = p.passes[0].n_offsets;
  for (i64 row = 0; row < b.rows; ++row)
    for (i64 s = 0; s < segments; ++s)
      k.copy_rows(b.unfolded + row * columns * b.parts.pitch + s * p.segment, b.parts.pitch,
                  b.source + row * p.y.in_step * p.row_step + p.offsets[size_t(s)],
                  p.x.in_step * p.pixel, columns, p.segment);
  for (i64 i = 0; i < pixels; ++i) b.unfolded[i * b.parts.pitch + terms] = 1;
}

template <class T>
void pack_gradient(const Block<T>& b) {
  const PackedKernels<T>& k = matmul_packed_kernels<T>();
  const i64 columns = b.plan.x.destination, pixels = b.rows * columns;
  const bool dense = b.rows == 1 || b.y.at[1] == columns * b.y.at[2];
  for (i64 c = 0; c < b.plan.channels; c += k.width) {
    const T* const from = b.gradient + c * b.y.channel;
    T* const to = b.panels + c * pixels;
    const int wide = int(std::min<i64>(k.width, b.plan.channels - c));
    if (dense) {
      k.pack(to, from, b.y.at[2], b.y.channel, pixels, wide);
      continue;
    }
    for (i64 row = 0; row < b.rows; ++row)
      k.pack(to + row * columns * k.width, from + row * b.y.at[1], b.y.at[2], b.y.channel, columns,
             wide);
  }
}

template <class T>
void add_products(const Block<T>& b) {
  unfold(b);
  if (!b.parts.y_in_place) pack_gradient(b);
  const PackedKernels<T>& k = matmul_packed_kernels<T>();
  const i64 pixels = b.rows * b.plan.x.destination, terms = b.parts.terms + 1;
  PackedTile<T> tile{};
  tile.a_row = b.plan.channel_order ? 1 : b.parts.pitch;
  tile.a_column = b.plan.channel_order ? b.parts.pitch : 1;
  tile.panel_row = b.parts.y_in_place ? b.y.at[2] : k.width;
  tile.depth = pixels;
  tile.out_row = b.parts.columns;
  tile.out_column = 1;
  tile.add = true;
  const i64 tiles = (terms + k.rows - 1) / k.rows;
  for (i64 t = 0; t < tiles; ++t) {
    const i64 from = terms * t / tiles, to = terms * (t + 1) / tiles;
    tile.a = b.unfolded + from * tile.a_row;
    for (i64 c = 0; c < b.plan.channels; c += k.width) {
      const bool wide = 2 * (b.plan.channels - c) > k.width;
      tile.panel = b.parts.y_in_place ? b.gradient + c : b.panels + c * pixels;
      tile.columns = wide ? k.width : k.width / 2;
      tile.out = b.sums + from * b.parts.columns + c;
      (wide ? k.wide : k.narrow)[to - from](tile);
    }
  }
}

// The block of y in planes without gaps, which its own may be.
template <class T>
struct Planes {
  const T* data;
  i64 plane;
};
template <class T>
Planes<T> planes_of(const Block<T>& b) {
  const i64 columns = b.plan.x.destination, channels = b.plan.channels;
  if (b.y.at[2] == 1 && (b.rows == 1 || b.y.at[1] == columns)) return {b.gradient, b.y.channel};
  for (i64 row = 0; row < b.rows; ++row) {
    T* const to = b.panels + row * columns;
    const T* const from = b.gradient + row * b.y.at[1];
    if (b.y.channel == 1) {
      conv_kernels<T>().planes_of(to, b.parts.pitch, from, b.y.at[2], columns, channels);
      continue;
    }
    for (i64 c = 0; c < channels; ++c)
      for (i64 i = 0; i < columns; ++i)
        to[c * b.parts.pitch + i] = from[c * b.y.channel + i * b.y.at[2]];
  }
  return {b.panels, b.parts.pitch};
}

// Asks for pixels [begin, end) of channels of the next block, so that memory is read while this one
// is multiplied: planes are too short for the processor's own prefetching.
template <class T>
void expect(const Block<T>& b, i64 c0, i64 c1, i64 begin, i64 end) {
  for (i64 c = c0; c < c1; ++c)
    for (i64 i = begin; i < end; i += 16)
      __builtin_prefetch(b.next + c * b.y.channel + i, 0, 2);  // for the second-level cache
}

template <class T>
void add_thin(const Block<T>& b) {
  const ConvKernels<T>& k = conv_kernels<T>();
  unfold(b);
  const Planes<T> y = planes_of(b);
  const i64 channels = b.plan.channels, terms = b.parts.terms + b.y_sum;
  const i64 tiles = (channels + k.gradient_rows - 1) / k.gradient_rows;
  const i64 groups = (terms + kGradientTerms - 1) / kGradientTerms;
  ConvGradientTile<T> tile{nullptr,
                           y.plane,
                           nullptr,
                           b.parts.pitch,
                           b.rows * b.plan.x.destination,
                           nullptr,
                           (b.parts.terms + 1) * k.lanes};
  for (i64 t = 0; t < tiles; ++t) {
    const i64 c0 = channels * t / tiles, c1 = channels * (t + 1) / tiles;
    tile.y = y.data + c0 * y.plane;
    for (i64 g = 0; g < groups; ++g) {
      const i64 from = terms * g / groups, to = terms * (g + 1) / groups;
      if (y.data == b.gradient)
        expect(b, c0, c1, tile.pixels * g / groups, tile.pixels * (g + 1) / groups);
      tile.x = b.unfolded + from * b.parts.pitch;
      tile.sums = b.sums + c0 * tile.sums_row + from * k.lanes;
      k.gradient[c1 - c0][to - from](tile);
    }
  }
}
// A share's vectors of sums to its sums.
template <class T>
void reduce_thin(const ConvPlan& plan, const Parts& parts, const T* lanes, T* sums) {
  const ConvKernels<T>& k = conv_kernels<T>();
  for (i64 g = 0; g < plan.groups; ++g, sums += (parts.terms + 1) * parts.columns)
    for (i64 c = 0; c < plan.channels; ++c)
      for (i64 i = 0; i <= parts.terms; ++i, lanes += k.lanes)
        sums[i * parts.columns + c] = k.sum_of(lanes);
}

template <class T>
void add_lanes(const Block<T>& b) {
  const ConvPlan& p = b.plan;
  ConvDepthwiseWeight<T> row{};
  row.x_row = p.x.in_step * p.pixel;
  row.offsets = p.offsets.data();
  row.taps = p.passes[0].n_offsets;
  row.pixels = p.x.destination;
  row.channels = p.channels;
  row.y_row = b.y.at[2];
  row.to = b.sums;
  for (i64 i = 0; i < b.rows; ++i) {
    row.x = b.source + i * p.y.in_step * p.row_step;
    row.y = b.gradient + i * b.y.at[1];
    conv_kernels<T>().depthwise_weight(row);
  }
}

template <class T>
void add_dots(const Block<T>& b) {
  ConvDot<T> dot{nullptr, b.gradient, b.plan.width, b.y.at[1], b.rows, b.plan.x.destination};
  for (i64 i = 0; i < b.parts.terms; ++i) {
    dot.x = b.source + b.plan.offsets[size_t(i)];
    b.sums[i] += conv_kernels<T>().dot(dot);
  }
  dot.x = b.unfolded;
  dot.x_row = 0;
  b.sums[b.parts.terms] += conv_kernels<T>().dot(dot);
}

template <class T>
void run_share(const ConvPlan& plan, const Problem& p, const Parts& parts, i64 share, T* sums,
               T* mine) {
  std::memset(sums, 0, size_t(parts.sums) * sizeof(T));
  T *const unfolded = mine + parts.buffer, *const panels = unfolded + parts.unfolded;
  if (p.way == Way::dots) std::fill_n(unfolded, plan.x.destination, T(1));
  T* const lanes = panels + plan.channels * parts.pitch;  // thin: the vectors of sums
  if (p.way == Way::thin)
    std::memset(lanes, 0, size_t(plan.groups * lane_sums<T>(plan, parts)) * sizeof(T));
  const i64 end = parts.units * (share + 1) / parts.shares;
  const auto gradient_at = [&](i64 unit, i64 g) {
    const i64 band = unit % plan.bands, z = unit / plan.bands % plan.z_destination;
    return static_cast<const T*>(p.y.data) + unit / plan.bands / plan.z_destination * p.y.batch +
           g * plan.channels * p.y.channel + z * p.y.at[0] + band * plan.band * p.y.at[1];
  };
  for (i64 unit = parts.units * share / parts.shares; unit < end; ++unit) {
    const i64 band = unit % plan.bands, z = unit / plan.bands % plan.z_destination;
    const i64 n = unit / plan.bands / plan.z_destination;
    const i64 rows = std::min(plan.band, plan.y.destination - band * plan.band);
    for (i64 g = 0; g < plan.groups; ++g) {
      const Block<T> block{plan,
                           parts,
                           p.y,
                           fill_conv_buffer(plan, {n, g, z, band}, mine),
                           gradient_at(unit, g),
                           gradient_at(std::min(unit + 1, parts.units - 1), g),
                           rows,
                           unfolded,
                           panels,
                           p.way == Way::thin ? lanes + g * lane_sums<T>(plan, parts)
                                              : sums + g * (parts.terms + 1) * parts.columns,
                           p.y_sum};
      (p.way == Way::thin    ? add_thin<T>
       : p.way == Way::lanes ? add_lanes<T>
       : p.way == Way::dots  ? add_dots<T>
                             : add_products<T>)(block);
    }
  }
  if (p.way == Way::thin) reduce_thin(plan, parts, lanes, sums);
}

// The shares' sums to where they belong.
template <class T>
void store_sums(const ConvPlan& plan, const Problem& p, const Parts& parts,
                const ConvBackwardWeightArgs& a, T* sums) {
  for (i64 s = 1; s < parts.shares; ++s)
    for (i64 i = 0; i < parts.sums; ++i) sums[i] += sums[s * parts.sums + i];
  T *const w = static_cast<T*>(p.w.data), *const y_sum = static_cast<T*>(a.y_sum);
  const auto put = [](T& to, T v, bool add) { to = add ? to + v : v; };
  if (p.way == Way::lanes) {
    for (i64 i = 0; i < parts.terms; ++i) put(w[plan.terms[size_t(i)]], sums[i], a.accumulate);
    for (i64 c = 0; y_sum && c < plan.channels; ++c)
      put(y_sum[c], sums[parts.terms + c], a.accumulate_y_sum);
    return;
  }
  for (i64 g = 0; g < plan.groups; ++g) {
    const T* const of = sums + g * (parts.terms + 1) * parts.columns;
    for (i64 c = 0; c < plan.channels; ++c) {
      const i64 channel = g * plan.channels + c;
      for (i64 i = 0; i < parts.terms; ++i)
        put(w[channel * p.w.batch + plan.terms[size_t(i)]], of[i * parts.columns + c],
            a.accumulate);
      if (y_sum) put(y_sum[channel], of[parts.terms * parts.columns + c], a.accumulate_y_sum);
    }
  }
}

template <class T>
i64 workspace(const ConvBackwardWeightArgs& a) {
  const Problem p = problem<T>(a);
  return parts_of<T>(plan_of<T>(p), p).size() * i64(sizeof(T));
}

template <class T>
void launch(const ConvBackwardWeightArgs& a, const Launch& l) {
  const Problem p = problem<T>(a);
  const ConvPlan& plan = plan_of<T>(p);
  const Parts parts = parts_of<T>(plan, p);
  T* const sums = static_cast<T*>(l.workspace);
  T* const workers = sums + parts.shares * parts.sums;
  const i64 each = parts.buffer + parts.unfolded + parts.panels;
  parallel(int(parts.threads), int(parts.shares), [&](int share, int worker) {
    run_share(plan, p, parts, share, sums + share * parts.sums, workers + worker * each);
  });
  store_sums(plan, p, parts, a, sums);
}

}  // namespace

i64 conv_direct_weight_workspace(const ConvBackwardWeightArgs& a) {
  return a.shape.dtype == DType::f32 ? workspace<float>(a) : workspace<double>(a);
}
void conv_direct_weight(const ConvBackwardWeightArgs& a, const Launch& l) {
  a.shape.dtype == DType::f32 ? launch<float>(a, l) : launch<double>(a, l);
}

}  // namespace wt
