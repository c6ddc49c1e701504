// What threads know of each other's past within a block, for the race checker. Internal to
// kernels/simt/.
#pragma once
#include <cstring>
#include <vector>

#include "warptape/kernels/simt/race_shadow.h"
#include "warptape/kernels/simt/scheduler.h"

namespace wt::simt_runtime {

// Which __syncwarp of a lane the other lanes of its warp know of, directly or through others.
struct WarpClocks {
  uint32_t own[32], seen[32][32];
  bool used = true;
  void reset() {
    if (!used) return;
    for (uint32_t& c : own) c = 1;
    std::memset(seen, 0, sizeof seen);
    used = false;
  }
  void sync(unsigned mask) {
    used = true;
    uint32_t merged[32] = {};
    for (unsigned rest = mask; rest; rest &= rest - 1) {
      const uint32_t* known = seen[__builtin_ctz(rest)];
      for (unsigned k = 0; k < 32; ++k) merged[k] = known[k] > merged[k] ? known[k] : merged[k];
    }
    for (unsigned rest = mask; rest; rest &= rest - 1)
      merged[__builtin_ctz(rest)] = own[__builtin_ctz(rest)]++;
    for (unsigned rest = mask; rest; rest &= rest - 1)
      std::memcpy(seen[__builtin_ctz(rest)], merged, sizeof merged);
  }
};

// What each thread knows of the others by mbarriers, once a block has one: the count of the last
// __syncwarp or arrival of theirs that came before. Behind the block's threads there are a few more
// for the loads of mbarriers.
struct MbarrierClocks {
  static constexpr unsigned kLoads = 32;
  unsigned threads = 0, first_load = 0, width = 0;     // 0: none used in this block
  std::vector<uint32_t> known;                         // by thread
  std::vector<std::vector<uint32_t>> released, ended;  // by barrier: in this phase, before it
  std::vector<Access> made;                            // mbarrier_init
  uint32_t landed = 1;

  void begin(unsigned n) {
    if (width) return;
    threads = n;
    first_load = (n + 31) / 32 * 32;
    width = first_load + kLoads;
    known.assign(size_t(n) * width, 0);
    released.clear();
    ended.clear();
    made.clear();
    landed = 1;
  }
  void make(unsigned barrier) {
    if (barrier < released.size()) return;
    released.resize(barrier + 1, std::vector<uint32_t>(width));
    ended.resize(barrier + 1, std::vector<uint32_t>(width));
    made.resize(barrier + 1);
  }
  unsigned load_of(unsigned barrier) const {
    const unsigned thread = first_load + barrier % kLoads;
    return thread < kMaxThreads ? thread : kMaxThreads - 1;
  }
  static void merge(uint32_t* to, const uint32_t* from, unsigned n) {
    for (unsigned i = 0; i < n; ++i) to[i] = from[i] > to[i] ? from[i] : to[i];
  }
  uint32_t* of(unsigned thread) { return &known[size_t(thread) * width]; }
};

}  // namespace wt::simt_runtime
