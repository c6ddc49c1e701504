// The cpu variants of every elementwise operator: `reference` for any strides, `dense` for operands
// of one shape without gaps.
#include "warptape/kernels/pointwise.h"

#include "warptape/core/half.h"
#include "warptape/kernels/cpu_dtypes.h"

namespace wt {
namespace {

template <class T, class F, size_t... I>
WT_HOT T apply_entry(const T* v, std::index_sequence<I...>) { return F::template value<T>(v[I]...); }

template <class F>
void reference(const PointwiseArgs<F>& k, const Launch&) {
  dispatch_compute(k.out.dtype(), [&]<class S>() {
    using T = ComputeType<S>;
    constexpr int N = F::kArity;
    const Geometry& o = *k.out.geometry;
    i64 index[kMaxDims] = {};
    for (i64 i = 0; i < o.numel; ++i) {
      i64 at = 0;
      for (int d = 0; d < o.ndim; ++d) at += index[d] * o.strides[d];
      T v[N];
      for (int n = 0; n < N; ++n) {
        if (!k.in[n]) {
          v[n] = std::is_integral_v<T> ? T(k.scalar_int) : T(k.scalar);
          continue;
        }
        const Geometry& g = *k.in[n].geometry;
        const int lead = o.ndim - g.ndim;
        i64 from = 0;
        for (int d = lead; d < o.ndim; ++d)
          if (g.shape[d - lead] != 1) from += index[d] * g.strides[d - lead];
        v[n] = T(k.in[n].template as<S>()[from]);
      }
      k.out.template as<S>()[at] = S(apply_entry<T, F>(v, std::make_index_sequence<N>()));
      for (int d = o.ndim; d-- > 0;) {
        if (++index[d] < o.shape[d]) break;
        index[d] = 0;
      }
    }
  });
}

template <class F>
const char* dense_only(const PointwiseArgs<F>& k) {
  if (!k.out.dense()) return "the output is not dense";
  for (const View& v : k.in)
    if (v && (!v.dense() || !same_shape(*v.geometry, *k.out.geometry)))
      return "an operand is strided or broadcast";
  return nullptr;
}

template <class F>
void dense(const PointwiseArgs<F>& k, const Launch&) {
  dispatch_compute(k.out.dtype(), [&]<class S>() {
    using T = ComputeType<S>;
    constexpr int N = F::kArity;
    const i64 n = k.out.numel();
    S* const out = k.out.template as<S>();
    const T scalar = std::is_integral_v<T> ? T(k.scalar_int) : T(k.scalar);
    const S* in[N];
    bool is_scalar = false;
    for (int j = 0; j < N; ++j) {
      in[j] = k.in[j] ? k.in[j].template as<S>() : nullptr;
      is_scalar |= !k.in[j];
    }
    if constexpr (N == 1) {
      for (i64 i = 0; i < n; ++i) out[i] = S(F::template value<T>(T(in[0][i])));
    } else if constexpr (N == 2) {
      const S *a = in[0], *b = in[1];
      if (!is_scalar)
        for (i64 i = 0; i < n; ++i) out[i] = S(F::template value<T>(T(a[i]), T(b[i])));
      else if (a)
        for (i64 i = 0; i < n; ++i) out[i] = S(F::template value<T>(T(a[i]), scalar));
      else
        for (i64 i = 0; i < n; ++i) out[i] = S(F::template value<T>(scalar, T(b[i])));
    }
  });
}

}  // namespace

#define WT_DEFINE(contract, Args)                                                    \
  WT_VARIANTS(cpu, contract, Args,                                                   \
              {.name = "dense", .rank = 20, .why_not = dense_only, .launch = dense}, \
              {.name = "reference", .rank = 1, .launch = reference});
WT_POINTWISE_CONTRACTS(WT_DEFINE)

}  // namespace wt
