// Arithmetic in f32 and f64 that IEEE 754 rounds rightly: PTX ISA, "Floating point instructions".
// Other rounding modes than nearest and flushing are the processor's (Control::moded).
#include <cmath>

#include "exec/lanes.h"

namespace emu {
namespace {

template <class T>
T clamped(T x) {  // .sat: NaN becomes +0
  return x >= T(1) ? T(1) : x > T(0) ? x : T(0);
}
template <class T>
T lesser(T a, T b) {  // -0 is less than +0, and a NaN loses
  if (a != a) return b != b ? canonical(a) : b;
  if (b != b) return a;
  return a < b || (a == b && std::signbit(a)) ? a : b;
}
template <class T>
T greater(T a, T b) {
  if (a != a) return b != b ? canonical(a) : b;
  if (b != b) return a;
  return a > b || (a == b && !std::signbit(a)) ? a : b;
}

// FP addition and its like may not move across the change of the rounding mode around the call:
// they read and write memory, and the call goes through a pointer.
#define WT_BINARY(NAME, EXPRESSION)                 \
  template <class T>                                \
  void NAME(Warp& w, const Op& op) {                \
    const T *x = w.at<T>(op.a), *y = w.at<T>(op.b); \
    set_lanes(w, w.at<T>(op.d), [=](u32 l) {        \
      const T a = x[l], b = y[l];                   \
      return canonical(T(EXPRESSION));              \
    });                                             \
  }                                                 \
  template <class T>                                \
  void NAME##_sat(Warp& w, const Op& op) {          \
    const T *x = w.at<T>(op.a), *y = w.at<T>(op.b); \
    set_lanes(w, w.at<T>(op.d), [=](u32 l) {        \
      const T a = x[l], b = y[l];                   \
      return clamped(T(EXPRESSION));                \
    });                                             \
  }
WT_BINARY(add, a + b)
WT_BINARY(sub, a - b)
WT_BINARY(mul, a* b)
WT_BINARY(div, a / b)
#undef WT_BINARY

template <class T>
void fma(Warp& w, const Op& op) {
  const T *a = w.at<T>(op.a), *b = w.at<T>(op.b), *c = w.at<T>(op.c);
  set_lanes(w, w.at<T>(op.d), [=](u32 l) { return canonical(T(std::fma(a[l], b[l], c[l]))); });
}
template <class T>
void fma_sat(Warp& w, const Op& op) {
  const T *a = w.at<T>(op.a), *b = w.at<T>(op.b), *c = w.at<T>(op.c);
  set_lanes(w, w.at<T>(op.d), [=](u32 l) { return clamped(T(std::fma(a[l], b[l], c[l]))); });
}

// .abs, .xorsign.abs and .NaN of min and max are in aux. So is .ftz, of neg and abs too: what does
// not compute gives subnormals back whatever the processor's mode is.
constexpr u32 kNan = 1, kMagnitude = 2, kXorSign = 4, kFlush = 8;
template <class T>
T flushed(T x, u32 how) {
  return how & kFlush && std::fabs(x) < T(0x1p-126) ? std::copysign(T(0), x) : x;
}
template <class T, bool Max>
void extreme(Warp& w, const Op& op) {
  const T *x = w.at<T>(op.a), *y = w.at<T>(op.b);
  const T* z = op.c == kNoSlot ? nullptr : w.at<T>(op.c);
  const u32 how = op.aux;
  set_lanes(w, w.at<T>(op.d), [=](u32 l) {
    T a = flushed(x[l], how), b = flushed(y[l], how);
    if (how & kMagnitude) a = std::fabs(a), b = std::fabs(b);
    if (how & kNan && (a != a || b != b)) return canonical(T(NAN));
    T r = Max ? greater(a, b) : lesser(a, b);
    if (z) {
      if (how & kNan && z[l] != z[l]) return canonical(T(NAN));
      const T c = flushed(z[l], how);
      r = Max ? greater(r, c) : lesser(r, c);
    }
    if (how & kXorSign) r = std::signbit(x[l]) != std::signbit(y[l]) ? -r : r;
    return r;
  });
}

template <class T>
void root(Warp& w, const Op& op) {
  const T* a = w.at<T>(op.a);
  set_lanes(w, w.at<T>(op.d), [=](u32 l) { return canonical(T(std::sqrt(a[l]))); });
}
template <class T>
void reciprocal(Warp& w, const Op& op) {
  const T* a = w.at<T>(op.a);
  set_lanes(w, w.at<T>(op.d), [=](u32 l) { return canonical(T(T(1) / a[l])); });
}
template <class T>
void negate(Warp& w, const Op& op) {
  const T* a = w.at<T>(op.a);
  const u32 how = op.aux;
  set_lanes(w, w.at<T>(op.d), [=](u32 l) { return -flushed(a[l], how); });
}
template <class T>
void absolute(Warp& w, const Op& op) {
  const T* a = w.at<T>(op.a);
  const u32 how = op.aux;
  set_lanes(w, w.at<T>(op.d), [=](u32 l) { return std::fabs(flushed(a[l], how)); });
}
template <class T>
void copysign(Warp& w, const Op& op) {  // (sign, magnitude): the other way round than C's
  const T *a = w.at<T>(op.a), *b = w.at<T>(op.b);
  set_lanes(w, w.at<T>(op.d), [=](u32 l) { return std::copysign(b[l], a[l]); });
}

// testp: aux is the question's number.
template <class T>
bool answers(T x, u32 question) {
  switch (question) {
    case 0:
      return std::isfinite(x);
    case 1:
      return std::isinf(x);
    case 2:
      return x == x;
    case 3:
      return x != x;
    case 4:
      return std::isnormal(x);
    default:
      return std::fpclassify(x) == FP_SUBNORMAL;
  }
}
template <class T>
void test(Warp& w, const Op& op) {
  const T* a = w.at<T>(op.a);
  set_pred(w, op.d, lane_bits([&](u32 l) { return answers(a[l], op.aux); }));
}

#define WT_FLOAT(NAME) by_float(d, t, [](auto x) -> Handler { return NAME<decltype(x)>; })

bool is_half(ptx::Type t) { return is_float(t) && t != ptx::Type::f32 && t != ptx::Type::f64; }

}  // namespace

