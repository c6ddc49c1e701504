// The profile as a page: internal to profile.cpp.
#pragma once
#include "exec/kernel.h"

namespace emu {

struct KernelProfile {
  const Program::Kernel* kernel = nullptr;
  std::string name, full_name;
  u64 launches = 0;
  Dim3 grid, block;  // of the last launch
  LaunchCounts counts;
  std::vector<LineCounts> lines;  // by instruction
};

// Rows of fields between tabs: "kernel", its name, launches, registers about; then its
// instructions: executed by warps, by lanes, requests, sectors or wavefronts of them, file, line,
// PTX.
std::string profile_table(const std::vector<const KernelProfile*>& kernels);
std::string profile_page(const std::vector<const KernelProfile*>& kernels, u64 instructions);

}  // namespace emu
