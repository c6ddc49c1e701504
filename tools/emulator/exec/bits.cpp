// Logic, shifts and bit fields: PTX ISA, "Logic and shift instructions" and the integer ones on
// bits.
#include <type_traits>

#include "exec/lanes.h"

namespace emu {
namespace {

// --- predicates: a bit a lane, so logic on the whole word ---
template <class F>
void pred_logic(Warp& w, const Op& op, F f) {
  set_pred(w, op.d, f(w.preds[op.a], op.b == kNoSlot ? 0 : w.preds[op.b]));
}

template <class T, class F>
void logic(Warp& w, const Op& op, F f) {
  const T *a = w.at<T>(op.a), *b = w.at<T>(op.b);
  set_lanes(w, w.at<T>(op.d), [=](u32 l) { return T(f(a[l], b[l])); });
}

struct And {
  template <class T>
  T operator()(T a, T b) const {
    return T(a & b);
  }
};
struct Or {
  template <class T>
  T operator()(T a, T b) const {
    return T(a | b);
  }
};
struct Xor {
  template <class T>
  T operator()(T a, T b) const {
    return T(a ^ b);
  }
};
struct Not {
  template <class T>
  T operator()(T a, T) const {
    return T(~a);
  }
};
struct LogicalNot {
  template <class T>
  T operator()(T a, T) const {
    return T(a == 0);
  }
};

template <class F>
void decode_logic(Decoder& d) {
  const ptx::Type t = d.type();
  Op& op = d.op();
  if (t == ptx::Type::pred) {
    op.d = d.pred(d.operand(0));
    op.a = d.pred(d.operand(1));
    if (d.operands() > 2) op.b = d.pred(d.operand(2));
    op.run = [](Warp& w, const Op& o) { pred_logic(w, o, F{}); };
    return;
  }
  plain_operands(d, t);
  if (op.b == kNoSlot) op.b = op.a;
  op.run = by_integer(d, t, [](auto x) -> Handler {
    using U = std::make_unsigned_t<decltype(x)>;
    return [](Warp& w, const Op& o) { logic<U>(w, o, F{}); };
  });
}

// --- shifts: the amount is 32 bits, and one beyond the width is the width ---
template <class T>
void shift_left(Warp& w, const Op& op) {
  using U = std::make_unsigned_t<T>;
  const U* a = w.at<U>(op.a);
  const u32* n = w.at<u32>(op.b);
  set_lanes(w, w.at<U>(op.d), [=](u32 l) {
    const u32 by = n[l] < 8 * sizeof(T) ? n[l] : 8 * sizeof(T) - 1;
    return n[l] < 8 * sizeof(T) ? U(a[l] << by) : U(0);
  });
}
template <class T>
void shift_right(Warp& w, const Op& op) {
  const T* a = w.at<T>(op.a);
  const u32* n = w.at<u32>(op.b);
  set_lanes(w, w.at<T>(op.d), [=](u32 l) {
    const u32 by = n[l] < 8 * sizeof(T) ? n[l] : 8 * sizeof(T) - 1;
    const T shifted = T(a[l] >> by);
    return n[l] < 8 * sizeof(T) || std::is_signed_v<T> ? shifted : T(0);
  });
}
void decode_shift(Decoder& d, bool left) {
  const ptx::Type t = d.type();
  Op& op = d.op();
  op.d = d.slot(0, t);
  op.a = d.slot(1, t);
  op.b = d.slot(2, ptx::Type::b32);
  op.run = by_integer(d, t, [=](auto x) -> Handler {
    return left ? Handler(shift_left<decltype(x)>) : Handler(shift_right<decltype(x)>);
  });
}

// --- one lane at a time: rare ---
template <class D, class F>
void by_lane(Warp& w, const Op& op, F f) {
  D r[kLanes];
  for (u32 l = 0; l < kLanes; ++l) r[l] = D(f(l));
  set_lanes(w, w.at<D>(op.d), [&](u32 l) { return r[l]; });
}

u32 funnel(u32 low, u32 high, u32 n, u32 how) {  // how: 1 right, 2 wrap
  const u32 by = how & 2 ? n & 31 : n < 32 ? n : 32;
  const u64 both = u64(high) << 32 | low;
  return how & 1 ? u32(both >> by) : u32((both << by) >> 32);
}
u32 permuted(u32 a, u32 b, u32 selector, u32 mode) {
  const u64 bytes = u64(b) << 32 | a;
  const auto byte = [&](u32 i) { return u32(bytes >> 8 * (i & 7) & 255); };
  if (mode == 0) {
    u32 r = 0;
    for (u32 i = 0; i < 4; ++i) {
      const u32 s = selector >> 4 * i & 15;
      const u32 x = byte(s);
      r |= (s & 8 ? (x & 128 ? 255u : 0u) : x) << 8 * i;
    }
    return r;
  }
  const u32 s = selector & 3;
  static constexpr u32 kPicks[6][4] = {
      {0x3210, 0x4321, 0x5432, 0x6543},  // f4e
      {0x5670, 0x6701, 0x7012, 0x0123},  // b4e
      {0x0000, 0x1111, 0x2222, 0x3333},  // rc8
      {0x3210, 0x3211, 0x3222, 0x3333},  // ecl
      {0x0000, 0x1110, 0x2210, 0x3210},  // ecr
      {0x1010, 0x3232, 0x1010, 0x3232},  // rc16
  };
  return permuted(a, b, kPicks[mode - 1][s], 0);
}

template <class T>
void field_extract(Warp& w, const Op& op) {
  const T* a = w.at<T>(op.a);
  const u32 *at = w.at<u32>(op.b), *count = w.at<u32>(op.c);
  by_lane<T>(w, op, [&](u32 l) -> T {
    using U = std::make_unsigned_t<T>;
    constexpr u32 bits = 8 * sizeof(T);
    const u32 p = at[l] & 255, n = count[l] & 255;
    U r = 0;
    bool sign = false;
    if (std::is_signed_v<T> && n)
      sign = U(a[l]) >> (p + n - 1 < bits - 1 ? p + n - 1 : bits - 1) & 1;
    for (u32 i = 0; i < bits; ++i) {
      const bool bit = i < n && p + i < bits ? bool(U(a[l]) >> (p + i) & 1) : sign;
      r |= U(bit) << i;
    }
    return T(r);
  });
}
template <class T>
void field_insert(Warp& w, const Op& op) {
  using U = std::make_unsigned_t<T>;
  const U *a = w.at<U>(op.a), *b = w.at<U>(op.b);
  const u32 *at = w.at<u32>(op.c), *count = w.at<u32>(op.e);
  set_lanes(w, w.at<U>(op.d), [=](u32 l) {
    constexpr u32 bits = 8 * sizeof(T);
    const u32 p = at[l] & 255, n = count[l] & 255;
    const U ones = n >= bits ? U(~U(0)) : U((U(1) << n) - 1);
    const U mask = p >= bits ? U(0) : U(ones << p);
    const U moved = p >= bits ? U(0) : U(a[l] << p);
    return U((b[l] & ~mask) | (moved & mask));
  });
}
template <class T>
void leading_zeros(Warp& w, const Op& op) {
  const T* a = w.at<T>(op.a);
  by_lane<u32>(w, op, [&](u32 l) {
    if constexpr (sizeof(T) == 8)
      return a[l] ? __builtin_clzll(u64(a[l])) : 64;
    else
      return a[l] ? __builtin_clz(u32(a[l])) : 32;
  });
}
template <class T>
void top_bit(Warp& w, const Op& op) {
  const T* a = w.at<T>(op.a);
  by_lane<u32>(w, op, [&](u32 l) -> u32 {
    using U = std::make_unsigned_t<T>;
    const U x = std::is_signed_v<T> && a[l] < 0 ? U(~U(a[l])) : U(a[l]);
    if (!x) return ~0u;
    const u32 i = 63 - u32(__builtin_clzll(u64(x)));
    return op.aux ? u32(8 * sizeof(T)) - 1 - i : i;
  });
}
template <class T>
T reversed(T x) {
  T r = 0;
  for (u32 i = 0; i < 8 * sizeof(T); ++i) r = T(r | T(T(x >> i & 1) << (8 * sizeof(T) - 1 - i)));
  return r;
}
u32 nth_set(u32 mask, u32 base, i32 n) {
  if (n == 0) return mask >> (base & 31) & 1 ? base : ~0u;
  i32 i = i32(base & 31);
  const i32 step = n > 0 ? 1 : -1;
  u32 left = n > 0 ? u32(n) : 0 - u32(n);
  for (; i >= 0 && i < 32; i += step)
    if (mask >> i & 1 && --left == 0) return u32(i);
  return ~0u;
}

bool is_wide(const Decoder& d) { return ptx::type_bytes(d.type()) == 8; }

void decode_field_extract(Decoder& d) {
  const ptx::Type t = d.type();
  Op& op = d.op();
  op.d = d.slot(0, t);
  op.a = d.slot(1, t);
  op.b = d.slot(2, ptx::Type::b32);
  op.c = d.slot(3, ptx::Type::b32);
  op.run = by_integer(d, t, [](auto x) -> Handler { return field_extract<decltype(x)>; });
}
void decode_field_insert(Decoder& d) {
  const ptx::Type t = d.type();
  Op& op = d.op();
  op.d = d.slot(0, t);
  op.a = d.slot(1, t);
  op.b = d.slot(2, t);
  op.c = d.slot(3, ptx::Type::b32);
  op.e = d.slot(4, ptx::Type::b32);
  op.run = is_wide(d) ? field_insert<i64> : field_insert<i32>;
}
// d is 32 bits whatever a is.
void decode_count(Decoder& d, Handler narrow, Handler wide) {
  Op& op = d.op();
  op.d = d.slot(0, ptx::Type::b32);
  op.a = d.slot(1, d.type());
  op.aux = d.has("shiftamt");
  op.run = is_wide(d) ? wide : narrow;
}
void decode_lop3(Decoder& d) {
  if (d.has("and") || d.has("or")) d.unknown("lop3 with a predicate");
  Op& op = d.op();
  plain_operands(d, ptx::Type::b32);
  op.aux = u32(d.operand(4).bits);
  op.run = [](Warp& w, const Op& o) {
    const u32 *a = w.at<u32>(o.a), *b = w.at<u32>(o.b), *c = w.at<u32>(o.c), table = o.aux;
    set_lanes(w, w.at<u32>(o.d), [=](u32 l) {
      u32 r = 0;
      for (u32 i = 0; i < 8; ++i)
        r |= table >> i & 1
                 ? (i & 4 ? a[l] : ~a[l]) & (i & 2 ? b[l] : ~b[l]) & (i & 1 ? c[l] : ~c[l])
                 : 0;
      return r;
    });
  };
}

}  // namespace

std::vector<OpcodeEntry> bit_opcodes() {
  return {
      {"and", decode_logic<And>},
      {"or", decode_logic<Or>},
      {"xor", decode_logic<Xor>},
      {"not", decode_logic<Not>},
      {"cnot", decode_logic<LogicalNot>},
      {"shl", [](Decoder& d) { decode_shift(d, true); }},
      {"shr", [](Decoder& d) { decode_shift(d, false); }},
      {"shf",
       [](Decoder& d) {
         plain_operands(d, ptx::Type::b32);
         const bool right = !d.has("l") && d.has("r"), wraps = !d.has("clamp") && d.has("wrap");
         d.op().aux = u32(right) | u32(wraps) << 1;
         d.op().run = [](Warp& w, const Op& op) {
           const u32 *a = w.at<u32>(op.a), *b = w.at<u32>(op.b), *c = w.at<u32>(op.c);
           by_lane<u32>(w, op, [&](u32 l) { return funnel(a[l], b[l], c[l], op.aux); });
         };
       }},
      {"prmt",
       [](Decoder& d) {
         plain_operands(d, ptx::Type::b32);
         static constexpr std::string_view kModes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
         for (u32 i = 0; i < 6; ++i)
           if (d.has(kModes[i])) d.op().aux = i + 1;
         d.op().run = [](Warp& w, const Op& op) {
           const u32 *a = w.at<u32>(op.a), *b = w.at<u32>(op.b), *c = w.at<u32>(op.c);
           by_lane<u32>(w, op, [&](u32 l) { return permuted(a[l], b[l], c[l], op.aux); });
         };
       }},
      {"bfe", decode_field_extract},
      {"bfi", decode_field_insert},
      {"bmsk",
       [](Decoder& d) {
         plain_operands(d, ptx::Type::b32);
         d.op().aux = !d.has("clamp") && d.has("wrap");
         d.op().run = [](Warp& w, const Op& op) {
           const u32 *a = w.at<u32>(op.a), *b = w.at<u32>(op.b);
           by_lane<u32>(w, op, [&](u32 l) {
             const u32 at = op.aux ? a[l] & 31 : a[l], n = op.aux ? b[l] & 31 : b[l];
             const u64 ones = n >= 32 ? 0xffffffffu : (u64(1) << n) - 1;
             return at >= 32 ? 0u : u32(ones << at);
           });
         };
       }},
      {"popc",
       [](Decoder& d) {
         decode_count(
             d,
             [](Warp& w, const Op& op) {
               const u32* a = w.at<u32>(op.a);
               by_lane<u32>(w, op, [&](u32 l) { return __builtin_popcount(a[l]); });
             },
             [](Warp& w, const Op& op) {
               const u64* a = w.at<u64>(op.a);
               by_lane<u32>(w, op, [&](u32 l) { return __builtin_popcountll(a[l]); });
             });
       }},
      {"clz", [](Decoder& d) { decode_count(d, leading_zeros<u32>, leading_zeros<u64>); }},
      {"bfind",
       [](Decoder& d) {
         is_signed(d.type()) ? decode_count(d, top_bit<i32>, top_bit<i64>)
                             : decode_count(d, top_bit<u32>, top_bit<u64>);
       }},
      {"brev",
       [](Decoder& d) {
         plain_operands(d, d.type());
         d.op().run = is_wide(d) ? Handler([](Warp& w, const Op& op) {
           const u64* a = w.at<u64>(op.a);
           by_lane<u64>(w, op, [&](u32 l) { return reversed(a[l]); });
         })
                                 : Handler([](Warp& w, const Op& op) {
                                     const u32* a = w.at<u32>(op.a);
                                     by_lane<u32>(w, op, [&](u32 l) { return reversed(a[l]); });
                                   });
       }},
      {"fns",
       [](Decoder& d) {
         plain_operands(d, ptx::Type::b32);
         d.op().run = [](Warp& w, const Op& op) {
           const u32 *a = w.at<u32>(op.a), *b = w.at<u32>(op.b);
           const i32* c = w.at<i32>(op.c);
           by_lane<u32>(w, op, [&](u32 l) { return nth_set(a[l], b[l], c[l]); });
         };
       }},
      {"lop3", decode_lop3},
  };
}

}  // namespace emu
