#include "ptx/declare.h"
#include "ptx/scopes.h"

namespace emu::ptx {
namespace {

class BodyParser {
 public:
  BodyParser(const Module& module, Function& f)
      : f_(f), in_(module.text, f.body_begin, f.body_end, f.body_line), scopes_(module, f) {}

  void run() {
    in_.expect('{');
    while (scopes_.depth() > 0) item();
  }

 private:
  void item() {
    switch (in_.peek()) {
      case '{':
        in_.expect('{');
        scopes_.open();
        return;
      case '}':
        in_.expect('}');
        scopes_.close();
        return;
      case ';':
        in_.expect(';');
        return;
      case '.':
        directive();
        return;
      case '@':
        instruction({});
        return;
      default:
        break;
    }
    const u32 line = in_.line();
    const std::string_view word = in_.name();
    if (!in_.take(':')) {
      instruction(word);
    } else if (in_.peek() != '.' || !list_of_labels(word, line)) {
      scopes_.add_label(word, line);
    }
  }

  void directive() {
    const u32 line = in_.line();
    const std::string_view d = in_.directive();
    const Space space = space_of(d);
    if (d == "loc") {
      at_ = parse_loc(in_);
    } else if (d == "reg") {
      registers();
    } else if (space != Space::none) {
      std::vector<Variable> all;
      parse_variables(in_, space, false, &all);
      for (Variable& v : all) scopes_.add_variable(std::move(v), line);
    } else if (d == "pragma") {
      in_.string();
      in_.expect(';');
    } else {
      in_.fail("unknown directive ." + std::string(d));
    }
  }

  void registers() {
    Type type = Type::none;
    const std::string_view d = in_.directive();
    if (!parse_type(d, &type)) in_.fail("registers of type ." + std::string(d));
    do {
      const u32 line = (in_.skip_blank(), in_.line());
      const std::string_view name = in_.name();
      if (in_.take('<')) {
        scopes_.add_registers(name, in_.count(), type, line);
        in_.expect('>');
      } else {
        scopes_.add_register(name, type, line);
      }
    } while (in_.take(','));
    in_.expect(';');
  }

  // `name: .branchtargets a, b;` and its like; false: a directive that says nothing of labels, such
  // as a .loc between a label and its instruction.
  bool list_of_labels(std::string_view name, u32 line) {
    Lexer ahead = in_;
    const std::string_view d = ahead.directive();
    if (d != "branchtargets" && d != "calltargets" && d != "callprototype") return false;
    in_ = ahead;
    if (d == "callprototype") {
      prototype();
      scopes_.add_symbol(name, line);
      return true;
    }
    std::vector<std::string_view> labels;
    do {
      labels.push_back(in_.name());
    } while (in_.take(','));
    in_.expect(';');
    if (d == "branchtargets") {
      scopes_.add_targets(name, std::move(labels), line);
    } else {
      scopes_.add_symbol(name, line);
    }
    return true;
  }

  // (.param .b64 _) _ (.param .b64 _, ...) .noreturn;  A call says all of it again.
  void prototype() {
    if (in_.peek() == '(') parse_parameters(in_);
    in_.name();
    if (in_.peek() == '(') parse_parameters(in_);
    while (!in_.take(';')) {
      if (in_.peek() != '.') in_.unexpected("';'");
      in_.directive();
      if (in_.at_number()) in_.count();
    }
  }

  // `first`: the opcode's first word, if it is read already; else the guard stands here.
  void instruction(std::string_view first) {
    Instruction& i = f_.code.emplace_back();
    i.ptx_line = in_.line();
    i.at = at_;
    if (first.empty()) {
      in_.expect('@');
      i.guard_negated = in_.take('!');
      const std::string_view name = in_.name();
      const Named n = scopes_.find(name);
      if (n.kind != Named::Kind::reg || f_.registers[n.index].type != Type::pred) {
        in_.fail("the guard " + std::string(name) + " is no predicate");
      }
      i.guard = i32(n.index);
      first = in_.name();
    }
    i.opcode.reserve(4);
    i.opcode.push_back(first);
    in_.opcode_rest(&i.opcode);
    is_branch_ = first == "bra";
    if (in_.take(';')) return;
    i.operands.reserve(4);
    do {
      operand(&i.operands.emplace_back());
    } while (in_.take(','));
    if (!in_.take(';')) in_.unexpected("',' or ';'");
  }

