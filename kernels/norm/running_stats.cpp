// Running statistics on the cpu.
#include "warptape/kernels/running_stats.h"

#include "warptape/kernels/common/number.h"
#include "warptape/kernels/norm/running_share.h"

namespace wt {
namespace {

void move(const View& to, const View& old, const View& batch, double factor, double share) {
  const i64 channels = to.numel();
  if (channels == 0) return;
  const i64 samples = batch.numel() / channels;
  for (i64 c = 0; c < channels; ++c) {
    double sum = 0;
    for (i64 i = 0; i < samples; ++i)
      sum += HostNumbers::at(batch.dtype(), batch.data, (i * channels + c) * batch.stride(0));
    const double was = HostNumbers::at(old.dtype(), old.data, c * old.stride(0));
    HostNumbers::put(to.dtype(), to.data, c * to.stride(0),
                     moved_statistic(was, factor * (sum / double(samples)), share));
  }
}

void running_stats_reference(const RunningStatsArgs& a, const Launch&) {
  const i64 count = a.count ? *a.count.as<i64>() : 0;
  const double share = running_share(a.momentum, count);
  move(a.new_mean, a.mean, a.batch_mean, 1, share);
  move(a.new_var, a.var, a.batch_var, a.unbiased, share);
  if (a.count) *a.new_count.as<i64>() = count + 1;
}

}  // namespace

WT_VARIANTS(cpu, running_stats, RunningStatsArgs,
            {.name = "reference", .launch = running_stats_reference});

}  // namespace wt
