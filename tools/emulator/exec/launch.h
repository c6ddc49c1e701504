// Running one kernel launch: what the runtime (device/, api/) asks of the interpreter.
#pragma once
#include <functional>
#include <map>
#include <memory>

#include "basic.h"
#include "ptx/syntax.h"

namespace emu {

struct QueuedOp;
struct GpuModel;

// A compiled-in module, read at the first launch of one of its kernels.
class Program {
 public:
  explicit Program(std::string ptx);
  ~Program();

  const ptx::Module& module() const;
  // Null: there is no such entry. Reads and decodes the body at the first call; throws
  // std::runtime_error with the PTX line of what is not understood.
  struct Kernel;
  const Kernel* kernel(const std::string& name);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// What is known of a kernel before it runs.
struct KernelInfo {
  std::string name;           // mangled
  std::vector<u32> param_at;  // offset of each parameter in the block of parameters
  std::vector<u32> param_bytes;
  u32 params_bytes = 0;
  u32 static_shared = 0;
  u32 local_bytes = 0;     // a thread
  u32 registers = 0;       // estimate from liveness, in 32-bit words: ptxas may need fewer or more
  u32 max_threads = 1024;  // .maxntid
  bool uses_clusters = false;
};
const KernelInfo& info(const Program::Kernel& k);

// Something that a GPU would have faulted at, or that is wrong though it would not have.
struct KernelFault {
  enum class Kind : u8 {
    illegal_address,
    misaligned,
    illegal_instruction,
    assertion,
    barrier,
    race,
    order,
    limit
  };
  Kind kind = Kind::illegal_address;
  std::string what;  // one line
  std::string kernel;
  u32 block[3] = {}, thread[3] = {};
  u32 ptx_line = 0;
  std::string ptx;               // the instruction's text
  std::string file, outer_file;  // of the source; empty: built without -lineinfo
  u32 line = 0, outer_line = 0;
};

struct LaunchCounts {
  u64 warp_instructions = 0, lane_instructions = 0;
  u64 global_requests = 0, global_sectors = 0;     // loads and stores; 32-byte sectors
  u64 shared_requests = 0, shared_wavefronts = 0;  // banks of 4 bytes; 1 a request is the best
  u64 barriers = 0, atomics = 0;
};

// One line of the profile: an instruction of the kernel.
struct LineCounts {
  u64 executed = 0, lanes = 0, requests = 0, units = 0;  // units: sectors or wavefronts
};

struct LaunchRequest {
  const Program::Kernel* kernel = nullptr;
  Dim3 grid, block, cluster;
  u32 dynamic_shared = 0;
  const void* params = nullptr;  // info().params_bytes
  int device = 0;
  const GpuModel* gpu = nullptr;
  u64 seed = 0;  // of the order of blocks and warps
  bool cooperative = false;
  u64 grid_workspace = 0;        // cooperative: 64 zeroed bytes of device memory for grid.sync()
  const QueuedOp* op = nullptr;  // for note_access(); null: not checked
  std::function<u64(const std::string&)> symbol_address;  // of the module's variables, generic
  std::vector<LineCounts>* profile = nullptr;             // by instruction; null: not asked for
  // Races and accesses that nothing orders, at which hardware goes on: told, and the kernel goes
  // on. Null: they are faults.
  std::function<void(const KernelFault&)> warn;
};

// Runs the grid to its end. False: it met the fault, and the context is lost as on hardware.
bool run_kernel(const LaunchRequest& request, LaunchCounts* counts, KernelFault* fault);

}  // namespace emu
