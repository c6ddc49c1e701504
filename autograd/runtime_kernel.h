// A CUDA kernel that is text: compiled by NVRTC when it is first launched, for the device that it
// is launched on, and kept in memory and on disk.
//
//   const RuntimeKernel scale{R"(
//     extern "C" __global__ void scale(float* y, const float* x, float a, long long n) {
//       const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
//       if (i < n) y[i] = a * x[i];
//     })", "scale"};
//   Tensor y = empty_like(x);
//   scale.launch({.blocks = (n + 255) / 256, .threads = 256}, {written(y), x, 2.0f, n});
//
// The launch is queued on the current stream of the tensors' device and does not wait; profiles and
// errors name it. The tape does not know what it computes: for a derivative, launch it in a custom
// operator's forward (autograd/custom.h). What the kernel does with its pointers is its own
// business: an index beyond a tensor is not found here.
//
// On disk: $WT_KERNEL_CACHE, else $XDG_CACHE_HOME/warptape/kernels or ~/.cache/warptape/kernels;
// WT_KERNEL_CACHE=off keeps nothing. A file is taken only for the same source, name, options,
// architecture and version of NVRTC, and only undamaged. Nothing is kept of a source with #include
// "file", which could have changed; of <file> it is taken to be the toolkit's. Deleting the folder
// costs a compilation.
//
// Needs a build with CUDA 12.8 or newer, and libnvrtc where the program runs (WT_NVRTC names one).
#pragma once
#include <concepts>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "warptape/core/half.h"
#include "warptape/core/tensor.h"

namespace wt {

// A number of blocks or threads: 4, or {4, 2} and {4, 2, 1}, x first.
struct KernelDims {
  i64 x = 1, y = 1, z = 1;
  constexpr KernelDims(i64 x, i64 y = 1, i64 z = 1) : x(x), y(y), z(z) {}  // NOLINT
};
struct KernelLaunch {
  KernelDims blocks = 1, threads = 1;  // threads of each block: 1024 in all
  i64 shared = 0;                      // bytes of dynamic shared memory
};
struct RuntimeKernelOptions {
  std::vector<std::string> options = {};  // NVRTC's: "--use_fast_math", "-DN=4", "-I/a/folder"
  // Empty: machine code for the device. "sm_90a": machine code for another one or with its own
  // instructions. "compute_80": PTX, which the driver compiles for any device from 8.0 on.
  std::string arch = {};
};

namespace detail {
template <class T>
concept KernelNumber =
    std::is_arithmetic_v<T> || std::same_as<T, Half> || std::same_as<T, BFloat16>;
}  // namespace detail

// What a kernel is given: a tensor, which is a pointer to its first element there; a number, which
// is of the parameter's C++ type (2.0 is no float: write 2.0f; a size is a long long: i64);
// nullptr.
class KernelArgument {
 public:
  KernelArgument(const Tensor& t) : tensor_(t), is_tensor_(true) {}  // NOLINT: implicit by design
  KernelArgument(std::nullptr_t) {}                                  // NOLINT
  template <detail::KernelNumber T>
  KernelArgument(T value) : bytes_(sizeof value), floating_(!std::is_integral_v<T>) {  // NOLINT
    static_assert(sizeof value <= sizeof value_, "no parameter of a kernel is a long double");
    std::memcpy(&value_, &value, sizeof value);
  }

 private:
  friend class RuntimeKernel;
  friend KernelArgument written(const Tensor& t);
  Tensor tensor_{};
  u64 value_ = 0;
  size_t bytes_ = sizeof(void*);
  bool is_tensor_ = false, written_ = false, floating_ = false;
};
// A tensor that the kernel writes, wholly or in part: as in-place operators, the launch then counts
// as a change of it, so that a backward that needs its old values says so.
inline KernelArgument written(const Tensor& t) {
  KernelArgument a(t);
  a.written_ = true;
  return a;
}

class WT_API RuntimeKernel {
 public:
  // `name`: of a function that is extern "C", or as C++ calls it: "scale<float>", "mine::scale".
  // Nothing is compiled yet.
  RuntimeKernel(std::string source, std::string name, RuntimeKernelOptions options = {});

  // Tensors are contiguous and on one cuda device; without any it is the default device. Throws
  // PlacementError and UsageError for arguments (their number and sizes too) and grids that cannot
  // be, for a tensor that requires grad while gradients are recorded, inside of vmap(),
  // save_graph() and onnx::save(), and, with NVRTC's log, for a source that does not compile;
  // NotAvailable where there is no cuda or no NVRTC; DeviceError. A captured step must have
  // launched it before.
  void launch(const KernelLaunch& l, std::initializer_list<KernelArgument> arguments,
              Frame at = Frame::here()) const;
  // Compiles now, or finds it compiled. The same errors.
  void prepare(Device d = Device::cuda(), Frame at = Frame::here()) const;

  const std::string& name() const;

  // Of this process: how often a kernel was needed for a device by an object that did not have it
  // yet, and where it was found.
  struct Stats {
    i64 compiled = 0;
    i64 memory_hits = 0;  // another object had the same one
    i64 disk_hits = 0;
  };
  static Stats stats();

 private:
  struct State;
  std::shared_ptr<State> state_;  // copies share what they have found
};

}  // namespace wt
