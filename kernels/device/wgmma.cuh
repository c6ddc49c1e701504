// wgmma: the matrix product of a warpgroup, four warps beginning at a multiple of four. D, 64 x N
// floats in the registers of its 128 threads, += A B, A 64 x 16 and B 16 x N of 16-bit floats, both
// read from shared memory by the tensor cores themselves: no ldmatrix, no fragment in a register.
// mma.m16n8k16 of a warp moves its operands through registers, and on Hopper its rate is about
// half.
//
// The products run while the threads go on. A group of them:
//
//   wgmma_fence();                  // what the threads wrote to d comes before the products
//   wgmma<128, T, ...>(d, a, b);    // each k of 16
//   wgmma_commit();
//   wgmma_wait<0>();                // until then nobody reads d or writes the operands' tiles
//
// Operands are named by a descriptor, 64 bits: where the tile begins and how its pieces lie. The
// tiles are TMA's with the 128-byte swizzle: rows of 64 elements, groups of eight rows 1024 bytes
// apart. `Across` false: a row is a line of the operand (row of A, column of B), 64 of k are
// neighbours; the next 16 of k begin 32 bytes on. True: a row is one k, 64 lines are neighbours;
// the next 16 of k begin 2048 bytes on, the next 64 lines `next_64` bytes.
//
// d's layout: warp w of the group has rows 16 w .. 16 w + 15; a lane has of row lane / 4, and of
// the row 8 below, columns 2 (lane % 4) and the next of every eight: d[4 c], d[4 c + 1] and, of the
// lower row, d[4 c + 2], d[4 c + 3] are those of columns 8 c ... Tile c of mma.m16n8k16 is the
// same.
#pragma once
#include "warptape/kernels/device/mbarrier.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {

// For the 128-byte swizzle. `from`: its address in shared memory.
WT_HD constexpr uint64_t wgmma_descriptor_at(uint32_t from, uint32_t next_64) {
  return uint64_t((from & 0x3ffff) >> 4) | uint64_t(next_64 >> 4) << 16 |
         uint64_t(1024 >> 4) << 32 | uint64_t(1) << 62;
}

#if defined(__CUDACC__)

#if WT_HAS_HOPPER

__device__ __forceinline__ uint64_t wgmma_descriptor(const void* tile, uint32_t next_64 = 0) {
  return wgmma_descriptor_at(shared_address(tile), next_64);
}
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until at most Left of the groups are under way, the youngest.
template <int Left>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Left) : "memory");
}

#define WT_WGMMA_8(d, i)                                                                      \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define WT_WGMMA_N64(type)                                                             \
  asm volatile(                                                                        \
      "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %34, 0;\n\t"                               \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type                      \
      " {"                                                                             \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "         \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31" \
      "}, %32, %33, p, 1, 1, %35, %36;\n\t}"                                           \
      : WT_WGMMA_8(d, 0), WT_WGMMA_8(d, 8), WT_WGMMA_8(d, 16), WT_WGMMA_8(d, 24)       \
      : "l"(a), "l"(b), "r"(1), "n"(int(AcrossA)), "n"(int(AcrossB))                   \
      : "memory")
#define WT_WGMMA_N128(type)                                                              \
  asm volatile(                                                                          \
      "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %66, 0;\n\t"                                 \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type                       \
      " {"                                                                               \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"   \
      "}, %64, %65, p, 1, 1, %67, %68;\n\t}"                                             \
      : WT_WGMMA_8(d, 0), WT_WGMMA_8(d, 8), WT_WGMMA_8(d, 16), WT_WGMMA_8(d, 24),        \
        WT_WGMMA_8(d, 32), WT_WGMMA_8(d, 40), WT_WGMMA_8(d, 48), WT_WGMMA_8(d, 56)       \
      : "l"(a), "l"(b), "r"(1), "n"(int(AcrossA)), "n"(int(AcrossB))                     \
      : "memory")

template <int N, class T, bool AcrossA, bool AcrossB>
__device__ __forceinline__ void wgmma(float (&d)[N / 2], uint64_t a, uint64_t b) {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
  static_assert(N == 64 || N == 128);
  if constexpr (N == 64 && std::is_same_v<T, __half>)
    WT_WGMMA_N64("f16");
  else if constexpr (N == 64)
    WT_WGMMA_N64("bf16");
  else if constexpr (std::is_same_v<T, __half>)
    WT_WGMMA_N128("f16");
  else
    WT_WGMMA_N128("bf16");
}
#undef WT_WGMMA_8
#undef WT_WGMMA_N64
#undef WT_WGMMA_N128

#endif

#else

WT_FN uint64_t wgmma_descriptor(const void* tile, uint32_t next_64 = 0, Loc at = Loc::current()) {
  return wgmma_descriptor_at(exec_shared_address(tile, at), next_64);
}
WT_FN void wgmma_fence(Loc at = Loc::current()) { exec_wgmma_fence(at); }
WT_FN void wgmma_commit(Loc at = Loc::current()) { exec_wgmma_commit(at); }
template <int Left>
WT_FN void wgmma_wait(Loc at = Loc::current()) {
  exec_wgmma_wait(Left, at);
}
template <int N, class T, bool AcrossA, bool AcrossB>
WT_FN void wgmma(float (&d)[N / 2], uint64_t a, uint64_t b, Loc at = Loc::current()) {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
  static_assert(N == 64 || N == 128);
  exec_wgmma({N, std::is_same_v<T, __nv_bfloat16>, AcrossA, AcrossB}, d, a, b, at);
}

#endif

}  // namespace WT_DEVICE_NS
}  // namespace wt
