#include "warptape/autograd/ops/internal/number_operand.h"

#include <cmath>

#include "warptape/autograd/ops/shape.h"
#include "warptape/core/numbers/scalar_as.h"

namespace wt::detail {

void check_holds(const OpScope& s, Scalar v) {
  if (!holds(s.dtype(), v))
    s.fail<DtypeError>(str(dtype_name(s.dtype()), " cannot hold ", text_of(v)),
                       ".to(dtype) of a wider one");
}

Scalar compared(DType t, Scalar v) {
  if (!is_floating(t)) return v;
  const double rounded = rounded_to(t, v);
  if (std::isfinite(rounded) || !std::isfinite(v.f)) v.f = rounded;
  return v;
}

namespace {

// What the tensors with dimensions promote to. Nothing without one, or with what does not promote.
std::optional<DType> dtype_of_rows(const In* const* in, int n) {
  std::optional<DType> rows;
  for (int i = 0; i < n; ++i) {
    const TensorImpl* p = in[i]->impl();
    if (!p || !computes(dtype_of(p))) return {};
    if (p->geometry.ndim > 0) rows = rows ? promote(*rows, dtype_of(p)) : dtype_of(p);
  }
  return rows;
}

// Every value of it has its place among 16-bit floats of dtype t.
bool has_all_of(DType t, DType of) { return of == t || of == DType::boolean || of == DType::u8; }

}  // namespace

std::optional<DType> widen_beside(const OpInfo& info, const In* const* in, int n) {
  const std::optional<DType> rows = dtype_of_rows(in, n);
  if (!rows || !is_half(*rows)) return {};
  bool wider = false, floats = false;
  DType wide = DType::f32;
  for (int i = 0; i < n; ++i) {
    const DType t = dtype_of(in[i]->impl());
    if (in[i]->impl()->geometry.ndim > 0 || has_all_of(*rows, t)) continue;
    wider = true;
    floats |= is_floating(t);
    if (t == DType::f64) wide = t;
  }
  if (!wider) return {};
  const bool lifted = info.autocast == Autocast::f32 || (info.autocast != Autocast::none && floats);
  if (mode.slow & kSlowAutocast && lifted) return {};
  for (int i = 0; i < n; ++i) {
    if (dtype_of(in[i]->impl()) == wide) continue;
    const FrameScope frame(in[i]->frame());
    in[i]->replace(to_dtype(Tensor(retained(in[i]->impl())), wide));
  }
  return rows;
}

}  // namespace wt::detail
