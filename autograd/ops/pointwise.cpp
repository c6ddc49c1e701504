// Elementwise operators of one tensor, of the lists in kernels/pointwise.h, which has the maths,
// and what those of two (pointwise_binary.cpp) have in common with them.
#include <cmath>
#include <optional>

#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/internal/in_place.h"
#include "warptape/autograd/ops/internal/number_operand.h"
#include "warptape/autograd/ops/internal/pointwise_call.h"
#include "warptape/autograd/save_policy.h"
#include "warptape/core/numbers/scalar_as.h"

namespace wt {
namespace elementwise {

WT_COLD std::string refusal(pw::Domain domain, DType t) {
  if (is_floating(t) && computes(t))
    return str("expected integers", pw::has_bool(domain) ? " or bool" : "", ", got ",
               dtype_name(t));
  return computes(t) ? "bool operands have no such operation"
                     : str(dtype_name(t), " is for storage only");
}

WT_COLD bool broadcast(const Geometry& a, const Geometry& b, Shape& shape) {
  try {
    shape = broadcast_shapes("", shape_of(a), shape_of(b));
    return true;
  } catch (const ShapeError&) {
    return false;
  }
}

Tensor fused(const Entry& e, const void* f, const In* const* operands, int n, Scalar v) {
  const In* in[kMaxFused];
  View views[kMaxFused];
  int m = 0;
  for (int k = 0; k < n; ++k) {
    if (!operands[k]) continue;
    in[m++] = operands[k];
    views[k] = view_of(operands[k]->impl());
  }
  const In* const* list = in;
  OpScope s(e.info, list, m);
  Result gx = s.result_in_order();
  e.launch(gx.view(), views, v, f, s.launch());
  return s.finish(std::move(gx));
}

__attribute__((noinline)) Tensor fused_pair(const Entry& e, const void* f, const In& gy,
                                            const In& saved) {
  return fused_pair_inline(e, LaunchEntry{e, f}, gy, saved);
}

namespace {

// An integer is compared with a number that is none as with the integer above or below it, exactly:
// as floats both would be rounded. What has no such neighbour is left a float.
Scalar as_integer(const Entry& e, bool number_first, Scalar v) {
  const bool up = (&e == &kEntry<pw::Lt> || &e == &kEntry<pw::Ge>) != number_first;
  const bool equality = &e == &kEntry<pw::Eq> || &e == &kEntry<pw::Ne>;
  const double whole = up ? std::ceil(v.f) : std::floor(v.f);
  return (!equality || whole == v.f) && detail::holds(DType::i64, whole) ? Scalar(i64(whole)) : v;
}

// What stands for v beside x, which is converted to a dtype that the two can be compared in.
Scalar compared_with(const Entry& e, const In& x, bool number_first, Scalar v) {
  if (is_integral(dtype_of(x.impl()))) {
    if (v.kind == Scalar::Kind::floating) v = as_integer(e, number_first, v);
    if (v.kind == Scalar::Kind::floating) {
      convert(x, DType::f64);  // which rounds the largest integers to 2^63
      if (std::abs(v.f) >= 0x1p63) v.f = std::copysign(HUGE_VAL, v.f);
    } else if (!detail::holds(dtype_of(x.impl()), v)) {
      convert(x, DType::i64);
    }
  }
  return detail::compared(dtype_with_number(dtype_of(x.impl()), v), v);
}

// v as the kernel is to have it.
Scalar operand_beside(const Entry& e, const In& x, bool number_first, Scalar v) {
  const DType t = dtype_of(x.impl());
  if (!computes(t)) return v;
  const bool shifts = &e == &kEntry<pw::ShiftLeft> || &e == &kEntry<pw::ShiftRight>;
  constexpr i64 kAllBits = 64;  // shifted out, as by every count that is not below it
  if (shifts && !number_first) return v.i >= 0 && v.i < kAllBits ? v : Scalar(kAllBits);
  if (e.predicate && !e.compares) return Scalar(v.f != 0);
  if (e.predicate) return compared_with(e, x, number_first, v);
  return e.compares ? detail::compared(dtype_with_number(t, v), v) : v;
}

}  // namespace

Tensor with_number(const Entry& e, const Operand& a, const Operand& b) {
  if (a.is_scalar() && b.is_scalar())
    throw UsageError(str("[", e.info.name, "] at least one operand must be a tensor\n  at ",
                         describe(a.frame())));
  const int i = a.is_scalar() ? 1 : 0;  // which operand the tensor is
  const In& x = i ? b : a;
  Scalar v = i ? a.scalar() : b.scalar();
  if (x.impl()) {
    v = operand_beside(e, x, i == 1, v);
    convert(x, dtype_with_number(dtype_of(x.impl()), v));
    if (e.domain == pw::Domain::floating) convert_integers(x);
  }
  OpScope s(e.info, x);
  check_domain(s, e);
  if (!e.wraps && is_integral(s.dtype())) detail::check_holds(s, v);
  if (e.needs[i] & (i ? kNeedsB : kNeedsA)) s.save_input_if(s.wants(0), 0);
  if (e.needs[i] & kNeedsOut) s.save_output();
  Result y = e.predicate ? s.result_in_order(0, DType::boolean) : s.result_in_order();
  if (e.backward) {
    s.record(i ? e.number_first : e.number_second);
    s.set_attribute(v);
  }
  View in[2];
  in[i] = s.view(0);
  e.launch(y.view(), in, v, nullptr, s.launch());
  return s.finish(std::move(y));
}

// Results of integers modulo 2^bits are the same without.
static std::optional<DType> widen_integers(const Entry& e, const In& a, const In& b) {
  const DType p = dtype_of(a.impl()), q = dtype_of(b.impl());
  const bool first = a.impl()->geometry.ndim > 0;
  if (e.wraps || e.domain == pw::Domain::floating || !is_integral(p) || !is_integral(q) ||
      !computes(p) || !computes(q) || first == (b.impl()->geometry.ndim > 0))
    return {};
  const DType rows = first ? p : q, wide = promote(p, q);
  if (wide == rows) return {};
  convert(a, wide), convert(b, wide);
  return rows;
}

Tensor with_wide_number(const Entry& e, const Operand& a, const Operand& b) {
  const In* const both[] = {&a, &b};
  if (!a.impl() || !b.impl()) return {};
  const auto goes_along = [](const In& x) {  // a 0-d tensor of the cpu, beside any device's
    return x.impl()->geometry.ndim == 0 && device_of(x.impl()) == Device::cpu();
  };
  if (!(device_of(a.impl()) == device_of(b.impl())) && !goes_along(a) && !goes_along(b)) return {};
  std::optional<DType> t = widen_integers(e, a, b);
  if (!t && !e.compares) t = detail::widen_beside(e.info, both, 2);
  if (!t) return {};
  const FrameScope frame(a.frame());
  Tensor y = binary(e, a, b);
  return e.predicate ? y : to_dtype(std::move(y), *t);
}

__attribute__((noinline)) Tensor binary(const Entry& e, const Operand& a, const Operand& b) {
  return binary_inline(e, LaunchEntry{e, nullptr}, a, b);
}

void write_in_place(const InPlace& op, Tensor& x, const void* parameters,
                    void (*set_attribute)(const OpScope&, const void*), Frame at) {
  if (mode.recomputation && detail::leaves_alone(x.impl())) return;
  const In self(x, at.file, at.line);
  OpScope s(op.info, self);
  check_domain(s, *op.entry);
  if (op.entry->domain == pw::Domain::floating && !is_floating(s.dtype()))
    s.fail<DtypeError>(str("the result would be floating, the tensor is ", dtype_name(s.dtype())));
  detail::check_writable(s);
  s.begin_in_place();
  const bool needs_input = op.entry->needs[0] & kNeedsA;
  if (needs_input)
    s.save_input(0);
  else if (op.entry->needs[0] & kNeedsOut)
    s.save_output();
  s.record(op.entry->backward);
  std::unique_ptr<PackedSlot> form;  // of the input
  if (needs_input && s.recording()) {
    const NoGrad no_grad;
    form = detail::form_of_overwritten(op.info, x.impl());
    if (!form) s.keep_copy(0, clone(x));
  }
  if (set_attribute) set_attribute(s, parameters);
  const View in = s.view(0);
  op.entry->launch(s.view(0), &in, {}, parameters, s.launch());
  s.finish_in_place();
  if (form) {
    Node* n = x.impl()->node;
    detail::pack(n, n->slots[0], std::move(form), detail::rule_of_overwritten());
  }
}

}  // namespace elementwise

#define WT_DEFINE_UNARY(M, name, F)                                                          \
  Tensor name(const In& x) {                                                                 \
    if constexpr (pw::F::kHot)                                                               \
      return elementwise::unary_inline(elementwise::kEntry<pw::F>,                           \
                                       elementwise::LaunchInlined<pw::F>{}, x,               \
                                       elementwise::NoParameters{});                         \
    else                                                                                     \
      return elementwise::unary(elementwise::kEntry<pw::F>, x, elementwise::NoParameters{}); \
  }
WT_POINTWISE_UNARY(WT_DEFINE_UNARY, )
WT_POINTWISE_UNARY_PLAIN(WT_DEFINE_UNARY, )

namespace detail {

OpSavings pointwise_savings() {
#define WT_SAVING(M, name, F) elementwise::saving_of_entry<pw::F>(),
  static constexpr OpSaving kSavings[] = {WT_POINTWISE_UNARY(WT_SAVING, )};
#undef WT_SAVING
  return kSavings;
}

OpInfos pointwise_ops() {
  // clang-format off
#define WT_OP(M, name, F) &elementwise::kEntry<pw::F>.info,
  static constexpr const OpInfo* kOps[] = {
      WT_POINTWISE_UNARY(WT_OP, )
      WT_POINTWISE_UNARY_PLAIN(WT_OP, )};
#undef WT_OP
  // clang-format on
  return kOps;
}

}  // namespace detail
}  // namespace wt
