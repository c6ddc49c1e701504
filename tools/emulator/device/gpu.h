// The GPUs that can be emulated: figures of the models, as NVIDIA's tables and cudaDeviceProp give
// them. Every emulated device of a process is of one model.
#pragma once
#include "basic.h"

struct cudaDeviceProp;

namespace emu {

struct GpuModel {
  const char* key;   // of WT_EMU_GPU
  const char* name;  // as the driver says it
  int major, minor;
  int multiprocessors;
  int clock_khz, memory_clock_khz, bus_bits;
  u64 memory, l2_bytes;
  u32 shared_optin, shared_per_multiprocessor;
  int threads_per_multiprocessor, blocks_per_multiprocessor;
  u32 pci_id;                       // device and vendor
  int double_ratio;                 // single precision rate by double precision rate
  u32 shared_per_block = 48 << 10;  // without cudaFuncSetAttribute
  u32 shared_reserved = 1 << 10;    // of a block, the system's
  u32 registers = 65536;            // of a block and of a multiprocessor

  u32 capability() const { return u32(major * 10 + minor); }
  // Modelled rates: memory in bytes and warp instructions, both a nanosecond.
  double bytes_per_ns() const { return 2e-6 * memory_clock_khz * bus_bits / 8; }
  double instructions_per_ns() const { return 4e-6 * clock_khz * multiprocessors; }
};

const GpuModel& gpu_model();
int device_count();

void fill_properties(cudaDeviceProp* p, int device);
// False: the number is no attribute of CUDA 13.
bool device_attribute(int attribute, int device, int* value);

}  // namespace emu
