// What the machine is doing now: its GPUs as NVIDIA's management library (NVML) tells of them, its
// processor and memory as Linux does, and this process with what its tensors hold.
//
//   machine::Watcher watcher;
//   while (training) {
//     ...
//     const machine::State now = watcher.look();
//     for (const machine::Gpu& g : now.gpus)
//       if (g.slowed) std::cerr << g.name << " is held down: " << g.throttle[0] << "\n";
//   }
//
// NVML is looked for when a Watcher is made: the file that WT_NVML names, else libnvidia-ml.so.1,
// which comes with the driver (WT_NVML=off: it is not looked for). Nothing of it is needed to
// build, no device is started and nothing that the machine does is changed. `wt info --watch` shows
// all this.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "warptape/core/memory.h"

namespace wt::machine {

// In all of these -1, and of texts nothing, stand for what nobody tells.

// One that has memory on a GPU.
struct GpuProcess {
  i64 pid = 0;
  std::string user{}, name{};  // empty where /proc does not show it: another container's
  i64 bytes = -1;
  bool own = false;  // this process
};

struct Gpu {
  int number = 0;             // among all of the machine: CUDA_VISIBLE_DEVICES changes CUDA's alone
  std::string name{}, bus{};  // "NVIDIA H200"; "0000:19:00.0", as cudaDeviceGetPCIBusId() has it
  // Parts, 0 to 1, of NVML's last period (at most a second) in which a kernel ran, and in which
  // memory was read or written. A kernel of one block counts as much as one that fills the GPU.
  double busy = -1, memory_busy = -1;
  i64 memory_used = -1, memory_total = -1;  // bytes, of all processes
  int sm_mhz = -1, most_sm_mhz = -1;        // clock of the multiprocessors, and the most it can be
  int memory_mhz = -1, most_memory_mhz = -1;
  double celsius = -1;
  double watts = -1, most_watts = -1;  // most: the limit in force
  // Why the clock is not at its most, in words, and NVML's bits. `slowed`: one of them is heat,
  // power or the supply; being idle and a clock that somebody has set are none.
  std::vector<std::string> throttle{};
  u64 throttle_bits = 0;
  bool slowed = false;
  std::vector<GpuProcess> processes{};  // the one with most memory first
};

struct Host {
  std::string processor{};        // "AMD EPYC 9B14"; "unknown"
  int processors = 0;             // logical ones that this process may use
  double load[3] = {-1, -1, -1};  // processes that run or want to: means of 1, 5 and 15 minutes
  double busy =
      -1;  // part, 0 to 1, of all processors' time since the last look; at the first: since boot
  double mhz = -1, most_mhz = -1;  // mean of the processors' clocks; what they are allowed to reach
  i64 memory_total = -1, memory_available = -1;  // bytes; available: without swapping
  i64 swap_total = -1, swap_used = -1;
  double swapped_bytes_s = -1;  // read from and written to swap, a second, since the last look
  i64 slowed = -1;              // how often heat has slowed a processor since the last look (x86)
};

// This process.
struct OwnProcess {
  i64 pid = 0;
  i64 resident = -1, most_resident = -1;  // bytes of host memory that it has, and had at most
  int threads = -1;
  // What tensors ask for (memory::stats()), of each kind of device that had any.
  std::vector<std::pair<Device, memory::Stats>> memory{};
};

struct State {
  double seconds = 0;  // since the look before; 0 at the first
  Host host{};
  std::string driver{};      // NVIDIA's: "570.86.10"
  std::vector<Gpu> gpus{};   // by number
  std::string why_no_gpu{};  // what is missing where there are none
  OwnProcess own{};
};

struct Sources;

// Looks again and again; rates are of the time between two looks. To be used by one thread.
class WT_API Watcher {
 public:
  Watcher();
  explicit Watcher(const Sources& from);  // for tests: core/machine/sources.h
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // Some milliseconds with a driver, less than one without. A figure that cannot be had is left
  // out; throws nothing but std::bad_alloc.
  State look();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A Watcher's first look.
WT_API State state();

// Of /proc/cpuinfo; "unknown".
WT_API std::string processor_name();

}  // namespace wt::machine
