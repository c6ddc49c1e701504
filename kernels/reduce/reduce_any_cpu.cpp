// any and all on the cpu: the bits of elements of any dtype, without a float's sign.
#include <algorithm>
#include <cstring>

#include "warptape/kernels/cpu/isa.h"
#include "warptape/kernels/reduce/reduce_cpu.h"

namespace wt {
namespace {

using detail::ReducePlan;

// Elements of U, 32 bytes at a time. `found`: lanes that are not 0 where one was found that is not
// 0 (All: that is 0). Lanes of a row of kStep elements, so that loads need not wait.
template <class U, bool All>
struct Seeker {
  typedef U Vector __attribute__((vector_size(32)));
  static constexpr i64 kCount = 32 / sizeof(U), kStep = 4 * kCount;
  U keep;  // all bits but the sign of a float

  WT_HOT bool one(U v) const { return ((v & keep) != 0) != All; }
  WT_HOT void take(Vector& found, const U* p) const {
    Vector v;
    std::memcpy(&v, p, sizeof v);
    v &= keep;
    if constexpr (All)
      found |= Vector(v == 0);
    else
      found |= v;
  }
  WT_HOT static bool any_of(const Vector& v) {
    u64 words[4];
    std::memcpy(words, &v, sizeof words);
    return (words[0] | words[1]) | (words[2] | words[3]);
  }

  WT_HOT bool in_run(const U* p, i64 n, i64 step) const {
    i64 i = 0;
    if (step == 1) {
      constexpr i64 kBlock = 16 * kStep;  // looked at before it may stop
      while (n - i >= kStep) {
        Vector found[4] = {};
        for (const i64 end = i + std::min(kBlock, (n - i) / kStep * kStep); i < end; i += kStep)
          for (int k = 0; k < 4; ++k) take(found[k], p + i + k * kCount);
        if (any_of((found[0] | found[1]) | (found[2] | found[3]))) return true;
      }
    }
    for (; i < n; ++i)
      if (one(p[i * step])) return true;
    return false;
  }

  // found[c] is not 0 once column c has one, in `rows` rows.
  WT_HOT void in_rows(U* found, const U* p, i64 rows, i64 step, i64 columns) const {
    i64 c = 0;
    for (; c + kStep <= columns; c += kStep) {
      Vector f[4];
      std::memcpy(f, found + c, sizeof f);
      for (i64 r = 0; r < rows; ++r)
        for (int k = 0; k < 4; ++k) take(f[k], p + r * step + c + k * kCount);
      std::memcpy(found + c, f, sizeof f);
    }
    for (; c < columns; ++c)
      for (i64 r = 0; r < rows; ++r) found[c] = U(found[c] | U(one(p[r * step + c])));
  }
};

// One output after the other, from whatever strides.
template <class Seek, class U>
WT_HOT void seek_rows(const Seek& seek, const ReducePlan& plan, const U* in, bool* out, bool all) {
  const i64 length = plan.reduced.inner(), step = plan.reduced.inner_stride(0);
  for_each_row(plan.kept, [&](const i64(&at)[2]) WT_INLINE_LAMBDA {
    for (i64 o = 0; o < plan.kept.inner(); ++o) {
      const U* start = in + at[0] + o * plan.kept.inner_stride(0);
      bool found = false;
      for_each_row(plan.reduced, [&](const i64(&from)[1]) WT_INLINE_LAMBDA {
        found = found || seek.in_run(start + from[0], length, step);
      });
      out[at[1] + o * plan.kept.inner_stride(1)] = found != all;
    }
  });
}

// Consecutive outputs: blocks of rows are walked from left to right.
template <class Seek, class U>
WT_HOT void seek_columns(const Seek& seek, const ReducePlan& plan, const U* in, bool* out,
                         bool all) {
  constexpr i64 kColumns = 4096, kRows = 8;  // as in reduce/reduce_cpu.cpp
  const i64 columns = plan.kept.inner(), rows = plan.reduced.inner();
  const i64 step = plan.reduced.inner_stride(0), step_out = plan.kept.inner_stride(1);
  for_each_row(plan.kept, [&](const i64(&at)[2]) WT_INLINE_LAMBDA {
    for (i64 c = 0; c < columns; c += kColumns) {
      const i64 n = std::min(columns - c, kColumns);
      U found[kColumns] = {};
      for_each_row(plan.reduced, [&](const i64(&from)[1]) WT_INLINE_LAMBDA {
        for (i64 r = 0; r < rows; r += kRows)
          seek.in_rows(found, in + at[0] + c + from[0] + r * step, std::min(rows - r, kRows), step,
                       n);
      });
      for (i64 i = 0; i < n; ++i) out[at[1] + (c + i) * step_out] = (found[i] != 0) != all;
    }
  });
}

template <class U, bool All>
WT_HOT void seek(const ReducePlan& plan, const AnyArgs& a) {
  const bool sign = is_floating(a.in.dtype());
  const Seeker<U, All> seeker{sign ? U(U(~U(0)) >> 1) : U(~U(0))};
  const U* in = a.in.as<U>();
  bool* out = a.out.as<bool>();
  if (plan.reduced.inner_stride(0) != 1 && plan.kept.inner_stride(0) == 1)
    seek_columns(seeker, plan, in, out, All);
  else
    seek_rows(seeker, plan, in, out, All);
}
template <class U, bool All>
WT_TARGET_AVX2 void seek_avx2(const ReducePlan& plan, const AnyArgs& a) {
  seek<U, All>(plan, a);
}
template <class U, bool All>
void seek_plain(const ReducePlan& plan, const AnyArgs& a) {
  seek<U, All>(plan, a);
}

template <class U>
void seek_in(const AnyArgs& a) {
  ReducePlan plan;
  detail::plan_reduction(plan, a);
  const auto call = [&](auto avx2, auto plain) { (cpu_isa() >= kAvx2 ? avx2 : plain)(plan, a); };
  if (a.f.all)
    call(seek_avx2<U, true>, seek_plain<U, true>);
  else
    call(seek_avx2<U, false>, seek_plain<U, false>);
}

}  // namespace

template <>
void detail::reduce_vectorized(const AnyArgs& a, const Launch&) {
  switch (item_size(a.in.dtype())) {
    case 1:
      return seek_in<u8>(a);
    case 2:
      return seek_in<u16>(a);
    case 4:
      return seek_in<u32>(a);
    default:
      return seek_in<u64>(a);
  }
}

}  // namespace wt
