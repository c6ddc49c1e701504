// Instructions that NVIDIA documents as approximate: the exact result, moved by a part of the
// documented bound that hangs on the operand's bits. Tests that need more than the documents
// promise fail here as they may on a GPU; the same operand gives the same result, as on a GPU.
#include <cmath>

#include "exec/half_bits.h"
#include "exec/lanes.h"

namespace emu {
namespace {

enum class What : u8 { ex2, lg2, rcp, sqrt, rsqrt, sin, cos, tanh, div };

// In [-1, 1], from the bits.
double wobble(u64 bits) {
  bits ^= bits >> 31;
  bits *= 0x9E3779B97F4A7C15u;
  bits ^= bits >> 29;
  bits *= 0xBF58476D1CE4E5B9u;
  bits ^= bits >> 32;
  return double(i64(bits)) * 0x1p-63;
}

u32 fraction(float x) {
  u32 bits;
  std::memcpy(&bits, &x, 4);
  return bits & 0x7fffff;
}
float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.f, x) : x; }

// The bounds of PTX ISA 9.0: relative, or absolute where `absolute` says so.
double approximate(What what, double a, double b, u64 bits) {
  const double e = wobble(bits);
  const auto relative = [&](double x, double bound) {
    return std::isfinite(x) && x != 0 ? x * (1 + e * bound) : x;
  };
  switch (what) {
    case What::ex2: {
      const double x = std::exp2(a);
      return a == std::floor(a) ? x : relative(x, 0x1p-22);  // whole powers are exact
    }
    case What::lg2: {
      const double x = std::log2(a);
      if (!std::isfinite(x) || x == 0) return x;
      return a > 0.5 && a < 2 ? x + e * 0x1p-22 : relative(x, 0x1p-22);
    }
    case What::rcp:
      return relative(1 / a, 0x1p-24);  // with the rounding after it: 1 ulp
    case What::sqrt:
      return relative(std::sqrt(a), 0x1p-23);
    case What::rsqrt:
      return relative(1 / std::sqrt(a), 0x1p-22 * 0.93);
    case What::sin:
      return std::isfinite(a) ? (a == 0 ? a : std::sin(a) + e * 0x1p-21) : NAN;
    case What::cos:
      return std::isfinite(a) ? (a == 0 ? 1 : std::cos(a) + e * 0x1p-21) : NAN;
    case What::tanh:
      return relative(std::tanh(a), 0x1p-11);
    case What::div:
      return relative(a / b, 0x1p-23);  // 2 ulp
  }
  return 0;
}

template <What W>
void run32(Warp& w, const Op& op) {
  const float *x = w.at<float>(op.a), *y = w.at<float>(op.b);
  const bool ftz = op.aux & 1;
  float r[kLanes];
  for_lanes(w.mask, [&](u32 l) {
    const float a = ftz ? flushed(x[l]) : x[l], b = ftz ? flushed(y[l]) : y[l];
    u32 bits, more;
    std::memcpy(&bits, &a, 4);
    std::memcpy(&more, &b, 4);
    // PTX ISA, "div.approx": a divisor beyond 2^126 gives 0.
    const bool vast = W == What::div && op.aux & 2 && std::fabs(b) > 0x1p126f && std::isfinite(b);
    float near = vast ? (std::isfinite(a) ? std::copysign(0.f, a) * std::copysign(1.f, b) : NAN)
                      : float(approximate(W, a, b, u64(W == What::div ? more : 0) << 32 | bits));
    // A reciprocal is a power of two where its operand is one, and nowhere else: nvcc's division of
    // 128 bits reads the fraction.
    if (W == What::rcp && (fraction(near) == 0) != (fraction(a) == 0)) near = 1 / a;
    r[l] = canonical(ftz ? flushed(near) : near);
  });
  for_lanes(w.mask, [&](u32 l) { w.at<float>(op.d)[l] = r[l]; });
}

// rsqrt.approx.f64 is good to the last bit but one.
void rsqrt64(Warp& w, const Op& op) {
  const double* x = w.at<double>(op.a);
  double r[kLanes];
  for_lanes(w.mask, [&](u32 l) {
    u64 bits;
    std::memcpy(&bits, &x[l], 8);
    const double exact = 1 / std::sqrt(x[l]), e = wobble(bits);
    r[l] = exact;
    if (std::isfinite(exact) && exact != 0 && std::fabs(e) > 0.7)
      r[l] = std::nextafter(exact, e > 0 ? INFINITY : 0);
  });
  for_lanes(w.mask, [&](u32 l) { w.at<double>(op.d)[l] = r[l]; });
}

