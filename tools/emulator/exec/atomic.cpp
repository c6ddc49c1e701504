// atom and red. The lanes of a warp take their turns from a seeded one on: sums of floats come in
// another order with another seed, as on a GPU.
#include <cmath>

#include "exec/block.h"
#include "exec/half_bits.h"
#include "exec/lanes.h"

namespace emu {
namespace {

enum class What : u8 { add, band, bor, bxor, exchange, swap, inc, dec, minimum, maximum };
constexpr u32 kSpaceShift = 8, kReturns = 1 << 16;

template <class T>
T applied(What what, T old, T x, T y) {
  switch (what) {
    case What::add:
      return T(old + x);
    case What::exchange:
      return x;
    case What::minimum:
      return x < old ? x : old;
    case What::maximum:
      return old < x ? x : old;
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    switch (what) {
      case What::band:
        return T(U(old) & U(x));
      case What::bor:
        return T(U(old) | U(x));
      case What::bxor:
        return T(U(old) ^ U(x));
      case What::swap:
        return old == x ? y : old;
      case What::inc:
        return U(old) >= U(x) ? T(0) : T(U(old) + 1);
      case What::dec:
        return old == 0 || U(old) > U(x) ? x : T(U(old) - 1);
      default:
        break;
    }
  }
  return old;
}
struct F16 {
  u16 bits;
};
struct Bf16 {
  u16 bits;
};
struct F16x2 {
  u16 low, high;
};
struct Bf16x2 {
  u16 low, high;
};
u16 added(const Format& f, u16 a, u16 b) {
  return u16(encode_float(f, add_to_odd(decode_float(f, a), decode_float(f, b))));
}
F16 applied(What, F16 o, F16 x, F16) { return {added(kF16, o.bits, x.bits)}; }
Bf16 applied(What, Bf16 o, Bf16 x, Bf16) { return {added(kBf16, o.bits, x.bits)}; }
F16x2 applied(What, F16x2 o, F16x2 x, F16x2) {
  return {added(kF16, o.low, x.low), added(kF16, o.high, x.high)};
}
Bf16x2 applied(What, Bf16x2 o, Bf16x2 x, Bf16x2) {
  return {added(kBf16, o.low, x.low), added(kBf16, o.high, x.high)};
}
// Integers wrap: signed ones are computed without a sign.
i32 applied(What what, i32 old, i32 x, i32 y) {
  return what == What::add ? i32(u32(old) + u32(x)) : applied<i32>(what, old, x, y);
}
i64 applied(What what, i64 old, i64 x, i64 y) {
  return what == What::add ? i64(u64(old) + u64(x)) : applied<i64>(what, old, x, y);
}

template <class T, What W>
void atomic(Warp& w, const Op& op) {
  u8* p[kLanes];
  const Access a = {ptx::Space(op.aux >> kSpaceShift & 15), sizeof(T), true, true};
  locate(w, op, op.a, op.width, op.offset, a, p);
  const T* x = w.at<T>(op.b);
  const T* y = op.c == kNoSlot ? x : w.at<T>(op.c);
  const u32 first = w.block->random->below(kLanes);
  T old[kLanes];
  for (u32 i = 0; i < kLanes; ++i) {
    const u32 l = (first + i) & 31;
    if (!(w.mask >> l & 1)) continue;
    std::memcpy(&old[l], p[l], sizeof(T));
    const T now = applied(W, old[l], x[l], y[l]);
    std::memcpy(p[l], &now, sizeof(T));
  }
  ++w.block->counts->atomics;
  if (op.aux & kReturns) for_lanes(w.mask, [&](u32 l) { w.at<T>(op.d)[l] = old[l]; });
}

template <class T>
Handler of(const Decoder& d, What what) {
  switch (what) {
    case What::add:
      return atomic<T, What::add>;
    case What::exchange:
      return atomic<T, What::exchange>;
    case What::minimum:
      return atomic<T, What::minimum>;
    case What::maximum:
      return atomic<T, What::maximum>;
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    switch (what) {
      case What::band:
        return atomic<T, What::band>;
      case What::bor:
        return atomic<T, What::bor>;
      case What::bxor:
        return atomic<T, What::bxor>;
      case What::swap:
        return atomic<T, What::swap>;
      case What::inc:
        return atomic<T, What::inc>;
      case What::dec:
        return atomic<T, What::dec>;
      default:
        break;
    }
  }
  d.unknown("atomic");
}

What what_of(const Decoder& d) {
  static constexpr std::pair<const char*, What> kNames[] = {
      {"add", What::add},       {"and", What::band},   {"or", What::bor},  {"xor", What::bxor},
      {"exch", What::exchange}, {"cas", What::swap},   {"inc", What::inc}, {"dec", What::dec},
      {"min", What::minimum},   {"max", What::maximum}};
  for (const auto& [name, what] : kNames)
    if (d.has(name)) return what;
  d.unknown("atomic");
}

void decode_atomic(Decoder& d, bool returns) {
  Op& op = d.op();
  const ptx::Type t = d.type();
  const What what = what_of(d);
  ptx::Space space = d.has("global") ? ptx::Space::global : ptx::Space::generic;
  for (const std::string_view part : d.in().opcode)
    if (part.starts_with("shared")) space = ptx::Space::shared;
  const u32 first = returns ? 1 : 0;
  const Decoder::Address a = d.address(d.operand(first), space);
  if (d.operand(first + 1).kind == ptx::Operand::Kind::vector) d.unknown("vector atomic");
  if (returns) op.d = d.slot(0, t);
  op.a = a.base;
  op.width = u8(a.base_bytes);
  op.offset = a.offset;
  op.b = d.slot(first + 1, t);
  if (what == What::swap) op.c = d.slot(first + 2, t);
  op.aux = u32(a.space) << kSpaceShift | (returns ? kReturns : 0);
  // A lock, which orders accesses to shared memory as a barrier does.
  if (a.space == ptx::Space::shared && (what == What::swap || what == What::exchange))
    d.kernel().checks_shared_races = false;
  op.control = Control::yield;  // others get their turn: locks are waited for in loops
  using enum ptx::Type;
  const bool halves = t == f16 || t == bf16 || t == f16x2 || t == bf16x2;
  if (halves && what != What::add) d.unknown("atomic of halves");
  switch (t) {
    case f32:
      op.run = of<float>(d, what);
      break;
    case f64:
      op.run = of<double>(d, what);
      break;
    case s32:
      op.run = of<i32>(d, what);
      break;
    case s64:
      op.run = of<i64>(d, what);
      break;
    case b16:
    case ptx::Type::u16:
      op.run = of<emu::u16>(d, what);
      break;
    case b32:
    case ptx::Type::u32:
      op.run = of<emu::u32>(d, what);
      break;
    case b64:
    case ptx::Type::u64:
      op.run = of<emu::u64>(d, what);
      break;
    case f16:
      op.run = atomic<F16, What::add>;
      break;
    case bf16:
      op.run = atomic<Bf16, What::add>;
      break;
    case f16x2:
      op.run = atomic<F16x2, What::add>;
      break;
    case bf16x2:
      op.run = atomic<Bf16x2, What::add>;
      break;
    default:
      d.unknown("atomic");
  }
}

}  // namespace

std::vector<OpcodeEntry> atomic_opcodes() {
  return {
      {"atom", [](Decoder& d) { decode_atomic(d, true); }},
      {"red", [](Decoder& d) { decode_atomic(d, false); }},
  };
}

}  // namespace emu
