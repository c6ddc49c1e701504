// Integer arithmetic: PTX ISA, "Integer arithmetic instructions" and "Extended-precision".
#include <type_traits>

#include "exec/lanes.h"

namespace emu {

// add, sub, mul and their like exist for floats too: float.cpp's opcodes are asked for those.
void decode_float_arithmetic(Decoder& d);

namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;
template <class T>
using Wide = std::conditional_t<
    sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, i64, u64>,
                       std::conditional_t<std::is_signed_v<T>, i32, u32>>>;

template <class T, class F>
void binary(Warp& w, const Op& op, F f) {
  const T *a = w.at<T>(op.a), *b = w.at<T>(op.b);
  set_lanes(w, w.at<T>(op.d), [=](u32 l) { return T(f(a[l], b[l])); });
}
template <class T, class F>
void unary(Warp& w, const Op& op, F f) {
  const T* a = w.at<T>(op.a);
  set_lanes(w, w.at<T>(op.d), [=](u32 l) { return T(f(a[l])); });
}

template <class T>
T divide(T a, T b) {  // by zero: all ones, as the hardware's sequence gives
  if (b == 0) return T(~T(0));
  if constexpr (std::is_signed_v<T>)
    if (b == T(-1)) return T(Unsigned<T>(0) - Unsigned<T>(a));
  return T(a / b);
}
template <class T>
T remainder(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>)
    if (b == T(-1)) return 0;
  return T(a % b);
}
template <class T>
T saturated(Wide<T> x) {
  constexpr Wide<T> top = Wide<T>((Unsigned<T>(~Unsigned<T>(0))) >> 1), bottom = -top - 1;
  return T(x > top ? top : x < bottom ? bottom : x);
}

// f(a, b) for unsigned lanes of the same width where the sign does not matter.
#define WT_BINARY(NAME, EXPRESSION)                                                     \
  template <class T>                                                                    \
  void NAME(Warp& w, const Op& op) {                                                    \
    binary<T>(w, op, [](auto a, auto b) { return EXPRESSION; });                        \
  }                                                                                     \
  void decode_##NAME(Decoder& d) {                                                      \
    const ptx::Type t = d.type();                                                       \
    plain_operands(d, t);                                                               \
    d.op().run = by_integer(d, t, [](auto x) -> Handler { return NAME<decltype(x)>; }); \
  }
WT_BINARY(plain_add, Unsigned<T>(Unsigned<T>(a) + Unsigned<T>(b)))
WT_BINARY(plain_sub, Unsigned<T>(Unsigned<T>(a) - Unsigned<T>(b)))
WT_BINARY(div, divide<T>(a, b))
WT_BINARY(rem, remainder<T>(a, b))
WT_BINARY(minimum, a < b ? a : b)
WT_BINARY(maximum, a < b ? b : a)
#undef WT_BINARY

void saturated_add(Warp& w, const Op& op) {
  binary<i32>(w, op, [](i32 a, i32 b) { return saturated<i32>(i64(a) + b); });
}
void saturated_sub(Warp& w, const Op& op) {
  binary<i32>(w, op, [](i32 a, i32 b) { return saturated<i32>(i64(a) - b); });
}

template <class T>
void negate(Warp& w, const Op& op) {
  unary<T>(w, op, [](T a) { return T(Unsigned<T>(0) - Unsigned<T>(a)); });
}
template <class T>
void absolute(Warp& w, const Op& op) {
  unary<T>(w, op, [](T a) { return a < 0 ? T(Unsigned<T>(0) - Unsigned<T>(a)) : a; });
}

// --- products ---
template <class T>
T low(T a, T b) {
  return T(Unsigned<Wide<T>>(a) * Unsigned<Wide<T>>(b));
}
template <>
u64 low(u64 a, u64 b) {
  return a * b;
}
template <>
i64 low(i64 a, i64 b) {
  return i64(u64(a) * u64(b));
}
template <class T>
T high(T a, T b) {
  return T((Wide<T>(a) * Wide<T>(b)) >> (8 * sizeof(T)));
}

