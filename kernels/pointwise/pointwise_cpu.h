// The cpu variants of elementwise entries: `reference` (pointwise_reference.h), and
// `vectorized`, whose one loop over neighbouring elements is compiled for several instruction sets.
#pragma once
#include "warptape/kernels/cpu/isa.h"
#include "warptape/kernels/pointwise/pointwise_reference.h"

namespace wt::pw {

// Elements that are computed together: a fixed count, so that compilers vectorise at -O2.
constexpr int kBlock = 16;

// out[i] = f(in[0][i], ...) for n neighbouring elements of type T (16-bit floats come as float).
// advance[k] is 0 for an operand that is one value: it is there kBlock times.
using Span = void (*)(const void* f, void* out, const void* const* in, const bool* advance, i64 n);

template <class F, class T>
WT_HOT void span_body(const void* f_, void* out_, const void* const* in_, const bool* advance,
                      i64 n) {
  const F f = *static_cast<const F*>(f_);  // a copy: no store can change it
  auto* out = static_cast<Output<F, T>*>(out_);
  // Truth values as bytes: of bools gcc makes no vector code.
  using First = std::conditional_t<F::kSelects, u8, T>;
  const auto* a = static_cast<const First*>(in_[0]);
  const T* b = static_cast<const T*>(in_[F::kArity > 1 ? 1 : 0]);
  const T* c = static_cast<const T*>(in_[F::kArity > 2 ? 2 : 0]);
  const T* d = static_cast<const T*>(in_[F::kArity > 3 ? 3 : 0]);
  const auto first = [&]<class V>(int i, V) WT_INLINE_LAMBDA {
    if constexpr (F::kSelects)
      return a[i];
    else
      return V(T(a[i]));
  };
  const auto one = [&]<class V>(int i, V) WT_INLINE_LAMBDA {
    if constexpr (F::kArity == 1)
      out[i] = Output<F, T>(f.value(V(T(a[i]))));
    else if constexpr (F::kArity == 2)
      out[i] = Output<F, T>(f.value(V(T(a[i])), V(b[i])));
    else if constexpr (F::kArity == 3)
      out[i] = Output<F, T>(f.value(first(i, V()), V(b[i]), V(c[i])));
    else
      out[i] = Output<F, T>(f.value(V(T(a[i])), V(b[i]), V(c[i]), V(d[i])));
  };
  const int steps[4] = {advance[0] ? kBlock : 0, F::kArity > 1 && advance[1] ? kBlock : 0,
                        F::kArity > 2 && advance[2] ? kBlock : 0,
                        F::kArity > 3 && advance[3] ? kBlock : 0};
  // Angles beyond the reach of vector code send their block to libm, an element at a time.
  constexpr int kAngle = std::is_same_v<T, float> ? kAngleOperand<F> : -1;
  using Fast = std::conditional_t<kAngle >= 0, Moderate, T>;
  for (; n >= kBlock; n -= kBlock) {
    u32 excess = 0;
    if constexpr (kAngle >= 0)
      for (int i = 0; i < kBlock; ++i) excess |= float_math::excess(kAngle == 1 ? b[i] : T(a[i]));
    if (excess >> 31 == 0) {
#if !defined(__clang__)
#pragma GCC ivdep
#endif
      for (int i = 0; i < kBlock; ++i) one(i, Fast());
    } else {
      for (int i = 0; i < kBlock; ++i) one(i, T());
    }
    out += kBlock;
    a += steps[0];
    b += steps[1];
    c += steps[2];
    d += steps[3];
  }
  for (int i = 0; i < n; ++i) one(i, T());
}
// Compilers fuse no multiply-add by themselves here (CMakeLists.txt), only common/float_math.h
// does: an element has the same bits wherever it lies, and in `reference`.
template <class F, class T>
WT_TARGET_AVX2 void span_avx2(const void* f, void* out, const void* const* in, const bool* advance,
                              i64 n) {
  span_body<F, T>(f, out, in, advance, n);
}
#if WT_X86
template <class F, class T>
WT_TARGET_AVX512_WIDE void span_avx512(const void* f, void* out, const void* const* in,
                                       const bool* advance, i64 n) {
  span_body<F, T>(f, out, in, advance, n);
}
#endif
template <class F, class T>
void span_plain(const void* f, void* out, const void* const* in, const bool* advance, i64 n) {
  span_body<F, T>(f, out, in, advance, n);
}

// Everything about a call but the entry's type.
struct SpanCall {
  const void* f;
  Span span;
  View out;
  View in[4];
  int arity;
  DType dtype;    // what the entry computes on
  double scalar;  // for floats
  i64 scalar_int;
};
// Any strides and dtypes: rows, with gathers and conversions where needed
// (pointwise/pointwise_cpu.cpp).
void run_spans(const SpanCall& call);

// A dense call that is worth several threads. An output beyond the caches is written past them, so
// that what is overwritten is not read first. sizes: bytes an element of the operands.
struct LargeCall {
  const void* f;
  Span span;
  void* out;
  const void* in[4];
  bool advance[4];
  int sizes[4];
  int arity, out_size;
};
constexpr i64 kLarge = 1 << 15;  // elements
void run_large(const LargeCall& call, i64 n);

// The two, from what vectorized_body has in its hands: each entry and dtype has its copy of the
// call.
void rows_of(const void* f, Span span, const View& out, const View* in, int arity, DType dtype,
             double scalar, i64 scalar_int);
struct Sizes {
  int first, other, out;  // bytes an element of operand 0, of the others, of the output
};
void large_of(const void* f, Span span, const View& out, const void* const* in, const bool* advance,
              int arity, Sizes sizes);

template <class F, class T>
WT_HOT Span span_of() {
#if WT_X86
  if constexpr (F::kLong && std::is_same_v<T, float>)
    if (cpu_isa() >= kAvx512) return span_avx512<F, T>;
  if (cpu_isa() >= kAvx2) return span_avx2<F, T>;
#endif
  return span_plain<F, T>;
}

template <class F, class S>
void vectorized_body(const PointwiseArgs<F>& k) {
  using T = ComputeType<S>;
  constexpr int N = F::kArity;
  const i64 numel = k.out.numel();
  if (numel == 1) {  // every operand has one element: the tape's small change
    T v[N];
    for (int n = 0; n < N; ++n)
      v[n] = !k.in[n]                ? scalar_of<T>(k)
             : F::kSelects && n == 0 ? T(*k.in[n].template as<bool>())
                                     : T(*k.in[n].template as<S>());
    *k.out.template as<Output<F, S>>() = Output<F, S>(apply(k.f, v));
    return;
  }
  if constexpr (std::is_same_v<S, T>) {
    bool simple = k.out.dense();
    const void* in[N];
    bool advance[N];
    T constant[kBlock];
    for (int n = 0; n < N; ++n) {
      const View& v = k.in[n];
      in[n] = v.data;
      advance[n] = true;
      if (!v) {
        for (T& c : constant) c = scalar_of<T>(k);
        in[n] = constant;
        advance[n] = false;
      } else {
        simple &= v.dense() && same_shape(*v.geometry, *k.out.geometry);
      }
    }
    if (simple) {
      if (numel >= kLarge) [[unlikely]] {
        constexpr Sizes kSizes{F::kSelects ? 1 : sizeof(T), sizeof(T), sizeof(Output<F, T>)};
        return large_of(&k.f, span_of<F, T>(), k.out, in, advance, N, kSizes);
      }
      return span_of<F, T>()(&k.f, k.out.data, in, advance, numel);
    }
  }
  // 16-bit floats, and whatever is not simply dense.
  rows_of(&k.f, span_of<F, T>(), k.out, k.in, N, k.dtype(), k.scalar, k.scalar_int);
}

// --- rows ---
// One function a dtype, in the order of DType; null outside the entry's domain: operators refuse
// what is there, and one that forgets to is told so.
template <class Fn>
struct Bodies {
  Fn of[kNumDTypes];
};
template <class F>
[[noreturn]] void outside_domain(const PointwiseArgs<F>& k) {
  outside_domain(ContractTable<PointwiseArgs<F>>::kName, k.dtype());
}
#define WT_BODIES(name, Fn, body)                                                  \
  template <class F>                                                               \
  consteval Bodies<Fn> name##_bodies() {                                           \
    Bodies<Fn> b{};                                                                \
    if constexpr (has_floats(F::kDomain)) {                                        \
      b.of[int(f64)] = body<F, double>;                                            \
      b.of[int(f32)] = body<F, float>;                                             \
      b.of[int(f16)] = body<F, Half>;                                              \
      b.of[int(bf16)] = body<F, BFloat16>;                                         \
    }                                                                              \
    if constexpr (has_integers(F::kDomain)) {                                      \
      b.of[int(DType::i64)] = body<F, i64>;                                        \
      b.of[int(DType::i32)] = body<F, i32>;                                        \
      b.of[int(DType::u8)] = body<F, u8>;                                          \
    }                                                                              \
    if constexpr (has_bool(F::kDomain)) b.of[int(DType::boolean)] = body<F, bool>; \
    return b;                                                                      \
  }
template <class F>
using Body = void (*)(const PointwiseArgs<F>&);
WT_BODIES(reference, void (*)(const ReferenceRow&), reference_row)
WT_BODIES(vectorized, Body<F>, vectorized_body)
#undef WT_BODIES

template <class F>
void reference(const PointwiseArgs<F>& k, const Launch&) {
  static constexpr auto kBodies = reference_bodies<F>();
  const auto row = kBodies.of[int(k.dtype())];
  if (!row) outside_domain<F>(k);
  run_reference({row, &k.f, k.out, k.in, F::kArity, k.scalar, k.scalar_int});
}
template <class F>
void vectorized(const PointwiseArgs<F>& k, const Launch&) {
  static constexpr auto kBodies = [] {
    auto b = vectorized_bodies<F>();
    for (auto& body : b.of)
      if (!body) body = outside_domain<F>;
    return b;
  }();
  kBodies.of[int(k.dtype())](k);
}

#define WT_POINTWISE_CPU_ROWS(contract, Args)                                                    \
  WT_VARIANTS(cpu, contract, Args, {.name = "vectorized", .rank = 20, .launch = pw::vectorized}, \
              {.name = "reference", .rank = 1, .launch = pw::reference});

}  // namespace wt::pw
