// Kernels that are compiled while the program runs: found in memory, on disk or by compiling, and
// launched. Behind autograd/runtime_kernel.h. Internal.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "warptape/core/device.h"
#include "warptape/core/macros.h"
#include "warptape/core/types.h"
#include "warptape/kernels/jit/compile.h"

namespace wt::jit {

// One that the runtime has. Lives as long as the process.
struct LoadedKernel {
  const void* handle = nullptr;    // a cudaKernel_t
  const char* name = nullptr;      // the source's
  std::vector<size_t> parameters;  // bytes of each
};

// Compiled for the device, or for `arch` unless that is empty. Throws what compile() does,
// NotAvailable, DeviceError for code that the device does not take.
const LoadedKernel& kernel_for(const KernelSource& source, const std::string& arch, Device d);
// The code alone, which needs no device.
WT_API const KernelCode& code_for(const KernelSource& source, const std::string& arch);

struct Counts {
  long long compiled = 0, memory_hits = 0, disk_hits = 0;
};
WT_API Counts counts();
// For tests: what is in memory is not known any more (and stays where it is).
WT_API void forget_kernels();
// Grows with forget_kernels() and when the cuda device is another one: what was found is void.
unsigned long long kernel_generation();

struct Grid {
  unsigned blocks[3], threads[3];
  size_t shared;  // dynamic, bytes
};
// `values`: a word an argument, of which the kernel reads as many bytes as it has parameters for;
// checked by the caller. Tells the allocator which stream uses what they point to. Throws
// DeviceError.
void launch(const LoadedKernel& kernel, const Grid& grid, std::span<u64> values, Device d,
            void* stream);

}  // namespace wt::jit
