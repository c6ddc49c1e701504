// Barriers, warp collectives and tensor-core operations under CUDA's names, on the host.
#pragma once
#include "warptape/kernels/simt/host_exec.h"

namespace wt {
inline namespace simt {

WT_FN
void __syncthreads(Loc at = Loc::current()) { exec_barrier(at); }
WT_FN
int __syncthreads_count(int p, Loc at = Loc::current()) {
  return exec_barrier_vote(BarrierKind::count, p, at);
}
WT_FN
int __syncthreads_and(int p, Loc at = Loc::current()) {
  return exec_barrier_vote(BarrierKind::all, p, at);
}
WT_FN
int __syncthreads_or(int p, Loc at = Loc::current()) {
  return exec_barrier_vote(BarrierKind::any, p, at);
}
WT_FN
void __syncwarp(unsigned mask = 0xffffffffu, Loc at = Loc::current()) { exec_syncwarp(mask, at); }
WT_FN
unsigned __ballot_sync(unsigned mask, int p, Loc at = Loc::current()) {
  return exec_vote(VoteKind::ballot, mask, p != 0, at);
}
WT_FN
int __any_sync(unsigned mask, int p, Loc at = Loc::current()) {
  return int(exec_vote(VoteKind::any, mask, p != 0, at));
}
WT_FN
int __all_sync(unsigned mask, int p, Loc at = Loc::current()) {
  return int(exec_vote(VoteKind::all, mask, p != 0, at));
}
// All lanes that have not returned: one of the answers the hardware may give.
WT_FN
unsigned __activemask() { return exec_activemask(); }
WT_FN
void __threadfence() { exec_fence(); }
WT_FN
void __threadfence_block() {}
WT_FN
void __threadfence_system() { exec_fence(); }
WT_FN
void __nanosleep(unsigned, Loc at = Loc::current()) { exec_poll(at); }
WT_FN
void __trap(Loc at = Loc::current()) { exec_trap(at); }

// Shuffles take 2-, 4- and 8-byte trivially copyable types.
template <class T>
WT_FN T shfl_bits(ShflKind kind, unsigned mask, T v, unsigned lane, int width, Loc at) {
  static_assert(std::is_trivially_copyable_v<T>);
  static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8,
                "shuffles move 2, 4 or 8 bytes");
  using U = std::conditional_t<sizeof(T) == 2, uint16_t,
                               std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
  const uint64_t got = exec_shfl(shfl_spec(kind, sizeof(T) == 8, lane, unsigned(width)), mask,
                                 __builtin_bit_cast(U, v), at);
  return __builtin_bit_cast(T, U(got));
}
template <class T>
WT_FN T __shfl_sync(unsigned mask, T v, int lane, int width = 32, Loc at = Loc::current()) {
  return shfl_bits(ShflKind::idx, mask, v, unsigned(lane), width, at);
}
template <class T>
WT_FN T __shfl_up_sync(unsigned mask, T v, unsigned d, int width = 32, Loc at = Loc::current()) {
  return shfl_bits(ShflKind::up, mask, v, d, width, at);
}
template <class T>
WT_FN T __shfl_down_sync(unsigned mask, T v, unsigned d, int width = 32, Loc at = Loc::current()) {
  return shfl_bits(ShflKind::down, mask, v, d, width, at);
}
template <class T>
WT_FN T __shfl_xor_sync(unsigned mask, T v, int lanes, int width = 32, Loc at = Loc::current()) {
  return shfl_bits(ShflKind::bfly, mask, v, unsigned(lanes), width, at);
}

// A sanitizer and the counters see every shuffle. Where nobody looks, a butterfly of reductions is
// one operation of the executor.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define WT_WHOLE_BUTTERFLIES

template <class T, class Op>
struct ButterflyLane {
  T v;
  Op op;
};
template <int Width, class T, class Op>
void all_lanes_butterfly(void* const* values) {
  using Lane = ButterflyLane<T, Op>;
  T now[32], next[32];
  for (int i = 0; i < 32; ++i) now[i] = static_cast<const Lane*>(values[i])->v;
  for (int lanes = Width / 2; lanes > 0; lanes /= 2) {
    for (int i = 0; i < 32; ++i)
      next[i] = static_cast<const Lane*>(values[i])->op(now[i], now[i ^ lanes]);
    for (int i = 0; i < 32; ++i) now[i] = next[i];
  }
  for (int i = 0; i < 32; ++i) static_cast<Lane*>(values[i])->v = now[i];
}
// What v = op(v, __shfl_xor_sync(all, v, d)) for d = Width / 2, ..., 2, 1 comes to, bit for bit.
template <int Width, class T, class Op>
WT_FN T warp_butterfly(T v, Op op, Loc at = Loc::current()) {
  ButterflyLane<T, Op> lane{v, op};
  exec_warp(&lane, all_lanes_butterfly<Width, T, Op>, at);
  return lane.v;
}
#endif

// d += A * B with A 16x16 row-major, B 16x8 column-major fragments of T = __half or __nv_bfloat16,
// accumulated in float. Fragment layouts: PTX ISA, mma.m16n8k16. All 32 lanes take part.
template <class T>
WT_FN void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                        Loc at = Loc::current()) {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
  exec_mma_m16n8k16(std::is_same_v<T, __nv_bfloat16>, d, a, b, at);
}
// Loads N 8x8 matrices of 16-bit elements from shared memory; lane i gives the 16-byte aligned
// address of row i % 8 of matrix i / 8.
template <int N, bool Transposed = false>
WT_FN void ldmatrix(uint32_t (&r)[N], const void* row, Loc at = Loc::current()) {
  static_assert(N == 1 || N == 2 || N == 4);
  exec_ldmatrix(N, Transposed, r, row, at);
}

}  // namespace simt
}  // namespace wt

using wt::__activemask;
using wt::__all_sync;
using wt::__any_sync;
using wt::__ballot_sync;
using wt::__nanosleep;
using wt::__shfl_down_sync;
using wt::__shfl_sync;
using wt::__shfl_up_sync;
using wt::__shfl_xor_sync;
using wt::__syncthreads;
using wt::__syncthreads_and;
using wt::__syncthreads_count;
using wt::__syncthreads_or;
using wt::__syncwarp;
using wt::__threadfence;
using wt::__threadfence_block;
using wt::__threadfence_system;
using wt::__trap;