template <class T>
void mul_low(Warp& w, const Op& op) {
  binary<T>(w, op, [](T a, T b) { return low(a, b); });
}
template <class T>
void mul_high(Warp& w, const Op& op) {
  binary<T>(w, op, [](T a, T b) { return high(a, b); });
}
template <class T>
void mul_wide(Warp& w, const Op& op) {
  if constexpr (sizeof(T) <= 4 && sizeof(T) >= 2) {
    const T *a = w.at<T>(op.a), *b = w.at<T>(op.b);
    set_lanes(w, w.at<Wide<T>>(op.d), [=](u32 l) { return Wide<T>(a[l]) * Wide<T>(b[l]); });
  }
}
template <class T>
void mad_low(Warp& w, const Op& op) {
  const T* c = w.at<T>(op.c);
  const T *a = w.at<T>(op.a), *b = w.at<T>(op.b);
  set_lanes(w, w.at<T>(op.d),
            [=](u32 l) { return T(Unsigned<T>(low(a[l], b[l])) + Unsigned<T>(c[l])); });
}
template <class T>
void mad_high(Warp& w, const Op& op) {
  const T *a = w.at<T>(op.a), *b = w.at<T>(op.b), *c = w.at<T>(op.c);
  set_lanes(w, w.at<T>(op.d),
            [=](u32 l) { return T(Unsigned<T>(high(a[l], b[l])) + Unsigned<T>(c[l])); });
}
template <class T>
void mad_wide(Warp& w, const Op& op) {
  if constexpr (sizeof(T) <= 4 && sizeof(T) >= 2) {
    using W = Wide<T>;
    const T *a = w.at<T>(op.a), *b = w.at<T>(op.b);
    const W* c = w.at<W>(op.c);
    set_lanes(w, w.at<W>(op.d),
              [=](u32 l) { return W(Unsigned<W>(W(a[l]) * W(b[l])) + Unsigned<W>(c[l])); });
  }
}
template <class T>
void mul24(Warp& w, const Op& op) {
  const auto cut = [](T x) { return Wide<T>(T(x << 8) >> 8); };
  const bool upper = op.aux;
  binary<T>(w, op, [=](T a, T b) {
    const Wide<T> p = cut(a) * cut(b);
    return upper ? T(p >> 16) : T(p);
  });
}
template <class T>
void sad(Warp& w, const Op& op) {
  const T *a = w.at<T>(op.a), *b = w.at<T>(op.b), *c = w.at<T>(op.c);
  set_lanes(w, w.at<T>(op.d), [=](u32 l) {
    const Unsigned<T> x = Unsigned<T>(a[l]), y = Unsigned<T>(b[l]);
    return T(Unsigned<T>(c[l]) + (a[l] < b[l] ? y - x : x - y));
  });
}

// --- chains of carries; one bit a lane in the warp ---
// A difference is a sum with the complement: its carry is set where nothing was borrowed. nvcc's
// own code reads it so, with addc after subc.cc (__int128's division).
constexpr u32 kTakesCarry = 1, kGivesCarry = 2, kSubtracts = 4, kMultiplies = 8, kHigh = 16;
template <class T>
void chained(Warp& w, const Op& op) {
  using U = Unsigned<T>;
  const U *a = w.at<U>(op.a), *b = w.at<U>(op.b);
  const U* c = op.c == kNoSlot ? nullptr : w.at<U>(op.c);
  const u32 how = op.aux, in = w.carry;
  u32 out = 0;
  U r[kLanes];
  for (u32 l = 0; l < kLanes; ++l) {
    U x = a[l], y = b[l];
    if (how & kMultiplies) {
      x = how & kHigh ? U(high(T(a[l]), T(b[l]))) : U(a[l] * b[l]);
      y = c[l];
    }
    const bool subtracts = how & kSubtracts;
    const U bit = how & kTakesCarry ? U(in >> l & 1) : U(subtracts);
    U sum;
    bool over = __builtin_add_overflow(x, subtracts ? U(~y) : y, &sum);
    over |= __builtin_add_overflow(sum, bit, &sum);
    r[l] = sum;
    out |= u32(over) << l;
  }
  set_lanes(w, w.at<U>(op.d), [&](u32 l) { return r[l]; });
  if (how & kGivesCarry) w.carry = (w.carry & ~w.mask) | (out & w.mask);
}

void decode_chain(Decoder& d, u32 how) {
  const ptx::Type t = d.type();
  plain_operands(d, t);
  if (d.has("cc")) how |= kGivesCarry;
  if (d.has("hi")) how |= kHigh;
  d.op().aux = how;
  d.op().run = by_integer(d, t, [](auto x) -> Handler { return chained<decltype(x)>; });
}

// Two 16-bit halves in a 32-bit lane.
template <class F>
void halves(Warp& w, const Op& op, F f) {
  binary<u32>(w, op, [=](u32 a, u32 b) {
    return u32(u16(f(u16(a), u16(b)))) | u32(u16(f(u16(a >> 16), u16(b >> 16)))) << 16;
  });
}

// dp4a and dp2a: dot products of bytes.
u32 dot(u32 a, u32 b, u32 c, u32 how) {
  const bool sa = how & 1, sb = how & 2, two = how & 4, hi = how & 8;
  i32 sum = i32(c);
  const auto byte = [](u32 x, u32 i, bool sign) {
    return sign ? i32(i8(x >> 8 * i)) : i32(x >> 8 * i & 255);
  };
  if (two) {
    for (u32 i = 0; i < 2; ++i) {
      const i32 x = sa ? i32(i16(a >> 16 * i)) : i32(a >> 16 * i & 0xffff);
      sum = i32(u32(sum) + u32(x * byte(b, i + (hi ? 2 : 0), sb)));
    }
  } else {
    for (u32 i = 0; i < 4; ++i) sum = i32(u32(sum) + u32(byte(a, i, sa) * byte(b, i, sb)));
  }
  return u32(sum);
}
void dp(Warp& w, const Op& op) {
  const u32 *a = w.at<u32>(op.a), *b = w.at<u32>(op.b), *c = w.at<u32>(op.c), how = op.aux;
  set_lanes(w, w.at<u32>(op.d), [=](u32 l) { return dot(a[l], b[l], c[l], how); });
}

