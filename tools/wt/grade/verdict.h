// What is said of a kernel. Internal.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/types.h"

namespace wt::grade {

struct Finding {
  std::string kind{};      // "race", "values", ...: the words of docs/grading.md
  std::string sentence{};  // without file and line
  std::string file{};
  int line = 0;        // 0: no line of the file is to blame alone
  std::string hint{};  // one
};

// What the score launch asked of memory; all zero where it was not counted.
struct Score {
  bool counted = false;
  double contract_bytes = 0;
  double asked = 0, touched = 0;  // bytes of all sectors, and of different ones
  double lanes = 0;               // of 32, mean
  double passes = 0, least_passes = 0;
  double mma = 0;         // products of tensor cores, a warp each
  std::string busiest{};  // where most sectors are asked for
  int points = 0;         // of 100
  std::vector<std::string> reasons{};
};

// What ptxas made of a kernel: machine code that the emulated device does not run.
struct DeviceKernel {
  std::string name{};
  int registers = 0, stack = 0, spill_stores = 0, spill_loads = 0;  // bytes, but for registers
  int shared = 0;                                                   // static
};

// On the emulated cuda device; all empty where nothing was run there.
struct DevicePart {
  int launches = 0;                     // made, in other orders of warps and blocks, too
  int refused = 0;                      // kinds of launches that its why_not takes on simt alone
  int left_out = 0;                     // launches, for want of time
  std::string code{};                   // "sm_90a"
  std::vector<DeviceKernel> kernels{};  // that it launched
};

struct Verdict {
  std::string file{}, op{}, variant{};
  u64 seed = 0;
  bool passed = false;
  bool deterministic = true;           // what its table says
  std::vector<Finding> findings{};     // why it did not pass; empty if it did
  int cases = 0, taken = 0;            // kinds of launches, and those that the variant takes
  std::vector<std::string> refused{};  // what it does not take, with its reason
  std::vector<std::string> notes{};    // what was not tried, and why
  std::vector<std::string> flavours{};
  Score score{};
  DevicePart device{};
};

std::string verdict_text(const Verdict& v);
std::string verdict_json(const Verdict& v);  // one line

}  // namespace wt::grade
