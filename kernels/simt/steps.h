// One block of a launch, step by step: what its warps loaded and stored, where they waited, in an
// order in which a GPU could have done it. Only where kernels are instrumented: the race flavour.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "warptape/core/macros.h"

namespace wt {

using SimtValue = std::array<uint64_t, 2>;

// What the active lanes of a warp did in one execution of an instruction.
struct SimtStep {
  enum class Kind : uint8_t {
    load,
    store,
    atomic,
    copy,      // an asynchronous one: the values arrive later
    exchange,  // lanes met in a shuffle, a vote, a product: `what`
    barrier    // all warps of the block met
  };
  Kind kind = Kind::load;
  bool shared = false;
  unsigned warp = 0;
  uint32_t lanes = 0;  // a bit each
  unsigned bytes = 0;  // of a lane's access
  uint32_t place = 0;  // index into SimtSteps::places
  const char* what = "";
  // By lane: the offset in an array of shared memory, or in a piece of the device's, and which one.
  std::array<uint64_t, 32> offset{};
  std::array<uint32_t, 32> memory{};
  // Of loads what was read, of stores and atomics what was there afterwards; of an exchange what
  // each lane gave. Accesses have 16 bytes at most.
  std::array<SimtValue, 32> value{};
};

struct SimtSteps {
  std::string kernel;  // "softmax_warp<float, 4, 8> [softmax]"; empty: no such launch
  std::array<unsigned, 3> grid{}, block{};
  uint64_t number = 0;  // of the block, as it ran
  // "/path/kernels/softmax/softmax.cu:61", the innermost function first, the kernel last.
  std::vector<std::vector<std::string>> places;
  uint32_t memories = 0;  // pieces of device memory that were touched, in the order of their use
  std::vector<SimtStep> steps;
  bool cut = false;  // there were more than kMostSimtSteps
};
inline constexpr size_t kMostSimtSteps = 50'000;

// From here on, of the launch of this number (from 0) the block of this number. Ends by
// simt_stop_steps(). UsageError without instrumented kernels, or while accesses are counted.
WT_API void simt_start_steps(uint64_t launch, uint64_t block);
WT_API SimtSteps simt_stop_steps();

}  // namespace wt