void decode_half_arithmetic(Decoder& d);  // half.cpp
void decode_approximate(Decoder& d);      // approx.cpp
bool is_approximate(const Decoder& d) { return d.has("approx") || d.has("full"); }

// add, sub, mul, mad, fma, div, min, max, neg, abs, sqrt, rcp, copysign of floating types.
void decode_float_arithmetic(Decoder& d) {
  const ptx::Type t = d.type();
  if (is_half(t)) return decode_half_arithmetic(d);
  if (is_approximate(d)) return decode_approximate(d);
  plain_operands(d, t);
  Op& op = d.op();
  op.csr = csr_of(d);
  const std::string_view name = d.in().opcode[0];
  const bool sat = d.has("sat");
  if (name == "neg" || name == "abs" || name == "min" || name == "max") {
    op.csr = 0;
    op.aux = d.has("ftz") ? kFlush : 0;
  }
  if (name == "add") op.run = sat ? WT_FLOAT(add_sat) : WT_FLOAT(add);
  if (name == "sub") op.run = sat ? WT_FLOAT(sub_sat) : WT_FLOAT(sub);
  if (name == "mul") op.run = sat ? WT_FLOAT(mul_sat) : WT_FLOAT(mul);
  if (name == "div") op.run = WT_FLOAT(div);
  if (name == "mad" || name == "fma") op.run = sat ? WT_FLOAT(fma_sat) : WT_FLOAT(fma);
  if (name == "neg") op.run = WT_FLOAT(negate);
  if (name == "abs") op.run = WT_FLOAT(absolute);
  if (name == "sqrt") op.run = WT_FLOAT(root);
  if (name == "rcp") op.run = WT_FLOAT(reciprocal);
  if (name == "copysign") op.run = WT_FLOAT(copysign);
  if (name == "min" || name == "max") {
    op.aux |= (d.has("NaN") ? kNan : 0) | (d.has("abs") ? kMagnitude : 0) |
              (d.has("xorsign") ? kXorSign : 0);
    op.run = by_float(d, t, [&](auto x) -> Handler {
      return name == "max" ? extreme<decltype(x), true> : extreme<decltype(x), false>;
    });
  }
  if (!op.run) d.unknown("arithmetic");
}

std::vector<OpcodeEntry> float_opcodes() {
  return {
      {"fma", decode_float_arithmetic},
      {"sqrt", decode_float_arithmetic},
      {"rcp", decode_float_arithmetic},
      {"copysign", decode_float_arithmetic},
      {"testp",
       [](Decoder& d) {
         const ptx::Type t = d.type();
         static constexpr std::string_view kQuestions[] = {"finite",     "infinite", "number",
                                                           "notanumber", "normal",   "subnormal"};
         d.op().d = d.pred(d.operand(0));
         d.op().a = d.slot(1, t);
         for (u32 i = 0; i < 6; ++i)
           if (d.has(kQuestions[i])) d.op().aux = i;
         d.op().run = WT_FLOAT(test);
       }},
  };
}
#undef WT_FLOAT

}  // namespace emu
