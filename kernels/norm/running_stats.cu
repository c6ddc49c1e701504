// Running statistics on simt and cuda: a thread a channel. What a launch costs is all that counts
// here, a few hundred numbers being read: hence one for both statistics and the count.
#include "warptape/kernels/running_stats.h"

#include "warptape/kernels/device/number.cuh"
#include "warptape/kernels/device/row_kernels.cuh"
#include "warptape/kernels/norm/running_share.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr i64 kThreads = 128;

struct Statistics {
  void* to;
  const void *old, *batch;
  DType dtype, batch_dtype;
  i64 to_step, old_step, batch_step;
  double factor;
  Statistics(const View& to, const View& old, const View& batch, double factor)
      : to(to.data),
        old(old.data),
        batch(batch.data),
        dtype(to.dtype()),
        batch_dtype(batch.dtype()),
        to_step(to.stride(0)),
        old_step(old.stride(0)),
        batch_step(batch.stride(0)),
        factor(factor) {}
};

struct RunningStats {
  Statistics mean, var;
  const i64* count;
  i64* new_count;
  i64 channels, samples;
  double momentum;
  template <class F>
  void visit_pointers(F&& f) const {
    f(mean.to), f(mean.old), f(mean.batch);
    f(var.to), f(var.old), f(var.batch);
    f(count), f(new_count);
  }
};

__device__ __forceinline__ void move(const Statistics& s, i64 c, const RunningStats& a,
                                     double share) {
  double sum = 0;
  for (i64 i = 0; i < a.samples; ++i)
    sum += DeviceNumbers::at(s.batch_dtype, s.batch, (i * a.channels + c) * s.batch_step);
  const double old = DeviceNumbers::at(s.dtype, s.old, c * s.old_step);
  DeviceNumbers::put(s.dtype, s.to, c * s.to_step,
                     moved_statistic(old, s.factor * (sum / double(a.samples)), share));
}

__global__ void __launch_bounds__(kThreads) running_stats_naive(RunningStats a) {
  const i64 c = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  const i64 count = a.count ? *a.count : 0;
  if (c == 0 && a.count) *a.new_count = count + 1;
  if (c >= a.channels) return;
  const double share = running_share(a.momentum, count);
  move(a.mean, c, a, share);
  move(a.var, c, a, share);
}

void launch_naive(const RunningStatsArgs& a, const Launch& l) {
  const i64 channels = a.new_mean.numel();
  const RunningStats k{{a.new_mean, a.mean, a.batch_mean, 1},
                       {a.new_var, a.var, a.batch_var, a.unbiased},
                       a.count.as<const i64>(),
                       a.new_count.as<i64>(),
                       channels,
                       channels ? a.batch_mean.numel() / channels : 0,
                       a.momentum};
  launch<running_stats_naive>(grid_of(l, ceil_div(channels, kThreads), kThreads), k);
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, running_stats, RunningStatsArgs,
            {.name = "naive", .rank = 10, .launch = launch_naive});

}  // namespace wt
