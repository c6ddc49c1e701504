// From PTX's syntax to decoded instructions: the names of operands become slots, an opcode with its
// types the handler that was compiled for them.
#pragma once
#include <string_view>
#include <unordered_map>

#include "exec/kernel.h"

namespace emu {

class Decoder {
 public:
  Decoder(const ptx::Module& module, Program::Kernel& kernel);
  void run();  // fills in kernel.code and what belongs to it

  // --- for the decoding functions of an instruction ---
  const ptx::Instruction& in() const { return *in_; }
  Program::Kernel& kernel() { return kernel_; }
  Op& op() { return *op_; }

  // Modifiers: "rn" of add.rn.f32. What no decoding function asked for, and what is neither a type
  // nor says where or how weakly memory is touched, makes the instruction unknown: no modifier is
  // ignored in silence.
  bool has(std::string_view modifier) const;
  // All modifiers are known to change nothing here: of hints and fences.
  void take_all() { asked_ = ~u64(0); }
  // Of "m16n8k16"; unknown without one.
  struct Shape {
    u32 m, n, k;
  };
  Shape shape() const;
  // The n-th type of the opcode, from the left ("f32", "s64" of cvt.rn.f32.s64).
  ptx::Type type(u32 n = 0) const;
  u32 types() const;

  const ptx::Operand& operand(u32 n) const;
  u32 operands() const { return u32(in_->operands.size()); }
  // The slot of operand n, which a lane of `t` is read from; an immediate becomes a constant.
  Slot slot(u32 n, ptx::Type t) { return slot(operand(n), t); }
  Slot slot(const ptx::Operand& o, ptx::Type t);
  u32 pred(const ptx::Operand& o);  // index of a predicate, which must not be negated
  u32 lane_bytes(const ptx::Operand& o, ptx::Type t) const;  // of its register, or of t
  Slot constant(u64 bits, u32 bytes);
  Slot scratch(u32 bytes);  // a register of the decoder's own
  u32 list(const std::vector<Slot>& slots);
  // An address operand: Op::a (64-bit lanes, or none) and Op::offset; false: it is a parameter.
  struct Address {
    ptx::Space space;
    Slot base = kNoSlot;  // kNoSlot: offset alone
    u32 base_bytes = 8;
    i64 offset = 0;
  };
  Address address(const ptx::Operand& o, ptx::Space space);
  [[noreturn]] void unknown(const std::string& why) const;

  struct Place {
    ptx::Space space;
    i64 offset;  // in its space; unused for global
  };
  const Place* place(const std::string& name) const;

 private:
  void lay_out();
  void place_registers();
  void decode_one(u32 index);
  void use_mode();
  void check_modifiers() const;
  Slot special(const std::string& name, ptx::Type t);

  const ptx::Module& module_;
  Program::Kernel& kernel_;
  const ptx::Instruction* in_ = nullptr;
  mutable u64 asked_ = 0;  // a bit for each part of the opcode
  Op* op_ = nullptr;
  std::unordered_map<std::string, Place> places_;
  std::unordered_map<std::string, Slot> specials_;
  std::unordered_map<u64, Slot> constants_[4];  // by log2 of the bytes of a lane
  std::vector<Slot> registers_;
};

// The decoding function of an opcode's first word, or null. The families say what they take.
using DecodeFunction = void (*)(Decoder&);
struct OpcodeEntry {
  std::string_view name;
  DecodeFunction decode;
};
std::vector<OpcodeEntry> move_opcodes();
std::vector<OpcodeEntry> integer_opcodes();
std::vector<OpcodeEntry> bit_opcodes();
std::vector<OpcodeEntry> float_opcodes();
std::vector<OpcodeEntry> approx_opcodes();
std::vector<OpcodeEntry> compare_opcodes();
std::vector<OpcodeEntry> convert_opcodes();
std::vector<OpcodeEntry> memory_opcodes();
std::vector<OpcodeEntry> atomic_opcodes();
std::vector<OpcodeEntry> warp_opcodes();
std::vector<OpcodeEntry> mma_opcodes();
std::vector<OpcodeEntry> async_opcodes();
std::vector<OpcodeEntry> flow_opcodes();
std::vector<OpcodeEntry> call_opcodes();

// Copies the bodies of called functions into the caller's; throws for recursion.
void inline_calls(const ptx::Module& module, ptx::Function& f);
// Marks where diverged lanes meet: the immediate post-dominators of conditional branches.
void mark_joins(std::vector<Op>& code);
// 32-bit registers alive at once at most, and from which instruction to which each is alive.
struct Liveness {
  u32 registers = 0;
  std::vector<std::pair<u32, u32>> ranges;  // first > last: never
};
Liveness liveness(const ptx::Function& f);

inline bool is_signed(ptx::Type t) {
  using enum ptx::Type;
  return t == s8 || t == s16 || t == s32 || t == s64;
}
inline bool is_float(ptx::Type t) {
  using enum ptx::Type;
  return t == f16 || t == f32 || t == f64 || t == bf16 || t == f16x2 || t == bf16x2;
}

}  // namespace emu
