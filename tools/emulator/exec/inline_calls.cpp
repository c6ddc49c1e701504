// Calls by copying: nvcc leaves few (division, slow paths of trigonometry, __noinline__), and
// diverged lanes in a copied body need no stack of their own. Parameters are .param variables of
// the caller, which live in its local memory.
#include <stdexcept>
#include <unordered_map>

#include "exec/decode.h"

namespace emu {
namespace {

using Kind = ptx::Operand::Kind;
constexpr u32 kMostInstructions = 4'000'000;

class Inliner {
 public:
  Inliner(const ptx::Module& module, ptx::Function& f) : module_(module), f_(f) {}

  void run() {
    // Rounds, a level of calls each: recursion would never end.
    for (u32 level = 0; level < 64; ++level)
      if (!round()) return;
    throw std::runtime_error(f_.name + ": functions call themselves, which is not emulated");
  }

 private:
  using Names = std::unordered_map<std::string, std::string>;

  static bool is_builtin(const std::string& name) {
    return name == "vprintf" || name == "__assertfail" || name == "malloc" || name == "free" ||
           name == "__assert_fail";
  }

  const ptx::Operand* callee(const ptx::Instruction& in) const {
    for (const ptx::Operand& o : in.operands)
      if (o.kind == Kind::symbol && module_.find(o.name)) return &o;
    return nullptr;
  }

  bool round() {
    bool found = false;
    std::vector<ptx::Instruction> code;
    std::vector<u32> moved(f_.code.size() + 1);  // where an old instruction is now
    std::vector<std::pair<u32, u32>> own;        // ranges of `code` that are the caller's
    for (u32 i = 0; i < f_.code.size(); ++i) {
      moved[i] = u32(code.size());
      const ptx::Instruction& in = f_.code[i];
      const ptx::Operand* to = in.opcode[0] == "call" ? callee(in) : nullptr;
      if (!to || is_builtin(to->name)) {
        own.push_back({u32(code.size()), u32(code.size()) + 1});
        code.push_back(in);
        continue;
      }
      found = true;
      copy(in, *const_cast<ptx::Module&>(module_).find(to->name), code);
      if (code.size() > kMostInstructions)
        throw std::runtime_error(f_.name + ": too many calls to copy");
    }
    if (!found) return false;
    moved[f_.code.size()] = u32(code.size());
    for (const auto& [from, to] : own)
      for (u32 i = from; i < to; ++i)
        for (ptx::Operand& o : code[i].operands)
          if (o.kind == Kind::label) o.index = moved[o.index];
    f_.code = std::move(code);
    return true;
  }

  // A guarded call jumps over the copy where the guard fails.
  void copy(const ptx::Instruction& call, ptx::Function& g, std::vector<ptx::Instruction>& code) {
    ptx::parse_body(module_, g);
    if (!g.has_body) throw std::runtime_error(f_.name + " calls " + g.name + ", which has no body");
    const u32 registers = u32(f_.registers.size());
    f_.registers.insert(f_.registers.end(), g.registers.begin(), g.registers.end());
    Names names;
    bind(call, g, names);
    const std::string suffix = "@" + std::to_string(copies_++);
    for (const ptx::Variable& v : g.variables) {
      if (v.space == ptx::Space::shared) {  // one a block, whoever calls
        bool known = false;
        for (const ptx::Variable& o : f_.variables) known |= o.name == v.name;
        if (!known) f_.variables.push_back(v);
        continue;
      }
      names[v.name] = v.name + suffix;
      f_.variables.push_back(v);
      f_.variables.back().name = v.name + suffix;
    }
    i32 jump = -1;
    if (call.guard >= 0) {
      jump = i32(code.size());
      code.push_back(branch(call));
      code.back().guard = call.guard;
      code.back().guard_negated = !call.guard_negated;
    }
    const u32 begin = u32(code.size()), end = begin + u32(g.code.size());
    for (ptx::Instruction in : g.code) {
      if (in.guard >= 0) in.guard += i32(registers);
      if (in.opcode[0] == "ret") {
        const i32 guard = in.guard;
        const bool negated = in.guard_negated;
        in = branch(in);
        in.guard = guard;
        in.guard_negated = negated;
        in.operands[0].index = end;
      } else {
        for (ptx::Operand& o : in.operands) adapt(o, registers, begin, names);
      }
      code.push_back(std::move(in));
    }
    if (jump >= 0) code[u32(jump)].operands[0].index = end;
  }

  static ptx::Instruction branch(const ptx::Instruction& like) {
    ptx::Instruction b = like;
    b.opcode = {"bra"};
    ptx::Operand to;
    to.kind = Kind::label;
    b.operands = {to};
    b.guard = -1;
    return b;
  }

  static void adapt(ptx::Operand& o, u32 registers, u32 begin, const Names& names) {
    if (o.kind == Kind::reg || (o.kind == Kind::address && o.has_base)) o.index += registers;
    if (o.second >= 0) o.second += i32(registers);
    if (o.kind == Kind::label) o.index += begin;
    if (const auto it = names.find(o.name); it != names.end()) o.name = it->second;
    for (ptx::Operand& e : o.elements) adapt(e, registers, begin, names);
  }

  // call (r0, ...), f, (p0, ...): the callee's names for its parameters become the caller's.
  void bind(const ptx::Instruction& call, const ptx::Function& g, Names& names) const {
    const std::vector<ptx::Operand>* results = nullptr;
    const std::vector<ptx::Operand>* values = nullptr;
    bool past = false;
    for (const ptx::Operand& o : call.operands) {
      if (o.kind == Kind::symbol && o.name == g.name) past = true;
      if (o.kind == Kind::list) (past ? values : results) = &o.elements;
    }
    const auto match = [&](const std::vector<ptx::Operand>* given,
                           const std::vector<ptx::Variable>& wanted) {
      if ((given ? given->size() : 0) != wanted.size())
        throw std::runtime_error(f_.name + " calls " + g.name + " with other parameters");
      for (size_t i = 0; i < wanted.size(); ++i) names[wanted[i].name] = (*given)[i].name;
    };
    match(results, g.returns);
    match(values, g.params);
  }

  const ptx::Module& module_;
  ptx::Function& f_;
  u32 copies_ = 0;
};

}  // namespace

void inline_calls(const ptx::Module& module, ptx::Function& f) {
  bool any = false;
  for (const ptx::Instruction& in : f.code) any |= in.opcode[0] == "call";
  if (any) Inliner(module, f).run();
}

}  // namespace emu
