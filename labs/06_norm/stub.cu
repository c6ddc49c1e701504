// Lab 6: layer norm and batch norm. page.md has the task; bodies with "Yours" are to be written,
// the rest is given and may be changed.
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

// Block r has row r: y = (x - mean) * rstd * weight + bias (take off `left`, too, if you save one
// that is not 0), and mean, left, rstd to stats[r],
// stats[rows + r], stats[2 * rows + r] if there are any.
__global__ void __launch_bounds__(kThreads) normalise(Forward a) {
  // Yours.
}

void forward(const LayerNormForwardArgs& a, const Launch& l) {
  const i64 rows = rows_of(a.x);
  launch<normalise>(grid_of(l, rows, kThreads),
                    Forward{a.y.as<float>(), a.stats.as<float>(), a.x.as<const float>(),
                            a.weight.as<const float>(), a.bias.as<const float>(), int(rows),
                            length_of(a.x), float(a.eps)});
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

// Block r has row r. With h = (x - mean - left) * rstd and g = gy * weight, sums over the row:
// gx = rstd * (g - sum(g) / n - h * sum(g * h) / n).
__global__ void __launch_bounds__(kThreads) input_gradient(Gradient a) {
  // Yours.
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

// A block has kColumns columns, kSplits threads share the rows of one: sums over all rows of gy * h
// and of gy, for put().
__global__ void __launch_bounds__(kColumns* kSplits) parameter_gradients(Parameters a) {
  // Yours. WT_SHARED(float, weights, [kSplits][kColumns]); is an array that the block shares.
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

// Block c has channel c: mean, left and rstd of its members, and their variance unless that is
// null.
__global__ void __launch_bounds__(kChannelThreads)
    channel_statistics(float* stats, float* variance, const float* x, Channels s, float eps) {
  // Yours. block_reduce(v, Plus()) gives every thread of the block the sum.
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

// Thread e of all has element e: gx = rstd * w * (gy - sums[0][c] / m - h * sums[1][c] / m), of m
// members, with h = (x - mean - left) * rstd.
__global__ void __launch_bounds__(kChannelThreads) batch_gradient(BatchGradient a) {
  // Yours.
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
// `wt grade` and the page call these two batch_norm_stats and batch_norm_backward.
WT_VARIANTS(WT_DEVICE_NS, channel_stats, ChannelStatsArgs,
            {.name = "mine", .why_not = why_not_statistics, .launch = statistics});
WT_VARIANTS(WT_DEVICE_NS, channel_norm_backward, ChannelNormBackwardArgs,
            {.name = "mine", .why_not = why_not_batch, .launch = batch});

}  // namespace wt
