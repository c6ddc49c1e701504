// A warp while it runs, and the decoded instruction that it steps over.
//
// A register is 32 lanes side by side, so that an instruction is one short loop which the compiler
// turns into a few vector operations: most of the emulator's speed. Predicates are a bit a lane.
#pragma once
#include <cstring>
#include <random>
#include <stdexcept>

#include "exec/launch.h"

namespace emu {

struct Warp;
struct Block;  // device/memory.h
struct ThreadBlock;
struct Op;
using Handler = void (*)(Warp&, const Op&);

// How the scheduler treats an instruction; all but `plain` is not done by Op::run alone.
enum class Control : u8 {
  plain,
  moded,         // run under Op::csr: a rounding mode other than nearest, or flush to zero
  branch,        // to Op::target
  exit,          // ret of an entry, and exit
  trap,          // ends the kernel with a fault
  warp_sync,     // waits for the lanes of the member mask in slot Op::c
  warp_aligned,  // needs all 32 lanes: mma, ldmatrix, wmma
  barrier,       // of the block; exec/barriers.cpp
  yield,         // plain, after which other warps get their turn: nanosleep, fences, volatile loads
};

// A slot is the byte offset of 32 lanes: even in the warp's registers, odd (+1) in the constants.
using Slot = u32;
inline constexpr Slot kNoSlot = ~u32(0);

struct Op {
  Handler run = nullptr;
  Control control = Control::plain;
  bool is_join = false;  // diverged lanes meet again here
  bool guard_negated = false;
  u8 width = 0;  // bytes of an operand's lane, where the handler does not know
  i32 guard = -1;
  Slot d = kNoSlot, a = kNoSlot, b = kNoSlot, c = kNoSlot;
  Slot e = kNoSlot;  // a second result, a fourth operand, or a list in Kernel::lists
  u32 aux = 0;       // rounding, comparison, mode: the handler's own
  u32 target = 0;
  u32 csr = 0;
  i64 offset = 0;
  u32 source = 0;  // index in ptx::Function::code
};

// Lanes of a warp that stand at the same instruction.
struct Fragment {
  enum class State : u8 { running, at_join, at_sync, at_barrier, waiting };
  u32 pc = 0, mask = 0;
  State state = State::running;
  u32 barrier = 0;
};

struct FaultError {
  KernelFault::Kind kind;
  u32 lane;
  std::string what;
};
[[noreturn]] void fault(KernelFault::Kind kind, u32 lane, std::string what);

struct Warp {
  u8* base[2] = {nullptr, nullptr};  // registers, constants
  u32* preds = nullptr;
  u32 mask = 0;   // lanes that the running instruction counts for
  u32 carry = 0;  // the condition code, a bit a lane
  u32 live = 0;   // lanes that have not exited
  u32 index = 0;  // in the block
  ThreadBlock* block = nullptr;
  u8* local = nullptr;  // lane by lane, Kernel::local_bytes each
  std::vector<Fragment> fragments;
  const Block* seen = nullptr;  // the block of memory of the last global access
  u64 instructions = 0;

  template <class T>
  T* at(Slot s) const {
    return reinterpret_cast<T*>(base[s & 1] + (s & ~1u));
  }
};

// Writes f(lane) to the lanes that count; f must be harmless for the others.
template <class T, class F>
inline void set_lanes(const Warp& w, T* d, F&& f) {
  if (w.mask == kAllLanes) [[likely]] {
#pragma GCC ivdep
    for (u32 l = 0; l < kLanes; ++l) d[l] = f(l);
    return;
  }
  alignas(64) T t[kLanes];
#pragma GCC ivdep
  for (u32 l = 0; l < kLanes; ++l) t[l] = f(l);
#pragma GCC ivdep
  for (u32 l = 0; l < kLanes; ++l) d[l] = w.mask >> l & 1 ? t[l] : d[l];
}
template <class F>
inline void for_lanes(u32 mask, F&& f) {
  for (; mask; mask &= mask - 1) f(u32(__builtin_ctz(mask)));
}
// A bit a lane from f(lane).
template <class F>
inline u32 lane_bits(F&& f) {
  u32 bits = 0;
  for (u32 l = 0; l < kLanes; ++l) bits |= u32(bool(f(l))) << l;
  return bits;
}
inline void set_pred(Warp& w, Slot p, u32 bits) {
  if (p == kNoSlot) return;
  w.preds[p] = (w.preds[p] & ~w.mask) | (bits & w.mask);
}

// What is seeded: the order of blocks, warps and lanes.
struct Random {
  u64 state;
  u32 next() {  // PCG32
    state = state * 6364136223846793005u + 1442695040888963407u;
    const u32 x = u32(((state >> 18) ^ state) >> 27), r = u32(state >> 59);
    return x >> r | x << (-r & 31);
  }
  u32 below(u32 n) { return u32(u64(next()) * n >> 32); }
};

}  // namespace emu
