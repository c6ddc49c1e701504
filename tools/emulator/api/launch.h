// Launches as the entry points and graphs ask for them.
#pragma once
#include "api/api.h"
#include "device/kernel_work.h"

namespace emu {

// Checked, with the arguments copied. `kernel`: the host's stub or a handle.
cudaError_t make_launch(const char* name, const void* kernel, const LaunchShape& shape,
                        void* const* args, int device, std::shared_ptr<KernelWork>* work);
inline Dim3 dims(const dim3& d) { return {d.x, d.y, d.z}; }

}  // namespace emu
