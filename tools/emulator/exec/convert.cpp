// cvt: between all types, with rounding and saturation as its modifiers say.
#include <cfenv>
#include <cmath>
#include <limits>

#include "exec/half_bits.h"
#include "exec/lanes.h"

namespace emu {
namespace {

template <class D, class S>
void integer_to_integer(Warp& w, const Op& op) {
  alignas(64) S room[kLanes];
  const S* a = read_lanes<S>(w, op.a, op.aux & 255, room);
  const bool sat = op.aux >> 16 & 1;
  if (!sat) {
    write_lanes<D>(w, op.d, op.aux >> 8 & 255, [=](u32 l) { return D(a[l]); });
    return;
  }
  write_lanes<D>(w, op.d, op.aux >> 8 & 255, [=](u32 l) {
    const __int128 x = a[l], low = std::numeric_limits<D>::min(),
                   top = std::numeric_limits<D>::max();
    return D(x < low ? low : x > top ? top : x);
  });
}

// What a NaN becomes: 0, but where 64 bits are on either side the highest bit alone (PTX ISA 9.0,
// "cvt").
template <class D>
constexpr D of_nan(bool wide) {
  return wide ? D(std::make_unsigned_t<D>(1) << (8 * sizeof(D) - 1)) : D(0);
}

// Rounded by the handler, then clamped: a GPU saturates, x86 does not.
template <class D, class S, Round R>
void float_to_integer(Warp& w, const Op& op) {
  const S* a = w.at<S>(op.a);
  const bool flush = op.aux >> 17 & 1;
  write_lanes<D>(w, op.d, op.aux >> 8 & 255, [=](u32 l) {
    S x = a[l];
    if (flush && std::fabs(x) < S(0x1p-126)) x = 0;
    if (R == Round::nearest) x = std::nearbyint(x);
    if (R == Round::zero) x = std::trunc(x);
    if (R == Round::down) x = std::floor(x);
    if (R == Round::up) x = std::ceil(x);
    constexpr D low = std::numeric_limits<D>::min(), top = std::numeric_limits<D>::max();
    // S(top) may be rounded up beyond D: what reaches it is clamped.
    if (!(x == x)) return of_nan<D>(sizeof(D) == 8 || sizeof(S) == 8);
    if (x <= S(low)) return low;
    if (x >= S(top)) return top;
    return D(x);
  });
}

template <class D, class S>
void integer_to_float(Warp& w, const Op& op) {
  alignas(64) S room[kLanes];
  const S* a = read_lanes<S>(w, op.a, op.aux & 255, room);
  set_lanes(w, w.at<D>(op.d), [=](u32 l) { return D(a[l]); });
}

template <class T>
T limited(T x) {
  return x >= T(1) ? T(1) : x > T(0) ? x : T(0);
}
template <class D, class S>
void float_to_float(Warp& w, const Op& op) {
  const S* a = w.at<S>(op.a);
  const bool sat = op.aux >> 16 & 1, flush = op.aux >> 17 & 1 && std::is_same_v<D, S>;
  set_lanes(w, w.at<D>(op.d), [=](u32 l) {
    D x = canonical(D(a[l]));
    // Nothing is computed where the types are the same, so the processor flushes nothing.
    if (flush && std::fabs(x) < D(0x1p-126)) x = std::copysign(D(0), x);
    return sat ? limited(x) : x;
  });
}
// cvt.rni.f32.f32 and its like: to a whole number.
template <class T, Round R>
void to_whole(Warp& w, const Op& op) {
  const T* a = w.at<T>(op.a);
  const bool sat = op.aux >> 16 & 1;
  set_lanes(w, w.at<T>(op.d), [=](u32 l) {
    T x = a[l];
    if (R == Round::nearest) x = std::nearbyint(x);
    if (R == Round::zero) x = std::trunc(x);
    if (R == Round::down) x = std::floor(x);
    if (R == Round::up) x = std::ceil(x);
    x = canonical(x);
    return sat ? limited(x) : x;
  });
}

// --- narrow floats, a lane at a time, over double ---
const Format* format_of(ptx::Type t) {
  using enum ptx::Type;
  switch (t) {
    case f16:
    case f16x2:
      return &kF16;
    case bf16:
    case bf16x2:
      return &kBf16;
    case tf32:
      return &kTf32;
    case e4m3:
    case e4m3x2:
      return &kE4m3;
    case e5m2:
    case e5m2x2:
      return &kE5m2;
    default:
      return nullptr;
  }
}
struct Narrow {
  ptx::Type to, from;
  Round round;
  bool sat, finite, relu, flush;
};
// Packed in Op::aux and offset; unpacked here so that one handler serves all.
Narrow narrow_of(const Op& op) {
  return {ptx::Type(op.aux & 255), ptx::Type(op.aux >> 8 & 255), Round(op.aux >> 16 & 15),
          bool(op.aux >> 20 & 1),  bool(op.aux >> 21 & 1),       bool(op.aux >> 22 & 1),
          bool(op.aux >> 23 & 1)};
}
double shaped(double x, const Narrow& n) {
  if (n.relu && !(x > 0) && x == x) x = 0;
  if (n.sat) x = limited(x);
  return x;
}
// Rounded to odd where a double has too few bits, so that rounding once more is rounding once.
double of_whole(__int128 x) {
  const double near = double(x);
  const __int128 lost = x - __int128(near);
  u64 bits;
  std::memcpy(&bits, &near, 8);
  if (lost == 0 || bits & 1) return near;
  bits = (lost > 0) == (near > 0) ? bits + 1 : bits - 1;
  double odd;
  std::memcpy(&odd, &bits, 8);
  return odd;
}
double lane_value(const Warp& w, Slot s, ptx::Type t, u32 l) {
  using enum ptx::Type;
  switch (t) {
    case f16:
      return f16_to_float(w.at<emu::u16>(s)[l]);
    case bf16:
      return bf16_to_float(w.at<emu::u16>(s)[l]);
    case f32:
      return w.at<float>(s)[l];
    case f64:
      return w.at<double>(s)[l];
    case s8:
      return w.at<i8>(s)[2 * l];
    case ptx::Type::u8:
      return w.at<emu::u8>(s)[2 * l];
    case s16:
      return w.at<i16>(s)[l];
    case ptx::Type::u16:
      return w.at<emu::u16>(s)[l];
    case s32:
      return w.at<i32>(s)[l];
    case ptx::Type::u32:
      return w.at<emu::u32>(s)[l];
    case s64:
      return of_whole(w.at<i64>(s)[l]);
    case ptx::Type::u64:
      return of_whole(w.at<emu::u64>(s)[l]);
    default:
      return NAN;
  }
}
double rounded(double x, Round r) {
  switch (r) {
    case Round::nearest:
      return std::nearbyint(x);
    case Round::zero:
      return std::trunc(x);
    case Round::down:
      return std::floor(x);
    case Round::up:
      return std::ceil(x);
    default:
      return std::round(x);
  }
}

void from_narrow(Warp& w, const Op& op) {  // f16 or bf16 to f32, f64 or an integer
  const Narrow n = narrow_of(op);
  for_lanes(w.mask, [&](u32 l) {
    double x = lane_value(w, op.a, n.from, l);
    if (n.to == ptx::Type::f32) {
      w.at<float>(op.d)[l] = canonical(float(shaped(x, n)));
    } else if (n.to == ptx::Type::f64) {
      w.at<double>(op.d)[l] = shaped(x, n);
    } else {
      const u32 bits = 8 * ptx::type_bytes(n.to);
      const bool is_nan = x != x;
      x = is_nan ? 0 : rounded(x, n.round);
      const double top = std::ldexp(1.0, i32(bits - (is_signed(n.to) ? 1 : 0)));
      const double low = is_signed(n.to) ? -top : 0;
      const __int128 whole = x <= low ? __int128(low) : x >= top ? __int128(top) - 1 : __int128(x);
      const u64 value = is_nan && bits == 64 ? of_nan<u64>(true) : u64(whole);
      if (op.width == 2) w.at<u16>(op.d)[l] = u16(value);
      if (op.width == 4) w.at<u32>(op.d)[l] = u32(value);
      if (op.width == 8) w.at<u64>(op.d)[l] = value;
    }
  });
}
void to_narrow(Warp& w, const Op& op) {  // to f16, bf16 or tf32
  const Narrow n = narrow_of(op);
  const Format& f = *format_of(n.to);
  for_lanes(w.mask, [&](u32 l) {
    const u32 bits = encode_float(f, shaped(lane_value(w, op.a, n.from, l), n), n.round, n.finite);
    if (n.to == ptx::Type::tf32)
      w.at<u32>(op.d)[l] = bits << 13;
    else if (op.width == 4)
      w.at<u32>(op.d)[l] = bits;
    else
      w.at<u16>(op.d)[l] = u16(bits);
  });
}
// Two floats to a pair, the first to the upper half; or a pair of 8-bit floats from a pair of
// halves.
void to_pair(Warp& w, const Op& op) {
  const Narrow n = narrow_of(op);
  const Format& f = *format_of(n.to);
  const u32 bits = f.exponent_bits + f.fraction_bits + 1;
  for_lanes(w.mask, [&](u32 l) {
    double upper, lower;
    if (n.from == ptx::Type::f32) {
      upper = w.at<float>(op.a)[l];
      lower = w.at<float>(op.b)[l];
    } else {
      const u32 both = w.at<u32>(op.a)[l];
      upper = decode_float(*format_of(n.from), both >> 16);
      lower = decode_float(*format_of(n.from), both & 0xffff);
    }
    const u32 packed = encode_float(f, shaped(upper, n), n.round, n.finite) << bits |
                       encode_float(f, shaped(lower, n), n.round, n.finite);
    if (bits == 8)
      w.at<u16>(op.d)[l] = u16(packed);
    else
      w.at<u32>(op.d)[l] = packed;
  });
}
void from_eights(Warp& w, const Op& op) {  // cvt.rn.f16x2.e4m3x2
  const Narrow n = narrow_of(op);
  for_lanes(w.mask, [&](u32 l) {
    const u32 both = w.at<u16>(op.a)[l];
    const auto half = [&](u32 x) {
      return encode_float(kF16, shaped(decode_float(*format_of(n.from), x), n));
    };
    w.at<u32>(op.d)[l] = half(both >> 8) << 16 | half(both & 255);
  });
}

void narrow_to_whole(Warp& w, const Op& op) {  // cvt.rni.f16.f16 and its like
  const Narrow n = narrow_of(op);
  for_lanes(w.mask, [&](u32 l) {
    const double x = rounded(lane_value(w, op.a, n.from, l), n.round);
    w.at<u16>(op.d)[l] = u16(encode_float(*format_of(n.to), shaped(x, n)));
  });
}

bool is_integral(const Decoder& d) {
  return d.has("rni") || d.has("rzi") || d.has("rmi") || d.has("rpi");
}
Round round_of(const Decoder& d) {
  if (d.has("rz") || d.has("rzi")) return Round::zero;
  if (d.has("rm") || d.has("rmi")) return Round::down;
  if (d.has("rp") || d.has("rpi")) return Round::up;
  if (d.has("rna")) return Round::away;
  return Round::nearest;
}

template <class D, class S>
Handler to_integer(Round r) {
  switch (r) {
    case Round::zero:
      return float_to_integer<D, S, Round::zero>;
    case Round::down:
      return float_to_integer<D, S, Round::down>;
    case Round::up:
      return float_to_integer<D, S, Round::up>;
    default:
      return float_to_integer<D, S, Round::nearest>;
  }
}
template <class T>
Handler whole(Round r) {
  switch (r) {
    case Round::zero:
      return to_whole<T, Round::zero>;
    case Round::down:
      return to_whole<T, Round::down>;
    case Round::up:
      return to_whole<T, Round::up>;
    default:
      return to_whole<T, Round::nearest>;
  }
}
bool is_narrow(ptx::Type t) { return format_of(t) != nullptr; }
bool is_pair(ptx::Type t) {
  using enum ptx::Type;
  return t == f16x2 || t == bf16x2 || t == e4m3x2 || t == e5m2x2;
}

void decode_narrow(Decoder& d, ptx::Type to, ptx::Type from) {
  Op& op = d.op();
  op.aux = u32(to) | u32(from) << 8 | u32(round_of(d)) << 16 | u32(d.has("sat")) << 20 |
           u32(d.has("satfinite")) << 21 | u32(d.has("relu")) << 22 | u32(d.has("ftz")) << 23;
  op.d = d.slot(0, to);
  op.a = d.slot(1, from);
  op.width = u8(d.lane_bytes(d.operand(0), to));
  if (to == from && is_integral(d)) {
    if (is_pair(to)) d.unknown("pair to itself");
    op.run = narrow_to_whole;
  } else if (to == from && d.has("sat")) {
    op.run = to_narrow;
  } else if (to == from) {
    op.run = [](Warp& w, const Op& o) {
      const u16* a = w.at<u16>(o.a);
      set_lanes(w, w.at<u16>(o.d), [=](u32 l) { return a[l]; });
    };
    if (is_pair(to)) d.unknown("pair to itself");
  } else if (is_pair(to) && is_pair(from) && to == ptx::Type::f16x2) {
    op.run = from_eights;
  } else if (is_pair(to)) {
    if (from == ptx::Type::f32) op.b = d.slot(2, from);
    op.run = to_pair;
  } else if (is_narrow(to)) {
    op.run = to_narrow;
  } else {
    op.run = from_narrow;
  }
}

}  // namespace

void decode_cvt(Decoder& d) {
  if (d.has("pack")) d.unknown("cvt.pack");
  const ptx::Type to = d.type(0), from = d.type(1);
  if (is_narrow(to) || is_narrow(from)) return decode_narrow(d, to, from);
  Op& op = d.op();
  op.d = d.slot(0, to);
  op.a = d.slot(1, from);
  const u32 from_bytes = d.lane_bytes(d.operand(1), from),
            to_bytes = d.lane_bytes(d.operand(0), to);
  op.aux = from_bytes | to_bytes << 8 | u32(d.has("sat")) << 16 | u32(d.has("ftz")) << 17;
  if (is_float(to)) {
    if (is_float(from)) {
      if (to == from && is_integral(d)) {
        op.run = by_float(d, to, [&](auto x) { return whole<decltype(x)>(round_of(d)); });
        if (d.has("ftz")) op.csr = kCsrNearest | kCsrFlush;
        return;
      }
      op.csr = csr_of(d);
      op.run = by_float(d, to, [&](auto x) {
        return by_float(
            d, from, [&](auto y) -> Handler { return float_to_float<decltype(x), decltype(y)>; });
      });
      return;
    }
    op.csr = csr_of(d);
    op.run = by_float(d, to, [&](auto x) {
      return by_integer(
          d, from, [&](auto y) -> Handler { return integer_to_float<decltype(x), decltype(y)>; });
    });
    return;
  }
  if (is_float(from)) {
    op.run = by_integer(d, to, [&](auto x) {
      return by_float(d, from,
                      [&](auto y) { return to_integer<decltype(x), decltype(y)>(round_of(d)); });
    });
    return;
  }
  op.run = by_integer(d, to, [&](auto x) {
    return by_integer(
        d, from, [&](auto y) -> Handler { return integer_to_integer<decltype(x), decltype(y)>; });
  });
}

std::vector<OpcodeEntry> convert_opcodes() { return {{"cvt", decode_cvt}}; }

}  // namespace emu
