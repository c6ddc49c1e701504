// The one launch choke point of both devices; reached through kernels/simt/simt.h.
//
//   launch<softmax_kernel<256>>({.grid = rows, .block = 256, .stream = s, .op_name = "softmax"},
//                               y, x, cols);
//
// A grid with a zero dimension returns without a launch. Limits are checked before it. On cuda the
// dynamic shared memory limit is raised where needed and errors of the launch are thrown
// (wt::DeviceError); on simt every pointer argument must be null or device memory, the grid has run
// when launch returns, and what the executor finds wrong is thrown (wt::KernelError).
// Pointers inside a struct argument are checked if the struct has
//   template <class F> void visit_pointers(F&& f) const { f(a); f(b); }
#pragma once
#include "warptape/kernels/simt/simt.h"

namespace wt {

// Cold throwers, defined in kernels/device/launch.cpp: no STL in device code.
// `reason` is the text of the failed rule or of the CUDA error.
[[noreturn]] void launch_rejected(const char* kernel, const char* op, const char* reason,
                                  const unsigned (&dims)[6], size_t shared_bytes);
[[noreturn]] void launch_failed(const char* kernel, const char* op, const char* reason, int code);
// The most dynamic shared memory that a block may have on the device that is launched on.
size_t launch_shared_limit(bool on_cuda);
// Lets `function` have that much on cuda's current device; asks CUDA once a kernel and device for
// each new largest size.
void allow_dynamic_shared(const char* kernel, const char* op, const void* function, size_t bytes);
// What every kernel may have without being asked for more.
constexpr size_t kPlainShared = 48 * 1024;
// WT_CUDA_SYNC=1: every launch on cuda waits for its kernel, so that an error names it.
extern bool launches_wait;

inline namespace WT_DEVICE_NS {

struct Config {
  dim3 grid, block;
  size_t shared_bytes = 0;        // dynamic shared memory
  void* stream = nullptr;         // a cudaStream_t on cuda
  const char* op_name = nullptr;  // for messages
};

inline const char* launch_limit_broken(const Config& c, bool on_cuda) {
  const dim3 &g = c.grid, &b = c.block;
  if (b.x == 0 || b.y == 0 || b.z == 0) return "the block has a zero dimension";
  if (b.x > 1024 || b.y > 1024 || b.z > 64 || uint64_t(b.x) * b.y * b.z > 1024)
    return "a block has at most 1024 threads, (1024, 1024, 64) by dimension";
  if (g.x > 0x7fffffffu || g.y > 65535 || g.z > 65535)
    return "a grid has at most (2147483647, 65535, 65535) blocks";
  if (c.shared_bytes > kPlainShared && c.shared_bytes > launch_shared_limit(on_cuda))
    return "that is more dynamic shared memory than a block of this device can have";
  return nullptr;
}

#if defined(__CUDACC__)

constexpr bool kOnCuda = true;

template <auto Kernel, class... P>
inline void launch_on_device(const char* name, void (*)(P...), const Config& c,
                             std::type_identity_t<P>... args) {
  if (c.shared_bytes > kPlainShared)
    allow_dynamic_shared(name, c.op_name, reinterpret_cast<const void*>(Kernel), c.shared_bytes);
  Kernel<<<c.grid, c.block, c.shared_bytes, static_cast<cudaStream_t>(c.stream)>>>(args...);
  cudaError_t e = cudaGetLastError();
  if (e == cudaSuccess && launches_wait)
    e = cudaStreamSynchronize(static_cast<cudaStream_t>(c.stream));
  if (e != cudaSuccess) launch_failed(name, c.op_name, cudaGetErrorString(e), int(e));
}

#else

constexpr bool kOnCuda = false;

struct PointerList {
  const void* pointers[64];
  int args[64];
  int count = 0, arg = 0;
  WT_FN
  void add(const void* p) {
    if (count == 64) return;
    pointers[count] = p;
    args[count++] = arg;
  }
  template <class T>
  WT_FN void argument(const T& value) {
    ++arg;
    if constexpr (std::is_pointer_v<T>)
      add(value);
    else if constexpr (requires { value.visit_pointers(*this); })
      value.visit_pointers(*this);
  }
  WT_FN
  void operator()(const void* p) { add(p); }
};

template <auto Kernel, class... P>
inline void launch_on_device(const char* name, void (*)(P...), const Config& c,
                             std::type_identity_t<P>... args) {
  PointerList list;
  (list.argument(args), ...);
  auto body = [&] { Kernel(args...); };
  exec_launch({name, c.op_name, c.grid, c.block, c.shared_bytes,
               [](void* f) { (*static_cast<decltype(body)*>(f))(); }, &body, list.pointers,
               list.args, list.count});
}

#endif

template <auto Kernel, class... Args>
inline void launch(const Config& c, Args&&... args) {
  if (c.grid.x == 0 || c.grid.y == 0 || c.grid.z == 0) return;
  if (const char* reason = launch_limit_broken(c, kOnCuda))
    launch_rejected(__PRETTY_FUNCTION__, c.op_name, reason,
                    {c.grid.x, c.grid.y, c.grid.z, c.block.x, c.block.y, c.block.z},
                    c.shared_bytes);
  launch_on_device<Kernel>(__PRETTY_FUNCTION__, Kernel, c, static_cast<Args&&>(args)...);
}

}  // namespace WT_DEVICE_NS
}  // namespace wt
