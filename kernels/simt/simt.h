// Include this first in every .cu: the same source then compiles with nvcc (cuda) and with a plain
// C++20 compiler (simt, run by the executor in this folder). docs/simt.md has the conventions.
//
// CUDA's own names (threadIdx, __syncthreads, __shfl_xor_sync, atomicAdd, float4, __half, ...) keep
// their meaning. What plain C++ cannot spell has a name here: WT_SHARED, WT_DYN_SHARED, vload,
// vstore, mma_m16n8k16, ldmatrix, launch. No STL beyond <type_traits>.
#pragma once

// Everything that a .cu can reach lives in this inline namespace of wt, so that the two builds of
// one source never share a symbol: wt::simt::f and wt::cuda::f exist side by side in one binary.
#if defined(__CUDACC__)
#define WT_DEVICE_NS cuda
#include "warptape/kernels/simt/cuda_side.h"
#else
#define WT_DEVICE_NS simt
#include "warptape/kernels/simt/host_collectives.h"
#include "warptape/kernels/simt/host_math.h"
#include "warptape/kernels/simt/host_memory.h"
#include "warptape/kernels/simt/host_types.h"
#endif
#include "warptape/kernels/device/launch.cuh"