  void operand(Operand* o) {
    switch (in_.peek()) {
      case '{':
        elements(o, Operand::Kind::vector, '{', '}');
        return;
      case '(':
        elements(o, Operand::Kind::list, '(', ')');
        return;
      case '[':
        address(o);
        return;
      default:
        break;
    }
    if (in_.at_number()) {
      immediate(o, in_.constant());
      return;
    }
    o->negated = in_.take('!') || in_.take('-');
    named(o, in_.name());
    if (in_.take('|')) {
      const std::string_view name = in_.name();
      if (name != "_") o->second = i32(register_index(name));
    }
  }

  void elements(Operand* o, Operand::Kind kind, char open, char close) {
    o->kind = kind;
    in_.expect(open);
    if (in_.take(close)) return;
    do {
      operand(&o->elements.emplace_back());
    } while (in_.take(','));
    in_.expect(close);
  }

  static void immediate(Operand* o, const Constant& c) {
    o->kind = Operand::Kind::immediate;
    o->type = c.type;
    o->bits = c.bits;
  }

  void named(Operand* o, std::string_view name) {
    if (name == "_") {
      o->kind = Operand::Kind::sink;
    } else if (is_branch_) {
      label(o, name);
    } else if (name == "WARP_SZ") {
      immediate(o, {Type::s64, kLanes});
    } else if (const Named n = scopes_.find(name); n.kind == Named::Kind::reg) {
      o->kind = Operand::Kind::reg;
      o->index = n.index;
    } else if (n.kind != Named::Kind::none || scopes_.in_module(name)) {
      o->kind = Operand::Kind::symbol;
      o->name = symbol_name(n, name);
      if (in_.take('+') || in_.peek() == '-') o->offset = in_.integer();
    } else if (name[0] == '%') {
      special(o, name);
    } else {
      label(o, name);
    }
  }

  std::string symbol_name(const Named& n, std::string_view name) const {
    return n.kind == Named::Kind::variable ? f_.variables[n.index].name : std::string(name);
  }

  void label(Operand* o, std::string_view name) {
    Instruction& i = f_.code.back();
    if (o != &i.operands.back()) in_.fail(std::string(name) + " is not declared");  // in { }
    o->kind = Operand::Kind::label;
    scopes_.refer(name, u32(f_.code.size() - 1), u32(i.operands.size() - 1), i.ptx_line);
  }

  void special(Operand* o, std::string_view name) {
    if (!is_special_register(name)) in_.fail(std::string(name) + " is not declared");
    o->kind = Operand::Kind::special;
    o->name = name;
    if (in_.take('.')) o->name.append(".").append(in_.name());
  }

  u32 register_index(std::string_view name) {
    const Named n = scopes_.find(name);
    if (n.kind != Named::Kind::reg) in_.fail(std::string(name) + " is no register");
    return n.index;
  }

  // [%rd1+-4], [symbol+8], [4096]; with coordinates, [map, {%r1, %r2}], a list of both.
  void address(Operand* o) {
    in_.expect('[');
    Operand at;
    at.kind = Operand::Kind::address;
    if (in_.at_number()) {
      at.offset = in_.integer();
    } else {
      address_base(&at, in_.name());
      if (in_.take('+') || in_.peek() == '-') at.offset = in_.integer();
    }
    if (in_.peek() == ',') {
      o->kind = Operand::Kind::list;
      o->elements.push_back(std::move(at));
      while (in_.take(',')) operand(&o->elements.emplace_back());
    } else {
      *o = std::move(at);
    }
    in_.expect(']');
  }

  void address_base(Operand* o, std::string_view name) {
    const Named n = scopes_.find(name);
    if (n.kind == Named::Kind::reg) {
      o->has_base = true;
      o->index = n.index;
    } else if (n.kind != Named::Kind::none || scopes_.in_module(name)) {
      o->name = symbol_name(n, name);
    } else {
      in_.fail(std::string(name) + " is not declared");
    }
  }

  Function& f_;
  Lexer in_;
  Scopes scopes_;
  Location at_;
  bool is_branch_ = false;  // names among the operands are labels, whatever else they are
};

}  // namespace

void parse_body(const Module& module, Function& f) {
  if (f.has_body) return;
  if (f.is_declaration) fail_at(f.body_line, f.name + " is declared, but nowhere defined");
  f.registers.clear();  // of an attempt that threw
  f.variables.clear();
  f.code.clear();
  BodyParser(module, f).run();
  f.has_body = true;
}

}  // namespace emu::ptx
