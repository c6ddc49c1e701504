// Layer norm and batch norm, forward and backward: a warp a row, a block a channel.
#include "warptape/kernels/simt/simt.h"
//
#include "warptape/kernels/channel_norm.h"
#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/device/row_kernels.cuh"
#include "warptape/kernels/layer_norm.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

bool plain_f32(const View& v) { return !v || (v.dtype() == DType::f32 && v.dense()); }
int length_of(const View& v) { return int(v.size(v.ndim() - 1)); }
i64 rows_of(const View& v) { return length_of(v) ? v.numel() / length_of(v) : 0; }

// Of a row, or of a channel: what the forward saves. Null members are absent.
struct Saved {
  const float *mean, *left, *rstd;  // [count] each; `left`: what rounding took from the mean
};
Saved saved_of(const View& stats) {
  const float* const first = stats.as<const float>();
  const i64 count = stats.size(1);
  return {first, first + count, first + 2 * count};
}

// --- layer norm, forward ---

constexpr int kThreads = 32;  // of a block, which has a row

struct Forward {
  float *y, *stats;  // stats may be null, and so may weight and bias
  const float *x, *weight, *bias;
  int rows, n;
  float eps;
  template <class F>
  void visit_pointers(F&& f) const {
    f(y), f(stats), f(x), f(weight), f(bias);
  }
};

// A row of so many elements fits into the shared memory that a block has unasked.
constexpr int kKeptMost = 48 * 1024 / 4;

// The mean first, then the squares around it. Lanes keep their elements where they alone read them.
template <bool Kept>
__global__ void __launch_bounds__(kThreads) normalise(Forward a) {
  WT_DYN_SHARED(float, kept);
  const int lane = int(threadIdx.x), r = int(blockIdx.x);
  const float* const x = a.x + i64(r) * a.n;
  const auto at = [&](int i) { return Kept ? kept[i] : x[i]; };
  float sum = 0;
  for (int i = lane; i < a.n; i += kThreads) {
    const float v = x[i];
    if (Kept) kept[i] = v;
    sum += v;
  }
  const float mean = warp_reduce(sum, Plus()) / float(a.n);
  float left = 0, squares = 0;
  for (int i = lane; i < a.n; i += kThreads) {
    const float d = at(i) - mean;
    left += d, squares += d * d;
  }
  // What is left over is the mean's own rounding; the squares are then around mean + left.
  left = warp_reduce(left, Plus()) / float(a.n);
  const float variance = warp_reduce(squares, Plus()) / float(a.n) - left * left;
  const float rstd = 1 / sqrtf(variance + a.eps);
  for (int i = lane; i < a.n; i += kThreads) {
    const float h = (at(i) - mean - left) * rstd;
    a.y[i64(r) * a.n + i] = h * (a.weight ? a.weight[i] : 1) + (a.bias ? a.bias[i] : 0);
  }
  if (lane == 0 && a.stats)
    a.stats[r] = mean, a.stats[a.rows + r] = left, a.stats[2 * a.rows + r] = rstd;
}

void forward(const LayerNormForwardArgs& a, const Launch& l) {
  const i64 rows = rows_of(a.x);
  const Forward f{a.y.as<float>(),          a.stats.as<float>(),
                  a.x.as<const float>(),    a.weight.as<const float>(),
                  a.bias.as<const float>(), int(rows),
                  length_of(a.x),           float(a.eps)};
  if (f.n <= kKeptMost)
    launch<normalise<true>>(grid_of(l, rows, kThreads, i64(f.n) * 4), f);
  else
    launch<normalise<false>>(grid_of(l, rows, kThreads), f);
}
const char* why_not_forward(const LayerNormForwardArgs& a) {
  return plain_f32(a.x) && plain_f32(a.y) ? nullptr : "anything but contiguous f32";
}

// --- layer norm, gradient of the input ---

struct Gradient {
  float* gx;
  const float *gy, *x, *weight;
  Saved saved;
  int n;
  template <class F>
  void visit_pointers(F&& f) const {
    f(gx), f(gy), f(x), f(weight), f(saved.mean);
  }
};

