// The devices of the process: which is current, and whether one is lost.
#pragma once
#include "basic.h"

namespace emu {

int current_device();
void set_current_device(int device);

// cudaError_t of the fault that ended the device's context; 0: it works.
int device_error(int device);
void lose_device(int device, int error);
// A device that was used by a call that needs it: `cudaSetDevice`, memory, streams, launches.
bool device_started(int device);
void start_device(int device);

u64 device_limit(int device, int limit, bool* known);
bool set_device_limit(int device, int limit, u64 value);
u32& device_flags(int device);

}  // namespace emu
