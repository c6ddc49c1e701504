// Contracts and variants: how a kernel is described, listed, chosen and launched.
//
// A contract is an argument struct (plain data: views, scalars, nullable pointers to device
// scalars) whose comment gives formula, shapes, dtypes, aliasing and what is saved; it has
// `bytes()` and `flops()`. Each device lists its variants of it. `run` picks the best one that
// supports the arguments. No STL: .cu files include this.
//
//   x.h    struct XArgs {...};  WT_CONTRACT(x, XArgs);
//   x.cpp  WT_VARIANTS(cpu, x, XArgs, {.name = "reference", .launch = x_reference});
//   x.cu   WT_VARIANTS(WT_DEVICE_NS, x, XArgs, {.name = "good", ...}, {.name = "naive", ...});
//   x is found by its name: the build and kernels/dispatch/all.cpp list every x.h.
#pragma once
#include "warptape/core/device_type.h"
#include "warptape/core/geometry.h"
#include "warptape/core/mailbox.h"
#include "warptape/core/op_info.h"

namespace wt {

// What a kernel may ask of a device.
struct DeviceLimits {
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  i64 shared_bytes = 0;  // the most a block can have, static and dynamic together
};
// Zeros for the cpu; simt has those of an H100, and so has a cuda device that is not there (meta).
const DeviceLimits& device_limits(Device d);
namespace detail {
// For tests: what simt says from now on; null: an H100's again.
void set_simt_limits(const DeviceLimits* limits);
}  // namespace detail

// How a kernel is launched, beside its arguments.
struct Launch {
  const OpInfo* op = nullptr;
  void* stream = nullptr;     // a cudaStream_t; null: the default stream
  void* workspace = nullptr;  // device memory of workspace(args) bytes, 256-byte aligned
  Device device;
};

// One implementation of a contract on one device. The highest rank that supports the arguments
// wins; list variants in descending rank.
template <class Args>
struct Variant {
  const char* name;
  int rank = 0;  // the highest `rank_of` can return
  // Null when the arguments are supported, else the reason (it is the error text when WT_KERNEL
  // asks for this variant). A null function supports everything.
  const char* (*why_not)(const Args&) = nullptr;
  // The same for what depends on the device too; asked after why_not.
  const char* (*why_not_on)(const Args&, const DeviceLimits&) = nullptr;
  int (*rank_of)(const Args&) = nullptr;    // null: `rank`
  i64 (*workspace)(const Args&) = nullptr;  // bytes; null: none
  void (*launch)(const Args&, const Launch&) = nullptr;
  bool deterministic = true;  // false: not the default under Determinism::strict
  // Nothing but why_not decides whether it runs: one test for three on the way of every launch.
  bool plain = !why_not_on && !rank_of && deterministic;
};

template <class Args>
struct Variants {
  const Variant<Args>* rows;
  int count;
};

// Why the variant does not take the arguments on this device; null when it does.
template <class Args>
inline const char* refusal(const Variant<Args>& v, const Args& a, Device d) {
  if (const char* why = v.why_not ? v.why_not(a) : nullptr) return why;
  return v.why_not_on ? v.why_not_on(a, device_limits(d)) : nullptr;
}

namespace detail {
struct ErasedContract;  // kernels/dispatch/run_erased.h
}
// rows[DeviceKind]: defined by kernels/dispatch/all.cpp, which alone knows what is built. Null: not
// built.
template <class Args>
struct ContractTable;

#define WT_DECLARE_CONTRACT(contract, Args)                               \
  extern const ::wt::Variants<Args> contract##_on_cpu;                    \
  extern const ::wt::Variants<Args> contract##_on_simt;                   \
  extern const ::wt::Variants<Args> contract##_on_cuda;                   \
  template <>                                                             \
  struct ContractTable<Args> {                                            \
    static constexpr const char* kName = #contract;                       \
    static const ::wt::Variants<Args>* const rows[::wt::kNumDeviceKinds]; \
    static const ::wt::detail::ErasedContract erased;                     \
  }

#define WT_JOIN_(a, b) a##_on_##b
#define WT_JOIN(a, b) WT_JOIN_(a, b)
#define WT_VARIANTS(device, contract, Args, ...)                                           \
  static constexpr ::wt::Variant<Args> WT_JOIN(contract##_rows, device)[] = {__VA_ARGS__}; \
  constinit const ::wt::Variants<Args> WT_JOIN(contract, device) = {                       \
      WT_JOIN(contract##_rows, device),                                                    \
      int(sizeof(WT_JOIN(contract##_rows, device)) / sizeof(::wt::Variant<Args>))}

}  // namespace wt

// kernels/dispatch/all.cpp, which lists all contracts, gives it a further meaning.
#ifndef WT_CONTRACT
#define WT_CONTRACT WT_DECLARE_CONTRACT
#endif
