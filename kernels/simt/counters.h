// What the accesses of a kernel would ask of a GPU's memory system, counted access by access. Only
// where kernels are instrumented: the race flavour. docs/simt.md says what the numbers mean.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "warptape/core/error.h"

namespace wt {

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
  // "/path/kernels/softmax/softmax.cu:61", the innermost function first, the kernel last.
  std::vector<std::string> where;
};

struct SimtKernelCounts {
  std::string kernel;  // "softmax_warp<float, 4, 8> [softmax]"
  uint64_t launches = 0, blocks = 0, threads = 0, barriers = 0;
  // Bytes in the different sectors of a launch, added up over launches: what has to travel if a
  // cache keeps everything that was touched until the launch ends.
  uint64_t read = 0, written = 0;
  std::vector<SimtAccess> accesses;  // in the order of their lines
};

WT_API bool simt_can_count();
// One count at a time, in a program; UsageError without instrumented kernels.
WT_API void simt_start_counting();
// Waits for queued work. Kernels in the order of their first launch.
WT_API std::vector<SimtKernelCounts> simt_stop_counting();

}  // namespace wt
