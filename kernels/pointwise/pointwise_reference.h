// The reference of all elementwise entries: one loop, for any strides and dtypes. Internal.
#pragma once
#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/common/strided.h"
#include "warptape/kernels/pointwise.h"

namespace wt::pw {

// What operand n is stored as when the operator's dtype is S, and what the output is.
template <class F, int n, class S>
using Stored = std::conditional_t<F::kSelects && n == 0, bool, S>;
template <class F, class S>
using Output = std::conditional_t<F::kPredicate, bool, S>;

template <class T, class F>
WT_HOT T scalar_of(const PointwiseArgs<F>& k) {
  return std::is_integral_v<T> ? T(k.scalar_int) : T(k.scalar);
}

// Operands as a nest of loops; the scalar walks with the output and is not read.
template <class F>
LoopNest<F::kArity + 1> nest_of(const PointwiseArgs<F>& k, LoopOrder order) {
  View views[F::kArity + 1] = {k.out};
  for (int n = 0; n < F::kArity; ++n) views[n + 1] = k.in[n] ? k.in[n] : k.out;
  return loop_nest(views, order);
}

template <class F, class S>
void reference_body(const PointwiseArgs<F>& k) {
  using T = ComputeType<S>;
  constexpr int N = F::kArity;
  const auto nest = nest_of(k, LoopOrder::logical);
  const auto element = [&](int n, i64 at) -> T {
    if (!k.in[n]) return scalar_of<T>(k);
    if (F::kSelects && n == 0) return T(k.in[n].template as<bool>()[at]);
    return T(k.in[n].template as<S>()[at]);
  };
  for_each_row(nest, [&](const i64(&at)[N + 1]) {
    for (i64 i = 0; i < nest.inner(); ++i) {
      T v[N];
      for (int n = 0; n < N; ++n) v[n] = element(n, at[n + 1] + i * nest.inner_stride(n + 1));
      k.out.template as<Output<F, S>>()[at[0] + i * nest.inner_stride(0)] =
          Output<F, S>(apply(k.f, v));
    }
  });
}

}  // namespace wt::pw
