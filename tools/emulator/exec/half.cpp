// Arithmetic in f16, bf16 and their pairs. Products of two are exact in double, and a sum rounded
// to odd there is rounded once more to the type: the result is that of a single rounding.
#include "exec/half_bits.h"
#include "exec/lanes.h"

namespace emu {
namespace {

enum class What : u8 { add, sub, mul, fma, minimum, maximum, negate, absolute };
constexpr u32 kBrain = 1, kPair = 2, kSat = 4, kRelu = 8, kNan = 16, kFlush = 32;

double value(u16 bits, u32 how) { return how & kBrain ? bf16_to_float(bits) : f16_to_float(bits); }

u16 flushed(u16 bits, u32 how) {  // f16 alone has .ftz
  return !(how & kBrain) && !(bits & 0x7c00) ? bits & 0x8000 : bits;
}

u16 result(double x, u32 how) {
  if (how & kSat) x = x >= 1 ? 1 : x > 0 ? x : 0;
  if (how & kRelu && !(x > 0) && x == x) x = 0;
  const u16 bits = u16(encode_float(how & kBrain ? kBf16 : kF16, x));
  return how & kFlush ? flushed(bits, how) : bits;
}

u16 extreme(u16 x, u16 y, u32 how, bool maximum) {
  const double a = value(x, how), b = value(y, how);
  const u16 nan = 0x7fff;
  if (a != a || b != b) return how & kNan || (a != a && b != b) ? nan : a != a ? y : x;
  if (a == b) return (std::signbit(a) != 0) == maximum ? y : x;
  return (a < b) == maximum ? y : x;
}

u16 compute(What what, u16 x, u16 y, u16 z, u32 how) {
  if (how & kFlush) x = flushed(x, how), y = flushed(y, how), z = flushed(z, how);
  const double a = value(x, how), b = value(y, how);
  switch (what) {
    case What::add:
      return result(add_to_odd(a, b), how);
    case What::sub:
      return result(add_to_odd(a, -b), how);
    case What::mul:
      return result(a * b, how);
    case What::fma:
      return result(add_to_odd(a * b, value(z, how)), how);
    case What::minimum:
      return extreme(x, y, how, false);
    case What::maximum:
      return extreme(x, y, how, true);
    case What::negate:
      return x ^ 0x8000;
    case What::absolute:
      return x & 0x7fff;
  }
  return 0;
}

template <What W>
void run(Warp& w, const Op& op) {
  const u32 how = op.aux;
  if (how & kPair) {
    const u32 *a = w.at<u32>(op.a), *b = w.at<u32>(op.b), *c = w.at<u32>(op.c);
    u32 r[kLanes];
    for_lanes(w.mask, [&](u32 l) {
      r[l] = u32(compute(W, u16(a[l]), u16(b[l]), u16(c[l]), how)) |
             u32(compute(W, u16(a[l] >> 16), u16(b[l] >> 16), u16(c[l] >> 16), how)) << 16;
    });
    for_lanes(w.mask, [&](u32 l) { w.at<u32>(op.d)[l] = r[l]; });
    return;
  }
  const u16 *a = w.at<u16>(op.a), *b = w.at<u16>(op.b), *c = w.at<u16>(op.c);
  u16 r[kLanes];
  for_lanes(w.mask, [&](u32 l) { r[l] = compute(W, a[l], b[l], c[l], how); });
  for_lanes(w.mask, [&](u32 l) { w.at<u16>(op.d)[l] = r[l]; });
}

}  // namespace

void decode_half_arithmetic(Decoder& d) {
  const ptx::Type t = d.type();
  Op& op = d.op();
  const bool pair = t == ptx::Type::f16x2 || t == ptx::Type::bf16x2;
  const bool brain = t == ptx::Type::bf16 || t == ptx::Type::bf16x2;
  plain_operands(d, pair ? ptx::Type::b32 : ptx::Type::b16);
  if (op.b == kNoSlot) op.b = op.a;
  if (op.c == kNoSlot) op.c = op.a;
  op.aux = (brain ? kBrain : 0) | (pair ? kPair : 0) | (d.has("sat") ? kSat : 0) |
           (d.has("relu") ? kRelu : 0) | (d.has("NaN") ? kNan : 0) | (d.has("ftz") ? kFlush : 0);
  const std::string_view name = d.in().opcode[0];
  if (name == "add") op.run = run<What::add>;
  if (name == "sub") op.run = run<What::sub>;
  if (name == "mul") op.run = run<What::mul>;
  if (name == "fma") op.run = run<What::fma>;
  if (name == "min") op.run = run<What::minimum>;
  if (name == "max") op.run = run<What::maximum>;
  if (name == "neg") op.run = run<What::negate>;
  if (name == "abs") op.run = run<What::absolute>;
  if (d.has("abs") && name != "abs") d.unknown("xorsign of halves");
  if (!op.run || (d.operands() > 3 && name != "fma")) d.unknown("half arithmetic");
}

}  // namespace emu