#define WT_TYPED(NAME) by_integer(d, d.type(), [](auto x) -> Handler { return NAME<decltype(x)>; })

void decode_add_sub(Decoder& d, bool sub) {
  if (d.has("cc")) return decode_chain(d, sub ? kSubtracts : 0);
  if (d.has("sat")) {
    plain_operands(d, d.type());
    d.op().run = sub ? saturated_sub : saturated_add;
  } else if (d.has("u16x2") || d.has("s16x2")) {
    plain_operands(d, ptx::Type::b32);
    if (sub) d.unknown("sub of halves");
    d.op().run = [](Warp& w, const Op& op) {
      halves(w, op, [](u16 a, u16 b) { return u32(a) + b; });
    };
  } else {
    sub ? decode_plain_sub(d) : decode_plain_add(d);
  }
}
bool floating(const Decoder& d) { return !d.has("u16x2") && !d.has("s16x2") && is_float(d.type()); }

void decode_extreme(Decoder& d, bool max) {
  if (floating(d)) return decode_float_arithmetic(d);
  if (d.has("relu")) d.unknown("relu of integers");
  max ? decode_maximum(d) : decode_minimum(d);
}

void decode_mul(Decoder& d, bool mad) {
  if (mad && d.has("cc")) return decode_chain(d, kMultiplies);
  const ptx::Type t = d.type();
  Op& op = d.op();
  if (d.has("wide")) {
    const ptx::Type out = ptx::type_bytes(t) == 4 ? ptx::Type::b64 : ptx::Type::b32;
    op.d = d.slot(0, out);
    op.a = d.slot(1, t);
    op.b = d.slot(2, t);
    if (mad) op.c = d.slot(3, out);
    op.run = mad ? WT_TYPED(mad_wide) : WT_TYPED(mul_wide);
    return;
  }
  if (mad && d.has("sat")) d.unknown("mad.sat");
  plain_operands(d, t);
  if (d.has("hi"))
    op.run = mad ? WT_TYPED(mad_high) : WT_TYPED(mul_high);
  else
    op.run = mad ? WT_TYPED(mad_low) : WT_TYPED(mul_low);
}

void decode_dot(Decoder& d, bool two) {
  plain_operands(d, ptx::Type::b32);
  d.op().aux = u32(is_signed(d.type(0))) | u32(is_signed(d.type(1))) << 1 | u32(two) << 2 |
               u32(d.has("hi")) << 3;
  d.op().run = dp;
}

}  // namespace

std::vector<OpcodeEntry> integer_opcodes() {
  return {
      {"add",
       [](Decoder& d) { floating(d) ? decode_float_arithmetic(d) : decode_add_sub(d, false); }},
      {"sub",
       [](Decoder& d) { floating(d) ? decode_float_arithmetic(d) : decode_add_sub(d, true); }},
      {"mul", [](Decoder& d) { floating(d) ? decode_float_arithmetic(d) : decode_mul(d, false); }},
      {"mad", [](Decoder& d) { floating(d) ? decode_float_arithmetic(d) : decode_mul(d, true); }},
      {"div", [](Decoder& d) { floating(d) ? decode_float_arithmetic(d) : decode_div(d); }},
      {"min", [](Decoder& d) { decode_extreme(d, false); }},
      {"max", [](Decoder& d) { decode_extreme(d, true); }},
      {"rem", decode_rem},
      {"neg",
       [](Decoder& d) {
         if (floating(d)) return decode_float_arithmetic(d);
         plain_operands(d, d.type());
         d.op().run = WT_TYPED(negate);
       }},
      {"abs",
       [](Decoder& d) {
         if (floating(d)) return decode_float_arithmetic(d);
         plain_operands(d, d.type());
         d.op().run = WT_TYPED(absolute);
       }},
      {"sad",
       [](Decoder& d) {
         plain_operands(d, d.type());
         d.op().run = WT_TYPED(sad);
       }},
      {"mul24",
       [](Decoder& d) {
         plain_operands(d, d.type());
         d.op().aux = d.has("hi");
         d.op().run = is_signed(d.type()) ? Handler(mul24<i32>) : Handler(mul24<u32>);
       }},
      {"addc", [](Decoder& d) { decode_chain(d, kTakesCarry); }},
      {"subc", [](Decoder& d) { decode_chain(d, kTakesCarry | kSubtracts); }},
      {"madc", [](Decoder& d) { decode_chain(d, kTakesCarry | kMultiplies); }},
      {"dp4a", [](Decoder& d) { decode_dot(d, false); }},
      {"dp2a", [](Decoder& d) { decode_dot(d, true); }},
  };
}
#undef WT_TYPED

}  // namespace emu
