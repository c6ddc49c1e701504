// FLOPs of what runs while it listens, as the kernels' contracts count them. Internal.
#pragma once
#include "warptape/core/profiler.h"

namespace wt::bench {

struct FlopCount final : profiler::Observer {
  double flops = 0;
  void begin(const profiler::Range& r) noexcept override { flops += r.flops; }
};

}  // namespace wt::bench
