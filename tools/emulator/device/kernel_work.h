// Kernel launches as queued work.
#pragma once
#include "device/modules.h"

namespace emu {

struct LaunchShape {
  Dim3 grid, block, cluster;
  u64 dynamic_shared = 0;
  bool cooperative = false;
};

struct KernelWork : Work {
  KernelWork(Function& f, const LaunchShape& s) : Work(WorkKind::kernel), function(f), shape(s) {}
  void run(QueuedOp& op) override;
  std::string name() const override;
  Touch touches(u64 begin, u64 end) const override;
  // Copies the parameters that args[i] point at.
  void take_arguments(void* const* args);

  Function& function;
  const LaunchShape shape;
  std::vector<u8> params;
  std::vector<void*> arguments;  // each parameter's place in `params`
};

// cudaError_t of a launch that a device refuses, and why.
int check_launch(const Function& f, const LaunchShape& s, int device, std::string* why);

// Blocks of a loaded kernel that fit into a multiprocessor at a time. Registers are an estimate.
int resident_blocks(const Function& f, u64 threads, u64 dynamic_shared);
u32 registers_of(const Function& f);
// The dynamic shared memory that a launch may ask for on the device.
u64 dynamic_limit(const Function& f, int device);

}  // namespace emu
