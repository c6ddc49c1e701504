// kernels/common/number.h in kernels.
#pragma once
#include "warptape/kernels/common/number.h"
#include "warptape/kernels/device/float_types.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {

using DeviceNumbers = Numbers<__half, __nv_bfloat16>;

}  // namespace WT_DEVICE_NS
}  // namespace wt
