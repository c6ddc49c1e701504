// How many blocks of a kernel a multiprocessor holds at once, and what keeps more of them out.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/types.h"

namespace wt::tools {

// Of a multiprocessor of compute capability 9.0; docs/gpu_model.md has the sources.
struct Multiprocessor {
  i64 threads = 2048, blocks = 32, registers = 65536;
  // Bytes; the latter for each block, whose sum is handed out in units of 128.
  i64 shared = 228 << 10, reserved = 1024;
};

struct BlockNeeds {
  i64 threads = 0;    // at least 1
  i64 registers = 0;  // of a thread; 0: not known
  i64 shared = 0;     // bytes
};

struct OccupancyLimit {
  std::string what;  // "threads", "registers", "shared memory", "blocks"
  i64 blocks = 0;    // that it lets in
};

struct Occupancy {
  i64 blocks = 0, warps = 0, most_warps = 0;
  std::vector<OccupancyLimit> limits{};  // those that are known
  std::vector<std::string> limiters{};   // the least of them; empty: every warp has its place
};

// UsageError for a block without threads.
Occupancy occupancy_of(const BlockNeeds& block, const Multiprocessor& on = {});

}  // namespace wt::tools
