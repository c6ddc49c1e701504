// State of a block's mbarriers, TMA loads and wgmmas. Internal to kernels/simt/.
//
// What a unit does on its own happens as late as it may: a load lands when no thread of the block
// can go on without one, a product is computed when a warp has to wait for it. Until then the bytes
// of a load and the registers of a product are 0xff. In random order loads land in any order, and
// some products are computed at once.
#pragma once
#include <vector>

#include "warptape/kernels/simt/hopper.h"
#include "warptape/kernels/simt/scheduler.h"

namespace wt::simt_runtime {

struct MbarrierState {
  char* place;
  unsigned index, count;  // arrivals that a phase takes
  unsigned pending;       // that this one still takes
  int64_t bytes = 0;      // that it expects and have not landed; below 0: have landed unexpected
  uint64_t phase = 0;     // that is under way; as many have ended
  uint64_t waited = 0;    // phases, from the first, that somebody has waited for
  Loc made;
  bool fenced = false;  // TMA can see it
  std::vector<unsigned> waiters;
};

struct TmaLoad {
  char* to;
  size_t bytes;
  TensorBox box;
  int inner, outer;
  unsigned barrier;
  uint64_t phase;
  Loc at;
};
// What a load has left in shared memory.
struct TmaTile {
  char* to;
  size_t bytes;
  bool swizzled;
  Loc at;
};

struct Bytes {
  const char *begin, *end;
  bool meets(const char* p, size_t bytes) const { return p < end && begin < p + bytes; }
};

constexpr unsigned kWarpgroup = 128;

// One array of accumulators of a warpgroup. `value` is what the tensor cores have made of it,
// thread by thread.
struct Accumulators {
  float* d[kWarpgroup];
  unsigned count;  // floats a thread
  std::vector<float> value;
  unsigned under_way = 0;  // products that not every thread has waited for
};
struct Wgmma {
  WgmmaShape shape;
  uint64_t a, b;
  unsigned accumulators, group;
  Loc at;
  Bytes reads[2];
  bool computed = false;
};
struct Warpgroup {
  // Threads that have come to the wgmma that is being asked for.
  unsigned arrived = 0;
  uint32_t waiting[4] = {};
  WgmmaShape shape{};
  uint64_t a = 0, b = 0;
  Loc at{nullptr, 0};
  float* d[kWarpgroup];
  // Of each thread: groups committed, groups waited for, fences.
  unsigned groups[kWarpgroup] = {}, done[kWarpgroup] = {};
  bool fenced_ever[kWarpgroup] = {}, fenced[kWarpgroup] = {};
  std::vector<Wgmma> products;
  std::vector<Accumulators> accumulators;

  // Whether warp by warp all have waited for it. The lanes of a warp wait together on a GPU.
  bool waited_for(const Wgmma& m) const {
    for (unsigned w = 0; w < 4; ++w) {
      unsigned most = 0;
      for (unsigned i = 32 * w; i < 32 * w + 32; ++i) most = done[i] > most ? done[i] : most;
      if (m.group >= most) return false;
    }
    return true;
  }
};

struct AsyncUnits {
  bool used = false;  // by this block
  std::vector<MbarrierState> barriers;
  std::vector<TmaLoad> loads;  // under way
  std::vector<TmaTile> tiles;
  Warpgroup groups[kMaxThreads / kWarpgroup];
};

AsyncUnits& async_units(Exec& x);
bool in_shared_array(const Exec& x, const char* p, size_t bytes);
// wgmma.cpp: a product that nobody has waited for and that reads some of these bytes, or null.
const Wgmma* reader_under_way(const Exec& x, const char* p, size_t bytes);
// tma.cpp
const TmaLoad* load_under_way(const Exec& x, const char* p, size_t bytes);
void land(Exec& x, size_t load);
// mbarrier.cpp
MbarrierState& find_barrier(Exec& x, const void* barrier, const char* what, Loc here);
void barrier_advanced(Exec& x, MbarrierState& b);

}  // namespace wt::simt_runtime
