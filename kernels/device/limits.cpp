// What devices allow: contract.h.
#include <atomic>

#include "warptape/kernels/contract.h"
#include "warptape/kernels/cuda/api.h"

namespace wt {
namespace {

constexpr DeviceLimits kH100{9, 0, 132, 227 * 1024}, kNone{};
std::atomic<const DeviceLimits*> simt_limits{&kH100};

}  // namespace

const DeviceLimits& device_limits(Device d) {
  switch (d.kind) {
    case DeviceKind::cpu:
      return kNone;
    case DeviceKind::simt:
      return *simt_limits.load(std::memory_order_relaxed);
    case DeviceKind::cuda:
      break;
  }
  return d.index < cuda::device_count() ? cuda_limits(d.index) : kH100;
}

void detail::set_simt_limits(const DeviceLimits* limits) { simt_limits = limits ? limits : &kH100; }

}  // namespace wt
