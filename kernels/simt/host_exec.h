// What the executor's compiled part offers to kernels: plain functions, one call an operation. The
// CUDA names in host_collectives.h and host_memory.h are thin covers over these.
#pragma once
#include "warptape/kernels/simt/host_types.h"

namespace wt {
inline namespace simt {

enum class ShflKind : unsigned { idx, up, down, bfly };
enum class VoteKind : unsigned { ballot, any, all };
enum class BarrierKind : unsigned { count, all, any };

// One WT_SHARED declaration; its address is the identity of the array.
struct SharedSite {
  const char* name;
  const char* file;
  unsigned line;
};

void exec_barrier(Loc at);
int exec_barrier_vote(BarrierKind kind, int predicate, Loc at);
void exec_syncwarp(unsigned mask, Loc at);
// `spec` packs kind, element size, lane argument and width: five register arguments instead of
// eight.
uint64_t exec_shfl(unsigned spec, unsigned mask, uint64_t bits, Loc at);
unsigned exec_vote(VoteKind kind, unsigned mask, unsigned predicate, Loc at);
unsigned exec_activemask();
void exec_mma_m16n8k16(bool bf16, float* d, const uint32_t* a, const uint32_t* b, Loc at);
void exec_ldmatrix(unsigned count, bool transposed, uint32_t* r, const void* row, Loc at);
// All 32 lanes give a value; the last one to arrive calls `all` with every lane's: one wait where
// the shuffles of a reduction are five.
void exec_warp(void* value, void (*all)(void* const* values), Loc at);
void* exec_shared(const SharedSite& site, size_t bytes, size_t align);
void* exec_dyn_shared();
void exec_fence();
// A poll that failed (CAS, nanosleep): other threads run; too many without progress is a livelock.
void exec_poll(Loc at);
// Before an atomic of `p`, whose order among blocks can be seen in its results: waits until the
// blocks before this one are done, where other OS threads run them. Shared memory needs no wait.
void exec_in_turn(const void* p);
[[noreturn]] void exec_misaligned(const void* p, size_t bytes, bool write, Loc at);
[[noreturn]] void exec_trap(Loc at);

constexpr unsigned shfl_spec(ShflKind kind, bool wide, unsigned lane, unsigned width) {
  return unsigned(kind) | unsigned(wide) << 2 | (lane & 31) << 8 | width << 16;
}

// A grid as it reaches the executor.
struct GridLaunch {
  const char* kernel;  // __PRETTY_FUNCTION__ of launch<kernel>: parsed only when it is printed
  const char* op;      // operator name for messages, or null
  dim3 grid, block;
  size_t shared_bytes;
  void (*entry)(void* body);  // runs the kernel once, as the current thread
  void* body;                 // the arguments, plain data
  size_t body_bytes;
  const void* const* pointers;  // pointer arguments, null where allowed
  const int* pointer_args;      // their argument positions, counted from 1
  int pointer_count;
  void* stream;  // null: the default one
};
// Checks the pointers, then runs every thread of the grid, or queues that with a copy of all that
// it needs (WT_SIMT_STREAMS=lazy). Throws wt::KernelError.
void exec_launch(const GridLaunch& launch);

}  // namespace simt
}  // namespace wt
