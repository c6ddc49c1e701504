// The names of a function's body. Scopes nest: an inline asm's { } has registers, variables and
// labels of its own, which hide those outside and end with it.
#pragma once
#include <string_view>
#include <unordered_map>

#include "ptx/syntax.h"

namespace emu::ptx {

struct Named {
  enum class Kind : u8 { none, reg, variable, symbol };
  Kind kind = Kind::none;
  u32 index = 0;  // of Function::registers or ::variables; a symbol's name stands for itself
};

// Lets a map of strings be asked for a piece of the text.
struct NameHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
};
template <class T>
using NameMap = std::unordered_map<std::string, T, NameHash, std::equal_to<>>;

class Scopes {
 public:
  Scopes(const Module& module, Function& f);

  void open() { scopes_.emplace_back(); }
  // Labels that this scope does not know are left to the one around it. The outermost scope closes
  // with an error for them.
  void close();
  u64 depth() const { return scopes_.size(); }

  void add_registers(std::string_view prefix, u32 count, Type type, u32 line);  // %r<count>
  void add_register(std::string_view name, Type type, u32 line);
  void add_variable(Variable v, u32 line);           // gives it a name of its own
  void add_symbol(std::string_view name, u32 line);  // of a .callprototype
  void add_label(std::string_view name, u32 line);   // of the next instruction
  void add_targets(std::string_view name, std::vector<std::string_view> labels, u32 line);

  Named find(std::string_view name) const;
  bool in_module(std::string_view name) const;

  // The operand becomes a label, or a list of those that a .branchtargets has: at the latest when
  // the body ends, for labels are used before they are seen.
  void refer(std::string_view label, u32 instruction, u32 operand, u32 line);

 private:
  struct Range {
    std::string_view prefix;
    u32 count, first;
  };
  struct Reference {
    std::string_view label;
    u32 instruction, operand;
    i32 element;  // of a list; -1: the operand itself
    u32 line;
  };
  struct Scope {
    std::vector<Range> ranges;
    NameMap<Named> names;
    std::unordered_map<std::string_view, u32> labels;
    std::unordered_map<std::string_view, std::vector<std::string_view>> targets;
    std::vector<Reference> references;
  };

  static const Range* find_range(const Scope& s, std::string_view name, u32* number);
  void add(std::string_view name, Named n, u32 line);
  bool resolve(Scope& s, const Reference& r);

  const Module& module_;
  Function& f_;
  std::vector<Scope> scopes_;
  NameMap<u32> repeats_;  // of a variable's name
};

// "%tid" and its like, without the component; also %envreg0 .. 31 and %pm0 .. 7.
bool is_special_register(std::string_view name);

}  // namespace emu::ptx
