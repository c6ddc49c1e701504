// What the families of instructions share: lanes of any width, handlers by type, rounding modes.
#pragma once
#include "exec/decode.h"

namespace emu {

// A register may be wider than the type that an instruction reads of it (ld, st, cvt).
template <class T>
inline const T* read_lanes(const Warp& w, Slot s, u32 bytes, T* room) {
  if (bytes <= sizeof(T)) return w.at<T>(s);
  switch (bytes) {
    case 2:
      for (u32 l = 0; l < kLanes; ++l) std::memcpy(room + l, w.at<u16>(s) + l, sizeof(T) & 3);
      break;
    case 4:
      for (u32 l = 0; l < kLanes; ++l) std::memcpy(room + l, w.at<u32>(s) + l, sizeof(T) & 7);
      break;
    default:
      for (u32 l = 0; l < kLanes; ++l) std::memcpy(room + l, w.at<u64>(s) + l, sizeof(T));
  }
  return room;
}
// Widened by T's sign, as cvt and ld do.
template <class T, class F>
inline void write_lanes(Warp& w, Slot s, u32 bytes, F&& f) {
  if (bytes <= sizeof(T)) {
    set_lanes(w, w.at<T>(s), f);
  } else if (bytes == 2) {
    set_lanes(w, w.at<i16>(s), [&](u32 l) { return i16(f(l)); });
  } else if (bytes == 4) {
    set_lanes(w, w.at<i32>(s), [&](u32 l) { return i32(f(l)); });
  } else {
    set_lanes(w, w.at<i64>(s), [&](u32 l) { return i64(f(l)); });
  }
}

// MXCSR: exceptions masked, and what a modifier asks for.
inline constexpr u32 kCsrNearest = 0x1f80;
inline constexpr u32 kCsrFlush = 0x8040;  // flush results, read subnormals as zero
inline u32 csr_of(const Decoder& d) {
  u32 csr = 0;
  if (d.has("rz")) csr |= 0x6000;
  if (d.has("rm")) csr |= 0x2000;
  if (d.has("rp")) csr |= 0x4000;
  if (d.has("ftz")) csr |= kCsrFlush;
  return csr ? csr | kCsrNearest : 0;
}

// f's result for the C++ type of an integer type.
template <class F>
inline Handler by_integer(const Decoder& d, ptx::Type t, F&& f) {
  using enum ptx::Type;
  switch (t) {
    case s8:
      return f(i8{});
    case b8:
    case ptx::Type::u8:
      return f(emu::u8{});
    case s16:
      return f(i16{});
    case b16:
    case ptx::Type::u16:
      return f(emu::u16{});
    case s32:
      return f(i32{});
    case b32:
    case ptx::Type::u32:
      return f(emu::u32{});
    case s64:
      return f(i64{});
    case b64:
    case ptx::Type::u64:
      return f(emu::u64{});
    default:
      d.unknown("type");
  }
}
template <class F>
inline Handler by_float(const Decoder& d, ptx::Type t, F&& f) {
  if (t == ptx::Type::f32) return f(float{});
  if (t == ptx::Type::f64) return f(double{});
  d.unknown("type");
}

// A GPU's results that are no number are this one number that is none (PTX ISA, "Floating point
// instructions": f32's NaN is 0x7fffffff).
inline float canonical(float x) { return x == x ? x : __builtin_bit_cast(float, 0x7fffffffu); }
inline double canonical(double x) { return x; }

// Fills in d, a, b, c as far as the instruction has operands, all of type t.
inline void plain_operands(Decoder& d, ptx::Type t) {
  Op& op = d.op();
  op.d = d.slot(0, t);
  if (d.operands() > 1) op.a = d.slot(1, t);
  if (d.operands() > 2) op.b = d.slot(2, t);
  if (d.operands() > 3) op.c = d.slot(3, t);
}

}  // namespace emu
