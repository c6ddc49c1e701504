// How launches of the pointwise list are saved. Internal.
#pragma once
#include "warptape/kernels/dispatch/run_saved_lists.h"
#include "warptape/kernels/pointwise.h"

namespace wt {
namespace detail {

inline void saved_parameters(pw::Clamp& f, LaunchFields& to) { to(f.lo, f.hi, f.lo_int, f.hi_int); }
inline void saved_parameters(pw::Elu& f, LaunchFields& to) { to(f.alpha); }
inline void saved_parameters(pw::LeakyRelu& f, LaunchFields& to) { to(f.slope); }
inline void saved_parameters(pw::NanToNum& f, LaunchFields& to) { to(f.nan, f.posinf, f.neginf); }
inline void saved_parameters(pw::Softplus& f, LaunchFields& to) { to(f.beta, f.threshold); }

struct SavedPointwise {
  template <class Args>
  void operator()(Args& a, LaunchOperands& o) const {
    o.out(a.out);
    for (View& v : a.in) o.in(v);
  }
};

#define WT_POINTWISE_SAVED(contract, Args) to.add<Args>(SavedPointwise{});

}  // namespace detail

template <class F>
void saved_fields(PointwiseArgs<F>& a, detail::LaunchFields& f) {
  f(a.scalar, a.scalar_int);
  if constexpr (!std::is_empty_v<F>) detail::saved_parameters(a.f, f);
}

template <class F>
const char* saved_operands_wrong(const PointwiseArgs<F>& a) {
  if (!a.out) return "there is no output";
  const View* first = nullptr;  // of those that are computed with
  int absent = 0;
  for (int i = 0; i < F::kArity; ++i) {
    const View& v = a.in[i];
    bool selects = false;
    if constexpr (F::kSelects) selects = i == 0;
    if (!v) {
      if (++absent > 1 || F::kArity == 1 || selects) return "an operand is missing";
      continue;
    }
    if (!detail::broadcasts(v, a.out)) return "an operand does not broadcast to the output";
    if (selects ? v.dtype() != DType::boolean : first && v.dtype() != first->dtype())
      return "operands differ in dtype";
    if (!selects && !first) first = &v;
  }
  const DType result = F::kPredicate ? DType::boolean : first ? first->dtype() : a.out.dtype();
  return a.out.dtype() == result ? nullptr : "the output has another dtype";
}

}  // namespace wt