// rcp and rsqrt with .ftz in f64 give 20 bits: the lower half of the result is zero.
template <What W>
void run64(Warp& w, const Op& op) {
  const double* x = w.at<double>(op.a);
  double r[kLanes];
  for_lanes(w.mask, [&](u32 l) {
    u64 bits;
    std::memcpy(&bits, &x[l], 8);
    const double a = std::fabs(x[l]) < 0x1p-1022 ? std::copysign(0., x[l]) : x[l];
    const double exact = W == What::rcp ? 1 / a : 1 / std::sqrt(a);
    const double near = std::isfinite(exact) ? exact * (1 + wobble(bits) * 0x1p-22) : exact;
    std::memcpy(&bits, &near, 8);
    if (std::isfinite(near)) bits += 0x80000000u;  // to the nearest that has no lower half
    bits &= ~u64(0xffffffff);
    if (std::fabs(near) < 0x1p-1022) bits &= u64(1) << 63;
    std::memcpy(&r[l], &bits, 8);
  });
  for_lanes(w.mask, [&](u32 l) { w.at<double>(op.d)[l] = r[l]; });
}

constexpr u32 kBrain = 1, kPair = 2, kFlush = 4;
template <What W>
void run16(Warp& w, const Op& op) {
  const bool brain = op.aux & kBrain;
  const Format& format = brain ? kBf16 : kF16;
  const double bound = brain ? 0x1p-8 : 0x1.02p-11;
  const auto one = [&](u16 x) {
    const double a = decode_float(format, x);
    const double exact = W == What::tanh ? std::tanh(a) : std::exp2(a);
    if (op.aux & kFlush && std::fabs(exact) < (brain ? 0x1p-126 : 0x1p-14))
      return u16(std::signbit(exact) ? 0x8000 : 0);
    const bool kept = !std::isfinite(exact) || exact == 0 || exact == 1;
    return u16(encode_float(format, kept ? exact : exact * (1 + 0.5 * bound * wobble(x))));
  };
  for_lanes(w.mask, [&](u32 l) {
    if (op.aux & kPair) {
      const u32 x = w.at<u32>(op.a)[l];
      w.at<u32>(op.d)[l] = u32(one(u16(x))) | u32(one(u16(x >> 16))) << 16;
    } else {
      w.at<u16>(op.d)[l] = one(w.at<u16>(op.a)[l]);
    }
  });
}

template <What W>
void decode_as(Decoder& d) {
  const ptx::Type t = d.type();
  const bool ftz = d.has("ftz"), is_approximate = d.has("approx");  // or .full
  Op& op = d.op();
  if (t == ptx::Type::f32) {
    plain_operands(d, t);
    if (op.b == kNoSlot) op.b = op.a;
    op.aux = u32(ftz) | u32(is_approximate) << 1;
    op.run = run32<W>;
    return;
  }
  if (t == ptx::Type::f64) {
    if (W != What::rcp && W != What::rsqrt) d.unknown("approximation in f64");
    plain_operands(d, t);
    op.run = ftz ? run64<W> : rsqrt64;
    return;
  }
  if (W != What::tanh && W != What::ex2) d.unknown("approximation of halves");
  const bool pair = t == ptx::Type::f16x2 || t == ptx::Type::bf16x2;
  plain_operands(d, pair ? ptx::Type::b32 : ptx::Type::b16);
  op.aux = (t == ptx::Type::bf16 || t == ptx::Type::bf16x2 ? kBrain : 0) | (pair ? kPair : 0) |
           (ftz ? kFlush : 0);
  op.run = run16<W>;
}

}  // namespace

// rcp, sqrt and div with .approx or .full; float.cpp has the exact ones.
void decode_approximate(Decoder& d) {
  const std::string_view name = d.in().opcode[0];
  if (name == "rcp") return decode_as<What::rcp>(d);
  if (name == "sqrt") return decode_as<What::sqrt>(d);
  if (name == "div") return decode_as<What::div>(d);
  d.unknown("approximation");
}

std::vector<OpcodeEntry> approx_opcodes() {
  return {
      {"ex2", decode_as<What::ex2>},     {"lg2", decode_as<What::lg2>},
      {"rsqrt", decode_as<What::rsqrt>}, {"sin", decode_as<What::sin>},
      {"cos", decode_as<What::cos>},     {"tanh", decode_as<What::tanh>},
  };
}

}  // namespace emu