// Mean and deviation depend on every element of the row: two sums say how.
__global__ void __launch_bounds__(kThreads) input_gradient(Gradient a) {
  const int lane = int(threadIdx.x), r = int(blockIdx.x);
  const i64 first = i64(r) * a.n;
  const float mean = a.saved.mean[r], left = a.saved.left[r], rstd = a.saved.rstd[r];
  const auto g_at = [&](int i) { return a.gy[first + i] * (a.weight ? a.weight[i] : 1); };
  const auto h_at = [&](int i) { return (a.x[first + i] - mean - left) * rstd; };
  float sum = 0, dot = 0;
  for (int i = lane; i < a.n; i += kThreads) {
    const float g = g_at(i);
    sum += g, dot += g * h_at(i);
  }
  sum = warp_reduce(sum, Plus()) / float(a.n), dot = warp_reduce(dot, Plus()) / float(a.n);
  for (int i = lane; i < a.n; i += kThreads)
    a.gx[first + i] = rstd * (g_at(i) - sum - h_at(i) * dot);
}

void gradient(const LayerNormBackwardInputArgs& a, const Launch& l) {
  launch<input_gradient>(grid_of(l, rows_of(a.x), kThreads),
                         Gradient{a.gx.as<float>(), a.gy.as<const float>(), a.x.as<const float>(),
                                  a.weight.as<const float>(), saved_of(a.stats), length_of(a.x)});
}
const char* why_not_gradient(const LayerNormBackwardInputArgs& a) {
  return plain_f32(a.gx) && plain_f32(a.gy) && plain_f32(a.x) ? nullptr
                                                              : "anything but contiguous f32";
}

// --- layer norm, gradients of the parameters ---

constexpr int kColumns = 32, kSplits = 8;

struct Parameters {
  float *gweight, *gbias;  // one may be null
  const float *gy, *x;
  Saved saved;
  int rows, n;
  bool add_weight, add_bias;  // to what is there
  template <class F>
  void visit_pointers(F&& f) const {
    f(gweight), f(gbias), f(gy), f(x), f(saved.mean);
  }
};
// The sums of column i.
__device__ void put(const Parameters& a, int i, float weight, float bias) {
  if (a.gweight) a.gweight[i] = (a.add_weight ? a.gweight[i] : 0) + weight;
  if (a.gbias) a.gbias[i] = (a.add_bias ? a.gbias[i] : 0) + bias;
}

// A warp's lanes are neighbouring columns; eight warps share the rows, and one adds what they have.
__global__ void __launch_bounds__(kColumns* kSplits) parameter_gradients(Parameters a) {
  WT_SHARED(float, weights, [kSplits][kColumns]);
  WT_SHARED(float, biases, [kSplits][kColumns]);
  const int column = int(threadIdx.x) % kColumns, split = int(threadIdx.x) / kColumns;
  const int i = int(blockIdx.x) * kColumns + column;
  float weight = 0, bias = 0;
  for (int r = split; r < a.rows && i < a.n; r += kSplits) {
    const float g = a.gy[i64(r) * a.n + i];
    bias += g;
    weight += g * (a.x[i64(r) * a.n + i] - a.saved.mean[r] - a.saved.left[r]) * a.saved.rstd[r];
  }
  weights[split][column] = weight, biases[split][column] = bias;
  __syncthreads();
  if (split || i >= a.n) return;
  for (int k = 1; k < kSplits; ++k) weight += weights[k][column], bias += biases[k][column];
  put(a, i, weight, bias);
}

Parameters parameters_of(const LayerNormBackwardParamsArgs& a) {
  return {a.gweight.as<float>(), a.gbias.as<float>(), a.gy.as<const float>(),
          a.x.as<const float>(), saved_of(a.stats),   int(rows_of(a.x)),
          length_of(a.x),        a.accumulate_weight, a.accumulate_bias};
}
void parameters(const LayerNormBackwardParamsArgs& a, const Launch& l) {
  launch<parameter_gradients>(grid_of(l, ceil_div(length_of(a.x), kColumns), kColumns * kSplits),
                              parameters_of(a));
}
const char* why_not_parameters(const LayerNormBackwardParamsArgs& a) {
  return plain_f32(a.gy) && plain_f32(a.x) ? nullptr : "anything but contiguous f32";
}

// --- batch norm, statistics ---

constexpr int kChannelThreads = 128;

// x is [samples, channels, inside], C order: element s of channel c in sample n is at
// (n * channels + c) * inside + s.
struct Channels {
  int samples, channels, inside;
  __host__ __device__ int members() const { return samples * inside; }
  // Member e of channel c.
  __device__ i64 at(int c, int e) const {
    return (i64(e / inside) * channels + c) * inside + e % inside;
  }
};
Channels channels_of(const View& x) { return {int(x.size(0)), int(x.size(1)), int(x.size(2))}; }

