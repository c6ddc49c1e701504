// A kernel decoded: what Program::kernel() gives and the scheduler runs.
#pragma once
#include "exec/warp.h"

namespace emu {

// Where 64-bit generic addresses of other spaces than the global one begin. They are no addresses
// that a 64-bit process has, so a kernel's pointer tells its space.
inline constexpr u64 kSharedWindow = u64(1) << 56;
inline constexpr u64 kLocalWindow = u64(2) << 56;
inline constexpr u64 kParamWindow = u64(3) << 56;
inline constexpr u64 kWindowMask = u64(0xff) << 56;
// Shared variables begin behind what the system keeps for itself, as on sm_90.
inline constexpr u32 kSharedBegin = 1024;

enum class Special : u8 {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  nwarpid,
  smid,
  nsmid,
  gridid,
  lanemask_eq,
  lanemask_le,
  lanemask_lt,
  lanemask_ge,
  lanemask_gt,
  dynamic_smem_size,
  total_smem_size,
  grid_workspace_high,
  grid_workspace_low,
  zero,
  one,
};
struct SpecialSlot {
  Special which;
  Slot slot;
  bool wide;
};

struct Program::Kernel {
  KernelInfo info;
  const ptx::Module* module = nullptr;
  ptx::Function body;  // calls inlined
  std::vector<Op> code;
  std::vector<Slot> lists;  // vector operands, by Op::e
  u32 register_bytes = 0, predicates = 0;
  std::vector<u8> constants;
  struct SymbolConstant {
    Slot slot;
    std::string name;
    i64 offset;
  };
  std::vector<SymbolConstant> symbols;  // filled in at a launch
  std::vector<SpecialSlot> specials;
  u32 shared_dynamic_at = 0;  // where dynamic shared memory begins
  bool checks_shared_races = true;
};

}  // namespace emu
