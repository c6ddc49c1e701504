// WT_UNROLL in front of a loop of constant length: nvcc and clang unroll it by themselves' pragma,
// g++ by its own, without which the sums of a thread's tile lie in memory on simt.
#pragma once

#if defined(__CUDACC__) || defined(__clang__)
#define WT_UNROLL _Pragma("unroll")
#else
#define WT_UNROLL _Pragma("GCC unroll 16")
#endif