// A block has a channel; the variance is taken around the mean.
__global__ void __launch_bounds__(kChannelThreads)
    channel_statistics(float* stats, float* variance, const float* x, Channels s, float eps) {
  const int c = int(blockIdx.x), m = s.members();
  float sum = 0;
  for (int e = int(threadIdx.x); e < m; e += kChannelThreads) sum += x[s.at(c, e)];
  const float mean = block_reduce(sum, Plus()) / float(m);
  float left = 0, squares = 0;
  for (int e = int(threadIdx.x); e < m; e += kChannelThreads) {
    const float d = x[s.at(c, e)] - mean;
    left += d, squares += d * d;
  }
  left = block_reduce(left, Plus()) / float(m);
  squares = block_reduce(squares, Plus()) / float(m) - left * left;
  if (threadIdx.x) return;
  stats[c] = mean, stats[s.channels + c] = left;
  stats[2 * s.channels + c] = 1 / sqrtf(squares + eps);
  if (variance) variance[c] = squares;
}

void statistics(const ChannelStatsArgs& a, const Launch& l) {
  const Channels s = channels_of(a.x);
  launch<channel_statistics>(grid_of(l, s.channels, kChannelThreads), a.stats.as<float>(),
                             a.variance.as<float>(), a.x.as<const float>(), s, float(a.eps));
}
const char* why_not_statistics(const ChannelStatsArgs& a) {
  if (a.groups) return "groups";
  return plain_f32(a.x) && a.x.numel() < 1 << 30 ? nullptr : "anything but contiguous f32";
}

// --- batch norm, gradient of the input ---

struct BatchGradient {
  float* gx;
  const float *gy, *x, *weight;
  Saved saved;
  const float* sums;  // [2, channels]: of gy, and of gy * h; null: mean and rstd are constants
  Channels s;
  template <class F>
  void visit_pointers(F&& f) const {
    f(gx), f(gy), f(x), f(weight), f(saved.mean), f(sums);
  }
};

// An element a thread: what depends on the others is in the sums already.
__global__ void __launch_bounds__(kChannelThreads) batch_gradient(BatchGradient a) {
  const int e = int(blockIdx.x) * kChannelThreads + int(threadIdx.x);
  if (e >= a.s.members() * a.s.channels) return;
  const int c = e / a.s.inside % a.s.channels;
  const float w = a.weight ? a.weight[c] : 1, m = float(a.s.members()), rstd = a.saved.rstd[c];
  const float h = (a.x[e] - a.saved.mean[c] - a.saved.left[c]) * rstd;
  const float sum = a.sums ? a.sums[c] : 0, dot = a.sums ? a.sums[a.s.channels + c] : 0;
  a.gx[e] = rstd * w * (a.gy[e] - sum / m - h * dot / m);
}

void batch(const ChannelNormBackwardArgs& a, const Launch& l) {
  launch<batch_gradient>(
      grid_of(l, ceil_div(a.x.numel(), kChannelThreads), kChannelThreads),
      BatchGradient{a.gx.as<float>(), a.gy.as<const float>(), a.x.as<const float>(),
                    a.weight.as<const float>(), saved_of(a.stats), a.sums.as<const float>(),
                    channels_of(a.x)});
}
const char* why_not_batch(const ChannelNormBackwardArgs& a) {
  if (a.groups || a.activation != Activation::none) return "groups, or an activation behind it";
  const bool plain = plain_f32(a.gx) && plain_f32(a.gy) && plain_f32(a.x);
  return plain && a.x.numel() < 1 << 30 ? nullptr : "anything but contiguous f32";
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, layer_norm_forward, LayerNormForwardArgs,
            {.name = "mine", .why_not = why_not_forward, .launch = forward});
WT_VARIANTS(WT_DEVICE_NS, layer_norm_backward_input, LayerNormBackwardInputArgs,
            {.name = "mine", .why_not = why_not_gradient, .launch = gradient});
WT_VARIANTS(WT_DEVICE_NS, layer_norm_backward_params, LayerNormBackwardParamsArgs,
            {.name = "mine", .why_not = why_not_parameters, .launch = parameters});
WT_VARIANTS(WT_DEVICE_NS, channel_stats, ChannelStatsArgs,
            {.name = "mine", .why_not = why_not_statistics, .launch = statistics});
WT_VARIANTS(WT_DEVICE_NS, channel_norm_backward, ChannelNormBackwardArgs,
            {.name = "mine", .why_not = why_not_batch, .launch = batch});

}  // namespace wt
