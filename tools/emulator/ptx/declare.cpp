#include "ptx/declare.h"

#include <bit>
#include <cstring>

namespace emu::ptx {
namespace {

constexpr u64 kMostBytes = u64(1) << 40;  // keeps products of dimensions from wrapping

// What stands between the space and the name: `.align 16 .v4 .f32`, `.u64 .ptr .global .align 8`.
struct Kind {
  Type type = Type::none;
  u32 align = 0, vector = 1;
};

Kind parse_kind(Lexer& in) {
  Kind k;
  bool of_pointee = false;  // after .ptr space and alignment are those of the memory pointed to
  while (in.peek() == '.') {
    const std::string_view d = in.directive();
    if (d == "align") {
      const u32 align = in.count();
      if (!std::has_single_bit(align)) in.fail("an alignment that is no power of two");
      if (!of_pointee) k.align = align;
    } else if (d == "ptr") {
      of_pointee = true;
    } else if (of_pointee && (space_of(d) != Space::none || d == "generic")) {
      continue;
    } else if (d == "v2" || d == "v4") {
      k.vector = d == "v2" ? 2 : 4;
    } else if (d == "attribute") {
      in.skip_parentheses();  // .managed: every variable is, here
    } else if (!parse_type(d, &k.type) || k.type == Type::pred) {
      in.fail("a variable of type ." + std::string(d));
    }
  }
  if (k.type == Type::none) in.unexpected("a type");
  if (k.align == 0) k.align = type_bytes(k.type) * k.vector;
  return k;
}

class Initialiser {
 public:
  // strides[i]: bytes of one element of dimension i; the last is the scalar's size.
  Initialiser(Lexer& in, Type type, const std::vector<u64>& strides, Variable* v)
      : in_(in), type_(type), strides_(strides), v_(v) {}

  // Fills from `at`; returns where the last value ended.
  u64 values(u32 level, u64 at) {
    if (in_.peek() == '"') return string(at);
    if (!in_.take('{')) return scalar(at);
    while (!in_.take('}')) {
      if (in_.peek() == '{') {
        if (level + 2 >= strides_.size()) in_.fail("an initialiser with too many braces");
        values(level + 1, at);
        at += strides_[level];
      } else {
        at = values(level, at);
      }
      if (in_.peek() != '}') in_.expect(',');
    }
    return at;
  }

 private:
  u64 string(u64 at) {
    const std::string s = in_.string();
    for (char c : s) at = put(at, u64(u8(c)));
    return at;
  }

  u64 put(u64 at, u64 bits) {
    const u64 size = type_bytes(type_);
    if (v_->bytes != 0 && at + size > v_->bytes) in_.fail("too many initial values: " + v_->name);
    if (v_->initial.size() < at + size) v_->initial.resize(at + size);
    std::memcpy(&v_->initial[at], &bits, size < 8 ? size : 8);
    return at + size;
  }

  u64 scalar(u64 at) {
    if (!in_.at_number()) return address(at);
    Constant c = in_.constant();
    if (in_.peek() == '(') return masked_byte(at, c);
    if (type_ == Type::f32 && c.type != Type::f32) {
      c.bits = std::bit_cast<u32>(static_cast<float>(as_double(c)));
    } else if (type_ == Type::f64 && c.type != Type::f64) {
      c.bits = std::bit_cast<u64>(as_double(c));
    }
    return put(at, c.bits);
  }

  static double as_double(const Constant& c) {
    if (c.type == Type::f64) return std::bit_cast<double>(c.bits);
    if (c.type == Type::f32) return std::bit_cast<float>(u32(c.bits));
    return c.type == Type::u64 ? static_cast<double>(c.bits) : static_cast<double>(c.integer());
  }

  // generic(x) + 4, or x + 4.
  Variable::Address symbol(u64 at) {
    std::string_view name = in_.name();
    const bool generic = name == "generic" && in_.take('(');
    if (generic) {
      name = in_.name();
      in_.expect(')');
    }
    const bool has_offset = in_.take('+') || in_.peek() == '-';
    return {at, std::string(name), has_offset ? in_.integer() : 0, generic};
  }

