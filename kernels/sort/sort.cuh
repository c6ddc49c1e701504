// What other kernels sort by: the best rung of kernels/sort/sort.cu that takes the arguments.
#pragma once
#include "warptape/kernels/device/row_kernels.cuh"
#include "warptape/kernels/sort.h"

namespace wt {
inline namespace WT_DEVICE_NS {

i64 sort_workspace(const SortArgs& a);
void launch_sort(const SortArgs& a, const Launch& l);
void launch_sort_naive(const SortArgs& a, const Launch& l);

}  // namespace WT_DEVICE_NS
}  // namespace wt
