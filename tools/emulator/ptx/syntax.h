// A PTX module as its text says it (PTX ISA 9.0, "Syntax" and "State spaces, types and
// variables"). Names are resolved: a register is an index, a label the instruction that follows it.
// What an instruction means is exec/decode.h's business.
#pragma once
#include <memory>
#include <string_view>

#include "basic.h"

namespace emu::ptx {

// .b8 .. .f64, .pred and the packed types; f16x2 and bf16x2 are types of instructions only.
enum class Type : u8 {
  none,
  pred,
  b8,
  b16,
  b32,
  b64,
  b128,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  f16x2,
  bf16,
  bf16x2,
  f32,
  f64,
  tf32,
  e4m3,
  e5m2,
  e4m3x2,
  e5m2x2,
};
u32 type_bytes(Type t);                             // 0: none and pred
bool parse_type(std::string_view name, Type* out);  // "u32", without the point

enum class Space : u8 { none, reg, param, shared, local, global, constant, generic };

struct Register {
  std::string name;  // "%r4"
  Type type = Type::none;
};

// A variable of a state space: of the module, of a function's body, or a parameter.
struct Variable {
  std::string name;
  Space space = Space::none;
  u32 align = 1;
  u64 bytes = 0;  // 0 of `.extern .shared x[]`
  bool is_extern = false;
  std::vector<u8> initial;  // zero-filled to `bytes`; empty: none was given
  // Places of `initial` that hold an address: generic(symbol) + offset, or symbol + offset.
  struct Address {
    u64 at;
    std::string symbol;
    i64 offset;
    bool generic;
  };
  std::vector<Address> addresses;
};

struct Operand {
  enum class Kind : u8 {
    reg,        // index
    immediate,  // bits; `type` is s64, u64, f32 or f64 as written
    special,    // %tid.x and its like; `name`
    symbol,     // a variable's or function's name [+ offset]
    address,    // [reg or symbol + offset] or [immediate]
    vector,     // {a, b, c, d}: elements
    label,      // index of an instruction of the body (may be the number of instructions)
    sink,       // _
    list,       // (a, b) of a call, [a, {b, c}] of tensor operations
  };
  Kind kind = Kind::sink;
  Type type = Type::none;  // of immediates
  bool negated = false;    // !%p, or -%r
  bool has_base = false;   // an address whose base is register `index`, else `name` or neither
  u32 index = 0;
  i32 second = -1;  // of a|b: the register b; -1: none
  u64 bits = 0;
  i64 offset = 0;
  std::string name;
  std::vector<Operand> elements;
};

// Where the source says it, outermost call first. Files are indices of Module::files.
struct Location {
  u32 file = 0, line = 0;
  u32 outer_file = 0, outer_line = 0;  // where it was inlined; 0: nowhere
};

struct Instruction {
  std::vector<std::string_view> opcode;  // "ld", "global", "v4", "f32"; into Module::text
  std::vector<Operand> operands;         // as written: destination first
  i32 guard = -1;                        // predicate register; -1: none
  bool guard_negated = false;
  u32 ptx_line = 0;  // from 1, in Module::text
  Location at;
};

struct Function {
  std::string name;
  bool is_entry = false, is_declaration = false;
  std::vector<Variable> params, returns;  // space param
  u32 max_threads[3] = {0, 0, 0};         // .maxntid, or .reqntid; 0: not given
  bool threads_required = false;          // .reqntid
  u32 min_blocks = 0;                     // .minnctapersm
  u32 cluster[3] = {0, 0, 0};             // .reqnctapercluster; 0: not given
  // Filled in by parse_body().
  bool has_body = false;
  std::vector<Register> registers;
  std::vector<Variable> variables;  // of the body, names made unique where scopes repeat them
  std::vector<Instruction> code;
  u64 body_begin = 0, body_end = 0;  // in Module::text, braces included
  u32 body_line = 0;                 // PTX line of body_begin
};

struct Module {
  std::string text;
  u32 version_major = 0, version_minor = 0;
  std::string target;  // "sm_90a"
  u32 address_bits = 64;
  std::vector<std::string> files;  // by .file's number; 0 is empty
  std::vector<Variable> variables;
  std::vector<std::unique_ptr<Function>> functions;
  const Function* find(std::string_view name) const;
  Function* find(std::string_view name);
};

// Throws std::runtime_error("PTX line N: ...") for what it does not understand. Bodies are found,
// not read: parse_body() does that at a kernel's first launch.
std::unique_ptr<Module> parse_module(std::string text);
void parse_body(const Module& module, Function& f);

}  // namespace emu::ptx
