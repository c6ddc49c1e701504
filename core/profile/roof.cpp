#include "warptape/core/profile/roof.h"

#include <algorithm>

namespace wt::profiler {

const Roofs::Rates& Roofs::rates(Device d, DType t) {
  const u64 key = u64(d.bits()) << 8 | u64(t) | u64{1} << 63;
  for (const Rates& r : rates_)
    if (r.key == key) return r;
  Rates r{key, 0, 0};
  if (known_.there() && !known_.figures.stands_in(d)) {
    r.bytes_per_ns = known_.figures.copy_gb_s(d);
    r.flops_per_ns = known_.figures.product_gflop_s(d, t);
    if (r.flops_per_ns <= 0) r.flops_per_ns = known_.figures.product_gflop_s(d, f32);
  }
  return rates_.emplace_back(r);
}

Roofs::Least Roofs::least(const Event& k) {
  const Rates& r = rates(k.device, k.dtype);
  return {r.bytes_per_ns > 0 ? k.bytes / r.bytes_per_ns : 0,
          r.flops_per_ns > 0 ? k.flops / r.flops_per_ns : 0};
}

void judge(Row& r, const Load& load) {
  if (load.kernel_ns > 0)
    r.roof = std::max(load.memory_ns, load.arithmetic_ns) / double(load.kernel_ns);
  if (r.outside || r.self_ns + load.kernel_ns == 0) return;
  if (mostly_waits(r)) {
    r.bound = "waiting";
    return;
  }
  if (load.untimed && load.kernel_ns == 0) return;  // nobody knows
  if (load.kernels == 0) {
    r.bound = "host";
    return;
  }
  if (load.queued ? load.kernel_ns < r.self_ns : 2 * load.kernel_ns < r.self_ns) {
    r.bound = load.queued ? "launch" : "host";
    return;
  }
  if (load.memory_ns > 0 || load.arithmetic_ns > 0)
    r.bound = load.memory_ns >= load.arithmetic_ns ? "memory" : "arithmetic";
}

}  // namespace wt::profiler
