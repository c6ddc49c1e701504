#include "warptape/tools/wt/look/occupancy.h"

#include <algorithm>

#include "warptape/core/error.h"

namespace wt::tools {
namespace {

constexpr i64 kWarp = 32, kQuarters = 4, kRegisterUnit = 256, kSharedUnit = 128;

i64 round_up(i64 n, i64 unit) { return (n + unit - 1) / unit * unit; }

// A warp's registers come from one quarter of the processor, in units.
i64 warps_by_registers(const BlockNeeds& b, const Multiprocessor& on) {
  return on.registers / kQuarters / round_up(b.registers * kWarp, kRegisterUnit) * kQuarters;
}

}  // namespace

Occupancy occupancy_of(const BlockNeeds& block, const Multiprocessor& on) {
  if (block.threads < 1) throw UsageError("occupancy: a block has no threads");
  const i64 warps = round_up(block.threads, kWarp) / kWarp;
  Occupancy o;
  o.most_warps = on.threads / kWarp;
  o.limits = {{"threads", o.most_warps / warps}, {"blocks", on.blocks}};
  if (block.registers > 0) o.limits.push_back({"registers", warps_by_registers(block, on) / warps});
  const i64 shared = round_up(block.shared + on.reserved, kSharedUnit);
  o.limits.push_back({"shared memory", on.shared / shared});
  o.blocks = o.limits[0].blocks;
  for (const OccupancyLimit& l : o.limits) o.blocks = std::min(o.blocks, l.blocks);
  o.warps = o.blocks * warps;
  if (o.warps < o.most_warps)
    for (const OccupancyLimit& l : o.limits)
      if (l.blocks == o.blocks) o.limiters.push_back(l.what);
  return o;
}

}  // namespace wt::tools
