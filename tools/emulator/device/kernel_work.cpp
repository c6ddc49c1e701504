#include "device/kernel_work.h"

#include <driver_types.h>

#include <algorithm>
#include <cstring>

#include "device/context.h"
#include "device/gpu.h"
#include "device/settings.h"
#include "profile.h"

namespace emu {
namespace {

constexpr double kLaunchNanoseconds = 3000;  // modelled, of an empty kernel

int error_of(KernelFault::Kind kind) {
  switch (kind) {
    case KernelFault::Kind::illegal_address:
      return cudaErrorIllegalAddress;
    case KernelFault::Kind::misaligned:
      return cudaErrorMisalignedAddress;
    case KernelFault::Kind::illegal_instruction:
      return cudaErrorIllegalInstruction;
    case KernelFault::Kind::assertion:
      return cudaErrorAssert;
    default:
      return cudaErrorLaunchFailure;
  }
}

// Counters of grid.sync(), zero when a cooperative launch begins.
u64 grid_workspace(int device) {
  static u64 blocks[16] = {};
  u64& at = blocks[device];
  if (!at || !block_at(at)) {
    Block* b = take_block(BlockKind::device, device, 64);
    if (!b) return 0;
    b->internal = true;
    at = b->begin;
  }
  std::memset(reinterpret_cast<void*>(at + u64(block_at(at)->alias)), 0, 64);
  // Launches that nothing orders share it, one after the other.
  std::fill_n(shadow_of(at), 2, Sector{});
  return at;
}

std::string triple(const Dim3& d) {
  std::string text = std::to_string(d.x);
  if (d.y > 1 || d.z > 1) text += "," + std::to_string(d.y);
  if (d.z > 1) text += "," + std::to_string(d.z);
  return text;
}

u64 round_up(u64 x, u64 to) { return (x + to - 1) / to * to; }

}  // namespace

void KernelWork::take_arguments(void* const* args) {
  const KernelInfo& k = info(*function.kernel);
  params.assign(std::max<u32>(k.params_bytes, 1), 0);
  arguments.clear();
  for (size_t i = 0; i < k.param_at.size(); ++i) {
    std::memcpy(params.data() + k.param_at[i], args[i], k.param_bytes[i]);
    arguments.push_back(params.data() + k.param_at[i]);
  }
}

void KernelWork::run(QueuedOp& op) {
  LaunchRequest r;
  r.kernel = function.kernel;
  r.grid = shape.grid;
  r.block = shape.block;
  r.cluster = shape.cluster;
  r.dynamic_shared = u32(shape.dynamic_shared);
  r.params = params.data();
  r.device = op.device;
  r.gpu = &gpu_model();
  r.seed = settings().seed * 0x9E3779B97F4A7C15u + op.serial;
  r.cooperative = shape.cooperative;
  if (shape.cooperative) r.grid_workspace = grid_workspace(op.device);
  r.op = settings().order ? &op : nullptr;
  Module& m = *function.module;
  r.symbol_address = [&](const std::string& name) { return variable_address(m, name, op.device); };
  r.warn = [&](const KernelFault& f) { finding(f, op); };
  std::vector<LineCounts> lines;
  if (!settings().profile.empty()) {
    lines.resize(profile_lines(*r.kernel));
    r.profile = &lines;
  }
  LaunchCounts counts;
  KernelFault fault;
  const bool whole = run_kernel(r, &counts, &fault);
  if (!whole) {
    finding(fault, op);
    lose_device(op.device, error_of(fault.kind));
  }
  if (r.profile) profile_launch(*r.kernel, shape.grid, shape.block, counts, lines);
  Totals& t = totals();
  ++t.launches;
  if (function.launches++ == 0) ++t.kernels;
  t.warp_instructions += counts.warp_instructions;
  t.lane_instructions += counts.lane_instructions;
  const double issue = double(counts.warp_instructions) / gpu_model().instructions_per_ns();
  const double memory = 32.0 * double(counts.global_sectors) / gpu_model().bytes_per_ns();
  op.nanoseconds = kLaunchNanoseconds + std::max(issue, memory);
}

std::string KernelWork::name() const {
  std::string text =
      demangled(function.name) + "<<<" + triple(shape.grid) + "  " + triple(shape.block);
  if (shape.dynamic_shared) text += "  " + std::to_string(shape.dynamic_shared) + " bytes";
  return text + ">>>";
}

// Kernels reach host memory by pointers among their arguments, wherever they are in a structure.
Work::Touch KernelWork::touches(u64 begin, u64 end) const {
  const Block* b = find_block(begin);
  const u64 low = b ? b->begin : begin, high = b ? b->end : end;
  for (size_t at = 0; at + 8 <= params.size(); at += 4) {
    u64 x;
    std::memcpy(&x, params.data() + at, 8);
    if (x >= low && x < high) return Touch::writes;
  }
  return Touch::no;
}

u64 dynamic_limit(const Function& f, int device) {
  const u64 fixed = info(*f.kernel).static_shared;
  if (f.max_dynamic[device] >= 0)
    return std::max<u64>(u64(f.max_dynamic[device]),
                         gpu_model().shared_per_block - std::min<u64>(fixed, 48 << 10));
  return gpu_model().shared_per_block - std::min<u64>(fixed, gpu_model().shared_per_block);
}

u32 registers_of(const Function& f) {
  const KernelInfo& k = info(*f.kernel);
  const u32 n = std::clamp<u32>(k.registers, 16, 255);
  // ptxas keeps the promise of __launch_bounds__, if need be by spilling. 1024 is what the others
  // have, too.
  const u32 most = gpu_model().registers / u32(round_up(std::max<u32>(k.max_threads, 1), kLanes));
  return k.max_threads < 1024 ? std::min(n, most / 8 * 8) : n;
}

int resident_blocks(const Function& f, u64 threads, u64 dynamic_shared) {
  const GpuModel& g = gpu_model();
  const u64 warps = round_up(threads, kLanes) / kLanes;
  u64 n = std::min<u64>(u64(g.blocks_per_multiprocessor),
                        u64(g.threads_per_multiprocessor) / (warps * kLanes));
  const u64 per_warp = round_up(u64(registers_of(f)) * kLanes, 256);
  n = std::min(n, g.registers / per_warp / 4 * 4 / warps);
  const u64 shared = round_up(info(*f.kernel).static_shared + dynamic_shared, 128) +
                     (g.capability() >= 80 ? g.shared_reserved : 0);
  if (shared) n = std::min(n, g.shared_per_multiprocessor / shared);
  return int(n);
}

int check_launch(const Function& f, const LaunchShape& s, int device, std::string* why) {
  const GpuModel& g = gpu_model();
  const KernelInfo& k = info(*f.kernel);
  const Dim3 &grid = s.grid, &block = s.block;
  if (grid.count() == 0 || block.count() == 0) {
    *why = "a dimension of the grid or of the block is 0";
    return cudaErrorInvalidConfiguration;
  }
  if (block.x > 1024 || block.y > 1024 || block.z > 64 || block.count() > 1024) {
    *why = "a block has at most 1024 threads, (1024, 1024, 64) by dimension";
    return cudaErrorInvalidConfiguration;
  }
  if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) {
    *why = "a grid has at most (2147483647, 65535, 65535) blocks";
    return cudaErrorInvalidConfiguration;
  }
  if (block.count() > k.max_threads) {
    *why = "the kernel was compiled for at most " + std::to_string(k.max_threads) +
           " threads a block (__launch_bounds__)";
    return cudaErrorLaunchOutOfResources;
  }
  if (s.dynamic_shared > dynamic_limit(f, device)) {
    *why = std::to_string(k.static_shared) + " bytes of static and " +
           std::to_string(s.dynamic_shared) + " of dynamic shared memory: " +
           (f.max_dynamic[device] < 0
                ? "more than 48 KiB need cudaFuncSetAttribute(kernel, "
                  "cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) on this device"
                : "cudaFuncSetAttribute allowed " + std::to_string(f.max_dynamic[device]));
    return cudaErrorInvalidValue;
  }
  if (k.static_shared + s.dynamic_shared > g.shared_optin) {
    *why = "a block has at most " + std::to_string(g.shared_optin) + " bytes of shared memory";
    return cudaErrorInvalidValue;
  }
  if (s.cluster.count() > 1 || k.uses_clusters) {
    *why = "clusters are not emulated";
    return cudaErrorNotSupported;
  }
  if (s.cooperative) {
    const u64 room =
        u64(resident_blocks(f, block.count(), s.dynamic_shared)) * u64(g.multiprocessors);
    if (grid.count() > room) {
      *why = "a cooperative launch of " + std::to_string(grid.count()) + " blocks, of which " +
             std::to_string(room) + " fit on the device at a time";
      return cudaErrorCooperativeLaunchTooLarge;
    }
  }
  // The estimate may be off by some; twice as many are no error of estimation.
  if (u64(registers_of(f)) * round_up(block.count(), kLanes) > 2 * u64(g.registers))
    note("kernel " + demangled(f.name) + " may need " + std::to_string(registers_of(f)) +
         " registers a thread: " + std::to_string(block.count()) +
         " threads of a block then have too few; __launch_bounds__ would tell the compiler");
  return 0;
}

}  // namespace emu
