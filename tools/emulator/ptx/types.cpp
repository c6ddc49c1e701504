#include <algorithm>
#include <utility>

#include "ptx/syntax.h"

namespace emu::ptx {
namespace {

struct TypeName {
  std::string_view name;
  Type type;
  u32 bytes;
};

constexpr TypeName kTypes[] = {
    // in Type's order, without none
    {"pred", Type::pred, 0},     {"b8", Type::b8, 1},     {"b16", Type::b16, 2},
    {"b32", Type::b32, 4},       {"b64", Type::b64, 8},   {"b128", Type::b128, 16},
    {"u8", Type::u8, 1},         {"u16", Type::u16, 2},   {"u32", Type::u32, 4},
    {"u64", Type::u64, 8},       {"s8", Type::s8, 1},     {"s16", Type::s16, 2},
    {"s32", Type::s32, 4},       {"s64", Type::s64, 8},   {"f16", Type::f16, 2},
    {"f16x2", Type::f16x2, 4},   {"bf16", Type::bf16, 2}, {"bf16x2", Type::bf16x2, 4},
    {"f32", Type::f32, 4},       {"f64", Type::f64, 8},   {"tf32", Type::tf32, 4},
    {"e4m3", Type::e4m3, 1},     {"e5m2", Type::e5m2, 1}, {"e4m3x2", Type::e4m3x2, 2},
    {"e5m2x2", Type::e5m2x2, 2},
};

constexpr bool in_order() {
  u32 n = 0;
  for (const TypeName& t : kTypes) {
    if (u32(t.type) != ++n) return false;
  }
  return n == u32(Type::e5m2x2);
}
static_assert(in_order());

}  // namespace

u32 type_bytes(Type t) { return t == Type::none ? 0 : kTypes[u32(t) - 1].bytes; }

bool parse_type(std::string_view name, Type* out) {
  for (const TypeName& n : kTypes) {
    if (n.name != name) continue;
    *out = n.type;
    return true;
  }
  return false;
}

const Function* Module::find(std::string_view name) const {
  const auto at = std::find_if(functions.begin(), functions.end(),
                               [&](const auto& f) { return f->name == name; });
  return at == functions.end() ? nullptr : at->get();
}

Function* Module::find(std::string_view name) {
  return const_cast<Function*>(std::as_const(*this).find(name));
}

}  // namespace emu::ptx
