// What an Optimizer keeps on the device beside the arenas. Internal.
#pragma once
#include <cstddef>

#include "warptape/kernels/grad_norm.h"
#include "warptape/optim/arena.h"
#include "warptape/optim/cohorts.h"
#include "warptape/optim/optimizer.h"

namespace wt::optim {

namespace info {
inline constexpr OpInfo step{.name = "optimizer_step", .derivative = Derivative::none};
}

namespace detail {

// Schedule values uploaded at a time.
inline constexpr i64 kTableSize = 256;
// Host-written fields come first, counts and derived ones behind them.
inline constexpr size_t kHostBytes = offsetof(OptimBlock, applied);
inline constexpr i64 kBlock = sizeof(OptimBlock);
// The blocks of the groups, then these.
inline constexpr i64 kNormAt = 0, kFactorAt = 8, kMarkAt = 16, kFoundAt = 24, kTailBytes = 32;
// The value of optim.kind.<optimizer>: what the state's names and scalars mean.
inline constexpr i64 kMark = 1;

}  // namespace detail

// What lies on the device beside the arenas.
struct Optimizer::Memory {
  Device device;
  detail::StorageRef block;  // an OptimBlock a group; norm, clip factor, mark
  detail::StorageRef table, partials;
  std::vector<OptimBlock> host;  // what the host writes
  i64 table_left = 0;            // steps until the table must be looked at
  u32 mailbox_lane = ~u32{0};    // whose mailbox mailbox() is; at first nobody's
  Tensor applied_then{};         // the count when the table was filled, on its way to the host
  detail::Cohorts cohorts{};     // of parameters that have missed steps

  OptimBlock* on_device(size_t group) const {
    return block->data ? static_cast<OptimBlock*>(block->data) + group : nullptr;
  }
  i64 tail(i64 at) const { return i64(host.size()) * detail::kBlock + at; }
  Launch launch() const { return {&info::step, mode.native_stream, nullptr, device}; }
};

}  // namespace wt::optim
