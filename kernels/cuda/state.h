// All that the process knows about its cuda devices. Internal to kernels/cuda/.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "warptape/core/stream.h"
#include "warptape/kernels/contract.h"
#include "warptape/kernels/cuda/allocator.h"
#include "warptape/kernels/cuda/api.h"

namespace wt {
struct GraphBackend;  // core/graph/graph_capture.h
}

namespace wt::detail {

inline constexpr int kMaxCudaDevices = 64;

struct CudaDevice {
  std::atomic<bool> dead{false};
  std::string why_dead;  // set before `dead`
  std::unique_ptr<CudaPool> pool;
  std::vector<void*> events[2];  // idle ones, by timing
  std::atomic<bool> limits_known{false};
  DeviceLimits limits;                           // set before `limits_known`
  std::map<const void*, size_t> shared_allowed;  // dynamic, a kernel: the most asked for so far
};

struct CudaState {
  const CudaApi* api = nullptr;
  int count = 0;
  std::string why_not;  // no device can be used
  bool started = false;
  bool sync_launches = false;  // WT_CUDA_SYNC=1
  std::atomic<bool> forked{false};
  std::mutex mutex;  // events, why_dead, limits, shared_allowed
  CudaDevice devices[kMaxCudaDevices];
};
// Asks the driver at the first call.
CudaState& cuda_state();
// Of a call that comes from a device: there is one.
inline const CudaApi& api() { return *cuda_state().api; }

// What this thread last made current; -1: nothing yet. CUDA is not asked: whoever calls
// cudaSetDevice() beside the library restores what was.
extern constinit thread_local int entered_device;

// Connects allocator, copies and streams to the core. Throws NotAvailable, UsageError (WT_ALLOC).
void connect_cuda(CudaState& s);
void disconnect_cuda();
extern const GraphBackend cuda_graphs;  // graph.cpp

}  // namespace wt::detail
