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

// d = result BOOL c and e = !result BOOL c; aux: 0 none, 1 and, 2 or, 3 xor; +4: c is negated.
void give(Warp& w, const Op& op, u32 r) {
  const auto combined = [&](u32 bits) {
    if (!(op.aux & 3)) return bits;
    const u32 c = w.preds[op.c] ^ (op.aux & 4 ? kAllLanes : 0);
    return (op.aux & 3) == 1 ? bits & c : (op.aux & 3) == 2 ? bits | c : bits ^ c;
  };
  const u32 yes = combined(r), no = combined(~r);
  set_pred(w, op.d, yes);
  set_pred(w, op.e, no);
}

template <class T, Test Q>
void set_predicate(Warp& w, const Op& op) {
  give(w, op, compare<T, Q>(w.at<T>(op.a), w.at<T>(op.b)));
}
template <class T, Test Q>
void set_value(Warp& w, const Op& op) {
  const u32 r = compare<T, Q>(w.at<T>(op.a), w.at<T>(op.b)), yes = op.aux;
  set_lanes(w, w.at<u32>(op.d), [=](u32 l) { return r >> l & 1 ? yes : 0; });
}

template <class T, template <class, Test> class Which>
Handler pick(Test q);

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
  if (d.in().opcode[1] == #NAME) return Test::NAME;
  WT_TESTS(X)
#undef X
  if (d.in().opcode[1] == "lo") return Test::lt;
  if (d.in().opcode[1] == "ls") return Test::le;
  if (d.in().opcode[1] == "hi") return Test::gt;
  if (d.in().opcode[1] == "hs") return Test::ge;
  d.unknown("comparison");
}

// Halves are compared as floats, at leisure.
template <bool Brain>
void set_half(Warp& w, const Op& op) {
  float a[kLanes], b[kLanes];
  for (u32 l = 0; l < kLanes; ++l) {
    const u16 x = w.at<u16>(op.a)[l], y = w.at<u16>(op.b)[l];
    a[l] = Brain ? bf16_to_float(x) : f16_to_float(x);
    b[l] = Brain ? bf16_to_float(y) : f16_to_float(y);
  }
  u32 r = 0;
  switch (Test(op.width)) {
#define X(NAME)                           \
  case Test::NAME:                        \
    r = compare<float, Test::NAME>(a, b); \
    break;
    WT_TESTS(X)
#undef X
  }
  give(w, op, r);
}
// Of pairs the first predicate is the lower half's, the second the upper half's.
template <bool Brain>
void set_half_pair(Warp& w, const Op& op) {
  for (u32 part = 0; part < 2; ++part) {
    float a[kLanes], b[kLanes];
    for (u32 l = 0; l < kLanes; ++l) {
      const u16 x = u16(w.at<u32>(op.a)[l] >> 16 * part), y = u16(w.at<u32>(op.b)[l] >> 16 * part);
      a[l] = Brain ? bf16_to_float(x) : f16_to_float(x);
      b[l] = Brain ? bf16_to_float(y) : f16_to_float(y);
    }
    u32 r = 0;
    switch (Test(op.width)) {
#define X(NAME)                           \
  case Test::NAME:                        \
    r = compare<float, Test::NAME>(a, b); \
    break;
      WT_TESTS(X)
#undef X
    }
    Op one = op;
    one.d = part ? op.e : op.d;
    one.e = kNoSlot;
    give(w, one, r);
  }
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
  op.aux = d.has("and") ? 1 : d.has("or") ? 2 : d.has("xor") ? 3 : 0;
  if (op.aux) {
    op.c = d.pred(d.operand(3));
    if (d.operand(3).negated) op.aux |= 4;
  }
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
  if (d.has("and") || d.has("or") || d.has("xor") || ptx::type_bytes(to) != 4)
    d.unknown("set with a predicate");
  Op& op = d.op();
  op.d = d.slot(0, to);
  op.a = d.slot(1, t);
  op.b = d.slot(2, t);
  op.aux = to == ptx::Type::f32 ? 0x3f800000u : ~0u;
  if (t == ptx::Type::f32) op.csr = csr_of(d);
  if (t == ptx::Type::f32)
    op.run = value_of<float>(q);
  else if (t == ptx::Type::f64)
    op.run = value_of<double>(q);
  else
    op.run = by_integer(d, t, [&](auto x) { return value_of<decltype(x)>(q); });
}

}  // namespace

std::vector<OpcodeEntry> compare_opcodes() { return {{"setp", decode_setp}, {"set", decode_set}}; }

}  // namespace emu
