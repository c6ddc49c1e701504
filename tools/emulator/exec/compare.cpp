// setp and set: PTX ISA, "Comparison and selection instructions".
#include "exec/half_bits.h"
#include "exec/lanes.h"

namespace emu {
namespace {

// Ordered comparisons are false for a NaN; those from `equ` on are true for one.
enum class Test : u8 { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };

template <class T, Test Q>
u32 compare(const T* a, const T* b) {
  return lane_bits([=](u32 l) {
    const T x = a[l], y = b[l];
    if constexpr (Q == Test::eq) return x == y;
    if constexpr (Q == Test::ne) return x < y || x > y;
    if constexpr (Q == Test::lt) return x < y;
    if constexpr (Q == Test::le) return x <= y;
    if constexpr (Q == Test::gt) return x > y;
    if constexpr (Q == Test::ge) return x >= y;
    if constexpr (Q == Test::equ) return !(x < y || x > y);
    if constexpr (Q == Test::neu) return x != y;
    if constexpr (Q == Test::ltu) return !(x >= y);
    if constexpr (Q == Test::leu) return !(x > y);
    if constexpr (Q == Test::gtu) return !(x <= y);
    if constexpr (Q == Test::geu) return !(x < y);
    if constexpr (Q == Test::num) return x == x && y == y;
    return x != x || y != y;
  });
}

// aux: 0 none, 1 and, 2 or, 3 xor with the predicate c; +4: c is negated; +8: f16 is flushed.
u32 joined(const Warp& w, const Op& op, u32 bits) {
  if (!(op.aux & 3)) return bits;
  const u32 c = w.preds[op.c] ^ (op.aux & 4 ? kAllLanes : 0);
  return (op.aux & 3) == 1 ? bits & c : (op.aux & 3) == 2 ? bits | c : bits ^ c;
}
// d = result BOOL c and e = !result BOOL c.
void give(Warp& w, const Op& op, u32 r) {
  const u32 yes = joined(w, op, r), no = joined(w, op, ~r);
  set_pred(w, op.d, yes);
  set_pred(w, op.e, no);
}
// Of `set`: Op::offset is the value of both halves of d where true. Of single results low is high.
void give_value(Warp& w, const Op& op, u32 low, u32 high) {
  const u32 l_bits = joined(w, op, low), h_bits = joined(w, op, high), yes = u32(op.offset);
  if (op.target == 2)
    return set_lanes(w, w.at<u16>(op.d), [=](u32 l) { return u16(l_bits >> l & 1 ? yes : 0); });
  set_lanes(w, w.at<u32>(op.d), [=](u32 l) {
    return (l_bits >> l & 1 ? yes & 0xffff : 0) | (h_bits >> l & 1 ? yes & 0xffff0000u : 0);
  });
}

template <class T, Test Q>
void set_predicate(Warp& w, const Op& op) {
  give(w, op, compare<T, Q>(w.at<T>(op.a), w.at<T>(op.b)));
}
template <class T, Test Q>
void set_value(Warp& w, const Op& op) {
  const u32 r = compare<T, Q>(w.at<T>(op.a), w.at<T>(op.b));
  give_value(w, op, r, r);
}

#define WT_TESTS(X) \
  X(eq) X(ne) X(lt) X(le) X(gt) X(ge) X(equ) X(neu) X(ltu) X(leu) X(gtu) X(geu) X(num) X(nan)

template <class T>
Handler predicate_of(Test q) {
  switch (q) {
#define X(NAME)    \
  case Test::NAME: \
    return set_predicate<T, Test::NAME>;
    WT_TESTS(X)
#undef X
  }
  return nullptr;
}
template <class T>
Handler value_of(Test q) {
  switch (q) {
#define X(NAME)    \
  case Test::NAME: \
    return set_value<T, Test::NAME>;
    WT_TESTS(X)
#undef X
  }
  return nullptr;
}

Test test_of(const Decoder& d) {
#define X(NAME) \
  if (d.in().opcode[1] == #NAME && d.has(#NAME)) return Test::NAME;
  WT_TESTS(X)
#undef X
  if (d.in().opcode[1] == "lo" && d.has("lo")) return Test::lt;
  if (d.in().opcode[1] == "ls" && d.has("ls")) return Test::le;
  if (d.in().opcode[1] == "hi" && d.has("hi")) return Test::gt;
  if (d.in().opcode[1] == "hs" && d.has("hs")) return Test::ge;
  d.unknown("comparison");
}

// Halves are compared as floats, at leisure. `part`: of a pair, 1 the upper one.
template <bool Brain, bool Pair>
u32 compare_halves(const Warp& w, const Op& op, u32 part) {
  float a[kLanes], b[kLanes];
  const auto value = [&](Slot s, u32 l) {
    u16 x = Pair ? u16(w.at<u32>(s)[l] >> 16 * part) : w.at<u16>(s)[l];
    if (!Brain && op.aux & 8 && !(x & 0x7c00)) x &= 0x8000;
    return Brain ? bf16_to_float(x) : f16_to_float(x);
  };
  for (u32 l = 0; l < kLanes; ++l) a[l] = value(op.a, l), b[l] = value(op.b, l);
  switch (Test(op.width)) {
#define X(NAME)    \
  case Test::NAME: \
    return compare<float, Test::NAME>(a, b);
    WT_TESTS(X)
#undef X
  }
  return 0;
}
template <bool Brain>
void set_half(Warp& w, const Op& op) {
  give(w, op, compare_halves<Brain, false>(w, op, 0));
}
// Of pairs the first predicate is the lower half's, the second the upper half's.
template <bool Brain>
void set_half_pair(Warp& w, const Op& op) {
  const u32 low = joined(w, op, compare_halves<Brain, true>(w, op, 0)),
            high = joined(w, op, compare_halves<Brain, true>(w, op, 1));
  set_pred(w, op.d, low);
  set_pred(w, op.e, high);
}
template <bool Brain, bool Pair>
void set_value_half(Warp& w, const Op& op) {
  const u32 low = compare_halves<Brain, Pair>(w, op, 0);
  give_value(w, op, low, Pair ? compare_halves<Brain, true>(w, op, 1) : low);
}

// The joined predicate is operand 3; `aux` as above.
void decode_join(Decoder& d) {
  Op& op = d.op();
  op.aux = d.has("and") ? 1 : d.has("or") ? 2 : d.has("xor") ? 3 : 0;
  if (op.aux) {
    op.c = d.pred(d.operand(3));
    if (d.operand(3).negated) op.aux |= 4;
  }
  if (d.has("ftz")) op.aux |= 8;
}

void decode_setp(Decoder& d) {
  const Test q = test_of(d);
  const ptx::Type t = d.type();
  Op& op = d.op();
  op.d = d.pred(d.operand(0));
  // A second predicate follows the first after a bar.
  if (d.operand(0).second >= 0) {
    ptx::Operand other = d.operand(0);
    other.index = u32(other.second);
    op.e = d.pred(other);
  }
  op.a = d.slot(1, t);
  op.b = d.slot(2, t);
  decode_join(d);
  op.width = u8(q);
  if (t == ptx::Type::f32) op.csr = csr_of(d);  // .ftz: subnormals are compared as zeros
  using enum ptx::Type;
  if (t == f32)
    op.run = predicate_of<float>(q);
  else if (t == f64)
    op.run = predicate_of<double>(q);
  else if (t == f16)
    op.run = set_half<false>;
  else if (t == bf16)
    op.run = set_half<true>;
  else if (t == f16x2)
    op.run = set_half_pair<false>;
  else if (t == bf16x2)
    op.run = set_half_pair<true>;
  else
    op.run = by_integer(d, t, [&](auto x) { return predicate_of<decltype(x)>(q); });
}

void decode_set(Decoder& d) {
  const Test q = test_of(d);
  const ptx::Type to = d.type(0), t = d.type(1);
  using enum ptx::Type;
  Op& op = d.op();
  op.d = d.slot(0, to);
  op.a = d.slot(1, t);
  op.b = d.slot(2, t);
  decode_join(d);
  op.width = emu::u8(q);
  op.target = ptx::type_bytes(to);
  if (op.target != 2 && op.target != 4) d.unknown("set");
  op.offset = to == f32                    ? 0x3f800000
              : to == f16 || to == f16x2   ? 0x3c003c00
              : to == bf16 || to == bf16x2 ? 0x3f803f80
                                           : 0xffffffff;
  if (t == f32) op.csr = csr_of(d);
  switch (t) {
    case f32:
      op.run = value_of<float>(q);
      break;
    case f64:
      op.run = value_of<double>(q);
      break;
    case f16:
      op.run = set_value_half<false, false>;
      break;
    case bf16:
      op.run = set_value_half<true, false>;
      break;
    case f16x2:
      op.run = set_value_half<false, true>;
      break;
    case bf16x2:
      op.run = set_value_half<true, true>;
      break;
    default:
      op.run = by_integer(d, t, [&](auto x) { return value_of<decltype(x)>(q); });
  }
}

}  // namespace

std::vector<OpcodeEntry> compare_opcodes() { return {{"setp", decode_setp}, {"set", decode_set}}; }

}  // namespace emu
