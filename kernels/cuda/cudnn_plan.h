// Execution plans of cuDNN: the engine that computes a graph, and what is kept of both. Building a
// plan takes cuDNN milliseconds to seconds (some engines are compiled then), so a plan is made once
// for each thread, device and key, and its JSON form is written to the user's cache folder for the
// next process.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "warptape/kernels/cuda/cudnn_graph.h"

namespace wt {

// All that the choice of a plan depends on beside device and library: which computation it is, and
// sizes, strides, alignments.
struct CudnnKey {
  std::string name;  // "conv_forward"
  std::vector<i64> words;
  void add(const CudnnTensor& t);  // sizes, strides, alignment; not its type
  std::string text() const;
  friend bool operator==(const CudnnKey&, const CudnnKey&) = default;
};

struct CudnnPlan {
  CudnnDescriptor plan;
  i64 workspace = 0;
  std::string why_not;  // cuDNN cannot: empty when it can
};

// The most that a plan may ask for.
inline constexpr i64 kMostCudnnWorkspace = i64{512} << 20;

// The thread's plan of `key` on `d`: what it has, else what the disk has, else what cuDNN's
// heuristics (mode A, then its fallback) rank first of the engines that are deterministic and, of
// f32, round as f32 does (`exact`): no TF32, no Winograd, no Fourier transform. `describe` adds the
// operations. A computation that is planned for very many shapes gets a warning, once. Never null;
// throws DeviceError for a broken device.
CudnnPlan& cudnn_plan(Device d, const CudnnKey& key, bool exact,
                      void (*describe)(CudnnGraph& graph, const void* problem),
                      const void* problem);

// Under benchmark(): makes the fastest of the first engines in that ranking the plan of `key`, here
// and on disk, once for each key; `run` queues a plan on operands whose results may be written
// over, or says that cuDNN cannot. Throws DeviceError.
void cudnn_time_engines(Device d, const CudnnKey& key, bool exact,
                        void (*describe)(CudnnGraph& graph, const void* problem),
                        const void* problem, const std::function<bool(CudnnPlan& plan)>& run);
inline constexpr int kMostTimedEngines = 8;

// Queues the plan. `ids` and `pointers`: the tensors in memory. False when cuDNN cannot after all:
// nothing was queued then, and why_not is set. Throws DeviceError.
bool cudnn_run(CudnnPlan& plan, Device d, void* stream, int count, const i64* ids, void** pointers,
               void* workspace);

// Where the plans of `d` lie; "" where there is no folder, or with WT_CUDNN_PLANS=off.
std::string cudnn_plan_folder(Device d);

}  // namespace wt
