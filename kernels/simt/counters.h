// What the accesses of a kernel would ask of a GPU's memory system, counted access by access. Only
// where kernels are instrumented: the race flavour. docs/simt.md says what the numbers mean.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "warptape/core/error.h"

namespace wt {

// One execution by one warp: which lanes, and where each one's bytes begin. Of shared memory
// counted from the block's beginning, of the device's from the first sector that the warp asks for.
struct SimtRequest {
  uint32_t lanes = 0;  // a bit each
  std::array<uint64_t, 32> offset{};
};

// All executions of one memory instruction of a kernel. A request is what the active lanes of one
// warp do in one execution.
struct SimtAccess {
  enum class Kind { load, store, atomic };
  Kind kind = Kind::load;
  bool shared = false;  // memory: a block's, else the device's
  unsigned bytes = 0;   // of a lane
  uint64_t requests = 0;
  uint64_t lanes = 0;  // that took part, of 32 a request
  // Device memory: sectors of 32 bytes. Shared memory: passes over its 32 banks (wavefronts).
  uint64_t units = 0;
  uint64_t least = 0;  // units for as many different bytes in the best arrangement
  SimtRequest first;   // of all these requests
  // "/path/kernels/softmax/softmax.cu:61", the innermost function first, the kernel last.
  std::vector<std::string> where;
};

// Where warps wait for each other: a barrier, or lanes for lanes (shuffles, votes, mma).
struct SimtWait {
  std::string what;    // "__syncthreads"
  std::string where;   // "softmax.cu:61", of the innermost function
  uint64_t warps = 0;  // times that a warp has come here
};

// What a warp of the first block did between two barriers, in instructions: there is no time on
// simt.
struct SimtWarpWork {
  uint32_t device = 0, shared = 0, exchanges = 0;
  uint32_t all() const { return device + shared + exchanges; }
};
struct SimtPhase {
  std::vector<SimtWarpWork> warps;
  std::string barrier;  // that ends it: "softmax.cu:61"; empty: the kernel's end
};

struct SimtKernelCounts {
  std::string kernel;  // "softmax_warp<float, 4, 8> [softmax]"
  // Of the first launch: its grid and block, and the bytes of shared memory of a block.
  std::array<unsigned, 3> grid{}, block{};
  uint64_t shared_bytes = 0;
  uint64_t launches = 0, blocks = 0, threads = 0, barriers = 0;
  // Bytes in the different sectors of a launch, added up over launches: what has to travel if a
  // cache keeps everything that was touched until the launch ends.
  uint64_t read = 0, written = 0;
  std::vector<SimtAccess> accesses;  // in the order of their lines
  std::vector<SimtWait> waits;       // in the order of their lines
  std::vector<SimtPhase> phases;     // of the first block; at most kSimtPhases of `all_phases`
  uint64_t all_phases = 0;
};
inline constexpr uint64_t kSimtPhases = 256;

WT_API bool simt_can_count();
// One count at a time, in a program; UsageError without instrumented kernels.
WT_API void simt_start_counting();
// Waits for queued work. Kernels in the order of their first launch. Without lines `where` is empty
// and accesses are in the order of execution: no other process has to read the debug information.
WT_API std::vector<SimtKernelCounts> simt_stop_counting(bool with_lines = true);

}  // namespace wt
