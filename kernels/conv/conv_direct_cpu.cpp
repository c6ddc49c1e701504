// The cpu's direct convolution and transposed convolution, f32 and f64: tiles of pixels by channels
// are kept in registers over all their terms, read from a small padded copy of the source
// (conv/conv_plan_cpu.h), so that nothing of the size of an im2col matrix is ever written.
#include <algorithm>

#include "warptape/core/device.h"
#include "warptape/core/thread_object.h"
#include "warptape/kernels/conv/conv_plan_cpu.h"
#include "warptape/kernels/cpu/threads.h"

namespace wt {

namespace {

constexpr double kWorkAThread = 5e5;     // multiplications that are worth waking a thread
constexpr i64 kBufferBytes = 192 << 10;  // of a band: with the weights it stays in a second-level
                                         // cache

template <class T>
struct Problem {
  ConvShape shape;
  ConvTensor source, destination, w;
  const T* bias;
  bool transposed, channel_order;
};

int threads_for(const ConvShape& s) {
  return int(std::min(double(num_threads()), s.flops() / 2 / kWorkAThread + 1));
}

// So few channels, that they would leave half of each vector empty and tiles in pixel order are
// worth being turned.
template <class T>
bool thin(const ConvShape& s) {
  return s.groups == 1 && s.in_channels <= 4 && s.out_channels <= conv_kernels<T>().lanes / 2;
}

template <class T>
Problem<T> problem(const ConvForwardArgs& a) {
  Problem<T> p{a.shape, a.x, a.y, a.w, static_cast<const T*>(a.bias), false, false};
  p.channel_order = conv_channels_last(p.destination, a.shape.out_channels) && !thin<T>(a.shape);
  if (!p.channel_order) turn_1d(p.shape, p.source, p.destination, p.w);
  return p;
}
template <class T>
Problem<T> problem(const ConvBackwardInputArgs& a) {
  Problem<T> p{a.shape, a.y, a.x, a.w, static_cast<const T*>(a.bias), true, false};
  p.channel_order = conv_channels_last(p.destination, a.shape.in_channels);
  if (!p.channel_order) turn_1d(p.shape, p.source, p.destination, p.w);
  return p;
}

// The plan of this thread's present call: its vectors keep their memory.
template <class T>
const ConvPlan& plan_of(const Problem<T>& p) {
  ConvPlan& plan = thread_object<ConvPlan, struct DirectPlan>();
  plan_conv(plan, p.shape, p.source, p.destination, p.w, p.transposed, p.channel_order,
            {kBufferBytes / i64(sizeof(T)), 4 * threads_for(p.shape), 0}, conv_kernels<T>().lanes);
  return plan;
}

i64 round_up(i64 v, i64 step) { return (v + step - 1) / step * step; }

// Workspace, in elements: packed weights of all groups, then for each thread a buffer and a tile.
struct Parts {
  i64 weights, buffer, tile, threads;
  i64 size() const { return weights + threads * (buffer + tile); }
};
template <class T>
Parts parts_of(const ConvPlan& plan, const ConvShape& s) {
  const ConvKernels<T>& k = conv_kernels<T>();
  return {round_up(plan.weights * plan.groups, 16), plan.in_place ? 0 : round_up(plan.buffer, 16),
          plan.direct ? 0 : round_up(2 * k.lanes * k.rows, 16), threads_for(s)};
}

template <class T, class Args>
i64 workspace(const Args& a) {
  const Problem<T> p = problem<T>(a);
  return parts_of<T>(plan_of(p), p.shape).size() * i64(sizeof(T));
}

// --- weights ---

// Of one group and pass, as the tiles read them.
template <class T>
void pack_weights(const ConvPlan& plan, const ConvPass& pass, const T* w, i64 step, T* to) {
  const i64* terms = plan.terms.data() + pass.terms;
  if (plan.depthwise) {
    for (i64 i = 0; i < pass.depth; ++i) to[i] = w[terms[i]];
  } else if (plan.channel_order) {
    const int panel = 2 * conv_kernels<T>().lanes;
    for (i64 c0 = 0; c0 < plan.channels; c0 += panel)
      for (i64 i = 0; i < pass.depth; ++i)
        for (i64 c = c0; c < c0 + panel; ++c)
          *to++ = c < plan.channels ? w[c * step + terms[i]] : 0;
  } else {
    const i64 tiles = (plan.channels + conv_kernels<T>().rows - 1) / conv_kernels<T>().rows;
    for (i64 t = 0; t < tiles; ++t)
      for (i64 i = 0; i < pass.depth; ++i)
        for (i64 c = plan.channels * t / tiles; c < plan.channels * (t + 1) / tiles; ++c)
          *to++ = w[c * step + terms[i]];
  }
}

template <class T>
void pack_all_weights(const ConvPlan& plan, const Problem<T>& p, int threads, T* to) {
  const i64 step = p.transposed ? p.w.channel : p.w.batch;
  // Of a group's first destination channel; a transposed one shares its channels' numbers.
  const i64 group = p.transposed ? p.w.batch * plan.source_channels : p.w.batch * plan.channels;
  const int passes = int(plan.passes.size());
  parallel(threads, int(plan.groups) * passes, [&](int task, int) {
    const i64 g = task / passes;
    const ConvPass& pass = plan.passes[size_t(task % passes)];
    pack_weights(plan, pass, static_cast<const T*>(p.w.data) + g * group, step,
                 to + g * plan.weights + pass.weights);
  });
}

// --- one band ---

template <class T>
struct BandWork {
  const ConvPlan& plan;
  const T* source;   // the buffer, or the source itself
  const T* weights;  // of the group
  const T* bias;     // of the group, or null
  T* out;            // of the image, group and slice
  T* tile;
  i64 row0;  // of the band, in rows of a phase
};

template <class T>
i64 rows_in(const BandWork<T>& b, const ConvPass& pass) {
  return std::min(b.plan.band, pass.y->count - b.row0);
}

template <class T>
T* out_at(const BandWork<T>& b, const ConvPass& pass, i64 row, i64 column) {
  const ConvPlan& p = b.plan;
  return b.out + (pass.y->first + (b.row0 + row) * p.y.out_step) * p.destination.at[1] +
         (pass.x->first + column * p.x.out_step) * p.destination.at[2];
}

template <class T>
void depthwise_pass(const BandWork<T>& b, const ConvPass& pass) {
  const ConvPlan& p = b.plan;
  ConvDepthwiseRow<T> row{};
  row.x_row = p.x.in_step * p.pixel;
  row.offsets = p.offsets.data() + pass.offsets;
  row.taps = pass.n_offsets;
  row.pixels = pass.x->count;
  row.channels = p.channels;
  row.w = b.weights + pass.weights;
  row.bias = b.bias;
  row.out_row = p.x.out_step * p.destination.at[2];
  for (i64 i = 0; i < rows_in(b, pass); ++i) {
    row.x = b.source + i * p.y.in_step * p.row_step;
    row.out = out_at(b, pass, i, 0);
    conv_kernels<T>().depthwise(row);
  }
}

template <class T>
void channel_pass(const BandWork<T>& b, const ConvPass& pass) {
  const ConvPlan& p = b.plan;
  const ConvKernels<T>& k = conv_kernels<T>();
  ConvChannelTile<T> tile{};
  tile.x_row = p.x.in_step * p.pixel;
  tile.offsets = p.offsets.data() + pass.offsets;
  tile.segments = int(pass.n_offsets);
  tile.length = p.segment;
  tile.out_row = p.x.out_step * p.destination.at[2];
  const i64 columns = pass.x->count, tiles = (columns + k.rows - 1) / k.rows;
  for (i64 row = 0; row < rows_in(b, pass); ++row)
    for (i64 t = 0; t < tiles; ++t) {
      const i64 from = columns * t / tiles, to = columns * (t + 1) / tiles;
      tile.x = b.source + row * p.y.in_step * p.row_step + from * tile.x_row;
      T* const out = out_at(b, pass, row, from);
      for (i64 c = 0; c < p.channels; c += 2 * k.lanes) {
        tile.columns = int(std::min<i64>(2 * k.lanes, p.channels - c));
        tile.panel = b.weights + pass.weights + c * pass.depth;
        tile.bias = b.bias ? b.bias + c : nullptr;
        tile.out = out + c;
        k.channels[tile.columns > k.lanes][to - from](tile);
      }
    }
}

// A tile's vectors to pixels that do not follow each other.
template <class T>
void scatter_tile(const BandWork<T>& b, const ConvPass& pass, const T* tile, i64 first, i64 vectors,
                  i64 c0, i64 channels) {
  const ConvPlan& p = b.plan;
  const i64 width = 2 * conv_kernels<T>().lanes, end = first + vectors * conv_kernels<T>().lanes;
  const i64 rows = rows_in(b, pass);
  for (i64 f = first, run; f < end; f += run) {
    const i64 row = f / p.width, column = f % p.width;
    run = std::min(end - f, p.width - column);
    const i64 pixels = std::min(run, pass.x->count - column);
    if (row >= rows || pixels <= 0) continue;
    T* const out = out_at(b, pass, row, column) + c0 * p.destination.channel;
    const i64 step = p.x.out_step * p.destination.at[2];
    if (p.destination.channel == 1) {
      conv_kernels<T>().planes_of(out, step, tile + f - first, width, channels, pixels);
      continue;
    }
    for (i64 i = 0; i < pixels; ++i)
      for (i64 c = 0; c < channels; ++c)
        out[i * step + c * p.destination.channel] = tile[c * width + f - first + i];
  }
}

template <class T>
void pixel_pass(const BandWork<T>& b, const ConvPass& pass, bool last_band) {
  const ConvPlan& p = b.plan;
  const ConvKernels<T>& k = conv_kernels<T>();
  static constexpr ConvLanes kWhole[2] = {{0, 0, {}}, {0, 0, {}}};
  ConvLanes whole[2] = {kWhole[0], kWhole[1]};
  for (int v = 0; v < 2; ++v) whole[v].start = v * k.lanes, whole[v].count = k.lanes;
  const i64 rows = rows_in(b, pass);
  if (rows <= 0) return;
  const i64 end = (rows - 1) * p.width + pass.x->count;
  const i64 tiles = (p.channels + k.rows - 1) / k.rows;
  ConvPixelTile<T> tile{};
  tile.offsets = p.offsets.data() + pass.offsets;
  tile.depth = pass.depth;
  tile.out_row = p.direct ? p.destination.channel : 2 * k.lanes;
  const ConvLanes* lanes = p.lanes.data() + pass.lanes[last_band];
  T* const out = out_at(b, pass, 0, 0);
  // All pixels by some channels, then the next ones: few pages are written to at a time, which
  // matters where channels lie a power of two apart.
  for (i64 t = 0; t < tiles; ++t) {
    const i64 c0 = p.channels * t / tiles, c1 = p.channels * (t + 1) / tiles;
    tile.w = b.weights + pass.weights + c0 * pass.depth;
    tile.bias = b.bias ? b.bias + c0 : nullptr;
    tile.out = p.direct ? out + c0 * p.destination.channel : b.tile;
    for (i64 f = 0, v = 0; f < end; f += 2 * k.lanes, v += 2) {
      const int vectors = f + k.lanes < end ? 2 : 1;
      tile.x = b.source + f;
      tile.lanes = p.direct ? lanes + v : whole;
      k.pixels[vectors - 1][c1 - c0](tile);
      if (!p.direct) scatter_tile(b, pass, b.tile, f, vectors, c0, c1 - c0);
    }
  }
}

ConvBand nth_band(const ConvPlan& plan, i64 i) {
  ConvBand b{};
  b.band = i % plan.bands;
  b.z = (i /= plan.bands) % plan.z_destination;
  b.group = (i /= plan.z_destination) % plan.groups;
  b.n = i / plan.groups;
  return b;
}

template <class T>
void run_band(const ConvPlan& plan, const ConvBand& band, const T* bias, const T* weights,
              T* buffer, T* tile) {
  const i64 channel = band.group * plan.channels;
  const ConvTensor& to = plan.destination;
  const BandWork<T> work{
      plan,
      fill_conv_buffer(plan, band, buffer),
      weights + band.group * plan.weights,
      bias ? bias + channel : nullptr,
      static_cast<T*>(to.data) + band.n * to.batch + channel * to.channel + band.z * to.at[0],
      tile,
      band.band * plan.band};
  for (const ConvPass& pass : plan.passes) {
    if (plan.depthwise)
      depthwise_pass(work, pass);
    else if (plan.channel_order)
      channel_pass(work, pass);
    else
      pixel_pass(work, pass, band.band == plan.bands - 1);
  }
}

template <class T, class Args>
void launch(const Args& a, const Launch& l) {
  const Problem<T> problem_ = problem<T>(a);
  const ConvPlan& plan = plan_of(problem_);
  const Parts parts = parts_of<T>(plan, problem_.shape);
  T* const weights = static_cast<T*>(l.workspace);
  pack_all_weights(plan, problem_, int(parts.threads), weights);
  const i64 bands = plan.batch * plan.groups * plan.z_destination * plan.bands;
  const i64 tasks = std::min<i64>(bands, 1 << 20);
  parallel(int(parts.threads), int(tasks), [&](int task, int worker) {
    T* const mine = weights + parts.weights + worker * (parts.buffer + parts.tile);
    for (i64 i = bands * task / tasks; i < bands * (task + 1) / tasks; ++i)
      run_band(plan, nth_band(plan, i), problem_.bias, weights, mine, mine + parts.buffer);
  });
}

}  // namespace

const char* conv_direct_why_not(const ConvShape& s) {
  if (s.dtype != DType::f32 && s.dtype != DType::f64) return "takes f32 and f64 only";
  if (s.x_numel() == 0 || s.y_numel() == 0 || s.w_numel() == 0) return "takes no empty operands";
  // Its tables have an entry for every term, for some pixels of a row, and a phase of strides.
  constexpr double kTerms = 1 << 20, kRow = 1 << 22, kPhases = 1 << 12;
  const double kernel = double(s.kernel[0]) * double(s.kernel[1]) * double(s.kernel[2]);
  const double reach = double(s.kernel[2]) * double(s.dilation[2]) + 2.0 * double(s.padding[2]);
  const double channels = double(std::max(s.in_channels, s.out_channels));
  if (kernel * channels > kTerms || double(s.stride[1]) * double(s.stride[2]) > kPhases ||
      double(s.in[2] + s.out[2]) + reach > kRow)
    return "takes fewer terms and shorter rows";
  return nullptr;
}

i64 conv_direct_forward_workspace(const ConvForwardArgs& a) {
  return a.shape.dtype == DType::f32 ? workspace<float>(a) : workspace<double>(a);
}
void conv_direct_forward(const ConvForwardArgs& a, const Launch& l) {
  a.shape.dtype == DType::f32 ? launch<float>(a, l) : launch<double>(a, l);
}
i64 conv_direct_input_workspace(const ConvBackwardInputArgs& a) {
  if (conv_thin_input_takes(a.shape)) return conv_thin_input_workspace(a);
  return a.shape.dtype == DType::f32 ? workspace<float>(a) : workspace<double>(a);
}
void conv_direct_input(const ConvBackwardInputArgs& a, const Launch& l) {
  if (conv_thin_input_takes(a.shape)) return conv_thin_input(a, l);
  a.shape.dtype == DType::f32 ? launch<float>(a, l) : launch<double>(a, l);
}

}  // namespace wt
