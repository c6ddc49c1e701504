// The reference of all elementwise entries, for any strides and dtypes: of an entry and a dtype
// there is a row alone, the nest of loops around it is the same for all. Internal.
#pragma once
#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/common/strided.h"
#include "warptape/kernels/pointwise.h"

namespace wt::pw {

// What the output is stored as when the operator's dtype is S.
template <class F, class S>
using Output = std::conditional_t<F::kPredicate, bool, S>;

template <class T, class F>
WT_HOT T scalar_of(const PointwiseArgs<F>& k) {
  return std::is_integral_v<T> ? T(k.scalar_int) : T(k.scalar);
}

// One run of the innermost loop; steps are in elements.
struct ReferenceRow {
  const void* f;
  void* out;
  const void* in[4];  // null: the scalar
  i64 out_step, in_step[4];
  i64 n;
  double scalar;  // for floats
  i64 scalar_int;
};
template <class F, class S>
void reference_row(const ReferenceRow& r) {
  using T = ComputeType<S>;
  constexpr int N = F::kArity;
  const F& f = *static_cast<const F*>(r.f);
  for (i64 i = 0; i < r.n; ++i) {
    T v[N];
    for (int n = 0; n < N; ++n) {
      const i64 at = i * r.in_step[n];
      v[n] = !r.in[n]                ? (std::is_integral_v<T> ? T(r.scalar_int) : T(r.scalar))
             : F::kSelects && n == 0 ? T(static_cast<const bool*>(r.in[n])[at])
                                     : T(static_cast<const S*>(r.in[n])[at]);
    }
    static_cast<Output<F, S>*>(r.out)[i * r.out_step] = Output<F, S>(apply(f, v));
  }
}

// A call, the type of the entry erased.
struct ReferenceCall {
  void (*row)(const ReferenceRow& r);
  const void* f;
  View out;
  const View* in;
  int arity;
  double scalar;
  i64 scalar_int;
};
void run_reference(const ReferenceCall& call);  // pointwise/pointwise_cpu.cpp

}  // namespace wt::pw
