// Kernel launches.
#include "api/launch.h"

#include "device/capture.h"

using namespace emu;

namespace emu {

cudaError_t make_launch(const char* name, const void* kernel, const LaunchShape& shape,
                        void* const* args, int device, std::shared_ptr<KernelWork>* work) {
  Function* f = find_function(kernel);
  if (!f) {
    note(std::string(name) + ": no kernel was registered for this function");
    return cudaErrorInvalidDeviceFunction;
  }
  if (const int e = load(*f, device)) return cudaError_t(e);
  std::string why;
  if (const int e = check_launch(*f, shape, device, &why)) {
    note("launch of " + demangled(f->name) + " refused: " + why);
    return cudaError_t(e);
  }
  if (!args && !info(*f->kernel).param_at.empty()) return cudaErrorInvalidValue;
  auto w = std::make_shared<KernelWork>(*f, shape);
  w->take_arguments(args);
  *work = std::move(w);
  return cudaSuccess;
}

}  // namespace emu

namespace {

cudaError_t launch(const char* name, const void* kernel, const LaunchShape& shape, void** args,
                   cudaStream_t stream) {
  return call(name, kLaunch, [&] {
    const StreamRef s = stream_or_note(name, stream);
    if (!s) return cudaErrorInvalidResourceHandle;
    if (s->device != current_device()) {
      note(std::string(name) + ": the stream is of device " + std::to_string(s->device) +
           ", the current one is " + std::to_string(current_device()));
      return cudaErrorInvalidResourceHandle;
    }
    std::shared_ptr<KernelWork> work;
    if (const cudaError_t e = make_launch(name, kernel, shape, args, s->device, &work);
        e != cudaSuccess)
      return e;
    const std::string what = work->name();
    const cudaError_t e = put(name, s, std::move(work));
    if (e == cudaSuccess) launched_with(what);
    return e;
  });
}

struct Configuration {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};
thread_local std::vector<Configuration> configurations;  // of <<<>>>, until the stub takes it

// Attributes that change what a launch does; the others are hints.
cudaError_t apply(const cudaLaunchConfig_t& c, LaunchShape* shape) {
  for (unsigned i = 0; i < c.numAttrs; ++i) {
    const cudaLaunchAttribute& a = c.attrs[i];
    switch (a.id) {
      case cudaLaunchAttributeCooperative:
        shape->cooperative = a.val.cooperative;
        break;
      case cudaLaunchAttributeClusterDimension:
        shape->cluster = {a.val.clusterDim.x, a.val.clusterDim.y, a.val.clusterDim.z};
        break;
      case cudaLaunchAttributeIgnore:
      case cudaLaunchAttributeAccessPolicyWindow:
      case cudaLaunchAttributeSynchronizationPolicy:
      case cudaLaunchAttributePriority:
      case cudaLaunchAttributeMemSyncDomain:
      case cudaLaunchAttributeMemSyncDomainMap:
      case cudaLaunchAttributePreferredSharedMemoryCarveout:
      case cudaLaunchAttributeClusterSchedulingPolicyPreference:
      // A launch may begin before the last one ends; ours never does.
      case cudaLaunchAttributeProgrammaticStreamSerialization:
        break;
      default:
        note("cudaLaunchKernelExC: attribute " + std::to_string(int(a.id)) + " is not emulated");
        return cudaErrorNotSupported;
    }
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** args, size_t shared,
                             cudaStream_t stream) {
  return launch("cudaLaunchKernel", kernel, {dims(grid), dims(block), {}, shared}, args, stream);
}
cudaError_t cudaLaunchCooperativeKernel(const void* kernel, dim3 grid, dim3 block, void** args,
                                        size_t shared, cudaStream_t stream) {
  return launch("cudaLaunchCooperativeKernel", kernel, {dims(grid), dims(block), {}, shared, true},
                args, stream);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* kernel, void** args) {
  if (!c) return call("cudaLaunchKernelExC", [] { return cudaErrorInvalidValue; });
  LaunchShape shape{dims(c->gridDim), dims(c->blockDim), {}, c->dynamicSmemBytes};
  if (const cudaError_t e = apply(*c, &shape); e != cudaSuccess)
    return call("cudaLaunchKernelExC", [&] { return e; });
  return launch("cudaLaunchKernelExC", kernel, shape, args, c->stream);
}

// --- what nvcc's stubs call ---
#define STUB extern "C" __attribute__((visibility("default")))

STUB unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                          CUstream_st* stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
STUB cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (configurations.empty()) return cudaErrorMissingConfiguration;
  const Configuration c = configurations.back();
  configurations.pop_back();
  *grid = c.grid;
  *block = c.block;
  *shared = c.shared;
  *static_cast<cudaStream_t*>(stream) = c.stream;
  return cudaSuccess;
}
STUB cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  const Locked lock;
  *kernel = reinterpret_cast<cudaKernel_t>(find_function(stub));
  return *kernel ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}
STUB cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args,
                                    size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, args, shared, stream);
}
STUB cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void** args,
                                         size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, args, shared, stream ? stream : cudaStreamPerThread);
}