  u64 address(u64 at) {
    if (type_bytes(type_) != 8) in_.fail("an address in a variable of less than 64 bits");
    v_->addresses.push_back(symbol(at));
    return put(at, 0);
  }

  // 0xFF00(x): one byte of an address, as nvcc spreads pointers over arrays of .b8. Eight of them
  // in their order make an address; other uses of the operator are not taken.
  u64 masked_byte(u64 at, const Constant& mask) {
    in_.expect('(');
    Variable::Address a = symbol(at);
    in_.expect(')');
    const u32 byte = u32(std::countr_zero(mask.bits)) / 8;
    if (type_bytes(type_) != 1 || byte > 7 || mask.bits != u64(0xFF) << (8 * byte)) {
      in_.fail("a mask that does not select one byte of an address");
    }
    if (byte == 0) {
      v_->addresses.push_back(a);
    } else {
      const Variable::Address* first = v_->addresses.empty() ? nullptr : &v_->addresses.back();
      if (!first || first->at + byte != at || first->symbol != a.symbol ||
          first->offset != a.offset || first->generic != a.generic) {
        in_.fail("bytes of an address out of order");
      }
    }
    return put(at, 0);
  }

  Lexer& in_;
  Type type_;
  const std::vector<u64>& strides_;
  Variable* v_;
};

// The name, [dimensions] and = value.
Variable parse_declarator(Lexer& in, const Kind& kind, Space space, bool is_extern) {
  Variable v;
  v.name = in.name();
  v.space = space;
  v.align = kind.align;
  v.is_extern = is_extern;
  std::vector<u64> dimensions;
  bool open = false;  // x[]
  while (in.take('[')) {
    open = open || in.peek() == ']';
    dimensions.push_back(in.peek() == ']' ? 0 : in.count());
    in.expect(']');
  }
  if (kind.vector > 1) dimensions.push_back(kind.vector);
  u64 bytes = type_bytes(kind.type);
  std::vector<u64> strides(dimensions.size() + 1, bytes);
  for (u64 i = dimensions.size(); i-- > 0;) {
    strides[i] = bytes;
    bytes *= dimensions[i];
    if (bytes > kMostBytes) in.fail("a variable too large: " + v.name);
  }
  v.bytes = bytes;
  if (!in.take('=')) return v;
  if (bytes == 0 && !open) in.fail("initial values of an empty variable: " + v.name);
  Initialiser(in, kind.type, strides, &v).values(0, 0);
  if (open) {  // whole rows of the dimension left open
    if (strides[0] == 0) in.fail("an array of unknown size: " + v.name);
    v.bytes = (v.initial.size() + strides[0] - 1) / strides[0] * strides[0];
  }
  v.initial.resize(v.bytes);
  return v;
}

}  // namespace

Space space_of(std::string_view d) {
  if (d == "global") return Space::global;
  if (d == "shared") return Space::shared;
  if (d == "const") return Space::constant;
  if (d == "local") return Space::local;
  if (d == "param") return Space::param;
  if (d == "reg") return Space::reg;
  return Space::none;
}

void parse_variables(Lexer& in, Space space, bool is_extern, std::vector<Variable>* out) {
  const Kind kind = parse_kind(in);
  do {
    out->push_back(parse_declarator(in, kind, space, is_extern));
  } while (in.take(','));
  in.expect(';');
}

std::vector<Variable> parse_parameters(Lexer& in) {
  std::vector<Variable> params;
  in.expect('(');
  while (!in.take(')')) {
    if (!params.empty()) in.expect(',');
    const std::string_view space = in.directive();
    if (space != "param") in.fail("a parameter in ." + std::string(space));
    const Kind kind = parse_kind(in);
    params.push_back(parse_declarator(in, kind, Space::param, false));
  }
  return params;
}

Location parse_loc(Lexer& in) {
  Location at;
  at.file = in.count();
  at.line = in.count();
  in.count();  // column
  while (in.take(',')) {
    const std::string_view what = in.name();
    if (what == "function_name") {
      in.name();
      if (in.take('+')) in.count();
    } else if (what == "inlined_at") {
      at.outer_file = in.count();
      at.outer_line = in.count();
      in.count();
    } else {
      in.fail(".loc with " + std::string(what));
    }
  }
  return at;
}

}  // namespace emu::ptx
