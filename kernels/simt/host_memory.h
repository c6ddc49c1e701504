// Shared memory, vector accesses and atomics on the host.
#pragma once
#include "warptape/kernels/simt/host_exec.h"

// WT_SHARED(float, tile, [64][65]);  WT_SHARED(int, last, );  and, once a kernel,
// WT_DYN_SHARED(float, buf);  which is 16-byte aligned. Filled with NaN before every block.
#define WT_SHARED(T, name, ...)                                                                \
  static const ::wt::SharedSite name##_shared_site{#name, __builtin_FILE(), __builtin_LINE()}; \
  using name##_shared_type = T __VA_ARGS__;                                                    \
  name##_shared_type& name = *static_cast<name##_shared_type*>(::wt::exec_shared(              \
      name##_shared_site, sizeof(name##_shared_type), alignof(name##_shared_type)))
#define WT_DYN_SHARED(T, name) T* name = static_cast<T*>(::wt::exec_dyn_shared())

namespace wt {
inline namespace simt {

// What a vector access of so many bytes moves, as one value: a copy of a struct would be taken
// apart into its members before the race checker and the counters are told of it.
template <size_t Bytes>
struct AccessBits;
template <>
struct AccessBits<1> {
  using type = unsigned char;
};
template <>
struct AccessBits<2> {
  using type = unsigned short;
};
template <>
struct AccessBits<4> {
  using type = unsigned;
};
template <>
struct AccessBits<8> {
  using type = unsigned long long;
};
template <>
struct AccessBits<16> {
  typedef unsigned long long type __attribute__((vector_size(16)));
};

// Every 8- and 16-byte access goes through these: alignment is checked in all flavours and the
// compiler sees one access. V is a vector type or any trivially copyable struct of that size.
template <class V>
WT_FN V vload(const void* p, Loc at = Loc::current()) {
  static_assert(std::is_trivially_copyable_v<V> && (sizeof(V) & (sizeof(V) - 1)) == 0 &&
                sizeof(V) <= 16 && alignof(V) == sizeof(V));
  if (reinterpret_cast<uintptr_t>(p) % sizeof(V) != 0) [[unlikely]]
    exec_misaligned(p, sizeof(V), false, at);
  return __builtin_bit_cast(V, *static_cast<const typename AccessBits<sizeof(V)>::type*>(p));
}
template <class V>
WT_FN void vstore(void* p, V v, Loc at = Loc::current()) {
  static_assert(std::is_trivially_copyable_v<V> && (sizeof(V) & (sizeof(V) - 1)) == 0 &&
                sizeof(V) <= 16 && alignof(V) == sizeof(V));
  if (reinterpret_cast<uintptr_t>(p) % sizeof(V) != 0) [[unlikely]]
    exec_misaligned(p, sizeof(V), true, at);
  using Bits = typename AccessBits<sizeof(V)>::type;
  *static_cast<Bits*>(p) = __builtin_bit_cast(Bits, v);
}

// Real atomics: two OS threads may run grids over the same memory. Relaxed, as CUDA's are.
template <class T>
using AtomicBits = std::conditional_t<sizeof(T) == 8, unsigned long long, unsigned>;
template <class T, class F>
WT_FN T atomic_update(T* p, F next) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "atomics are 4 or 8 bytes");
  exec_in_turn(p);
  using U = AtomicBits<T>;
  U* q = reinterpret_cast<U*>(p);
  U old = __atomic_load_n(q, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(q, &old,
                                      __builtin_bit_cast(U, T(next(__builtin_bit_cast(T, old)))),
                                      true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
  return __builtin_bit_cast(T, old);
}
// As in CUDA: add and exchange also take floats, the others integers.
#define WT_ATOMIC(name, types, expression)                                        \
  template <class T>                                                              \
  requires types<T> WT_FN T name(T* p, std::type_identity_t<T> v) {               \
    return atomic_update(p, [v](T o) WT_INLINE_LAMBDA { return T(expression); }); \
  }
template <class T>
concept AtomicInteger = std::is_integral_v<T>;
template <class T>
concept AtomicNumber = std::is_arithmetic_v<T>;
template <class T>
requires AtomicNumber<T> WT_FN T atomicAdd(T* p, std::type_identity_t<T> v) {
  if constexpr (AtomicInteger<T>) {
    exec_in_turn(p);
    return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
  } else {
    return atomic_update(p, [v](T o) WT_INLINE_LAMBDA { return T(o + v); });
  }
}
WT_ATOMIC(atomicSub, AtomicInteger, o - v)
WT_ATOMIC(atomicMin, AtomicInteger, v < o ? v : o)
WT_ATOMIC(atomicMax, AtomicInteger, o < v ? v : o)
WT_ATOMIC(atomicAnd, AtomicInteger, o& v)
WT_ATOMIC(atomicOr, AtomicInteger, o | v)
WT_ATOMIC(atomicXor, AtomicInteger, o ^ v)
WT_ATOMIC(atomicInc, AtomicInteger, o >= v ? T(0) : T(o + 1))
WT_ATOMIC(atomicExch, AtomicNumber, (void(o), v))
#undef WT_ATOMIC
// What CUDA lacks: minimum and maximum of float and double. A NaN operand is ignored.
template <class T>
WT_FN T atomic_min(T* p, std::type_identity_t<T> v) {
  return atomic_update(p, [v](T o) WT_INLINE_LAMBDA { return v < o || o != o ? v : o; });
}
template <class T>
WT_FN T atomic_max(T* p, std::type_identity_t<T> v) {
  return atomic_update(p, [v](T o) WT_INLINE_LAMBDA { return v > o || o != o ? v : o; });
}
// A failed CAS is a poll: it lets the other threads run.
template <class T>
WT_FN T atomicCAS(T* p, std::type_identity_t<T> expected, std::type_identity_t<T> v,
                  Loc at = Loc::current()) {
  using U = AtomicBits<T>;
  static_assert(sizeof(T) == sizeof(U));
  exec_in_turn(p);
  U old = __builtin_bit_cast(U, expected);
  if (!__atomic_compare_exchange_n(reinterpret_cast<U*>(p), &old, __builtin_bit_cast(U, v), false,
                                   __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    exec_poll(at);
  return __builtin_bit_cast(T, old);
}

}  // namespace simt
}  // namespace wt

using wt::atomicAdd;
using wt::atomicAnd;
using wt::atomicCAS;
using wt::atomicExch;
using wt::atomicInc;
using wt::atomicMax;
using wt::atomicMin;
using wt::atomicOr;
using wt::atomicSub;
using wt::atomicXor;
