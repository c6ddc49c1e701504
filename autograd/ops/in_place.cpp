// The members of Tensor that write: copies, constants, arithmetic. Activations in place are in
// ops/activation.cpp, writing by index in ops/index_put.cpp.
#include "warptape/autograd/ops/internal/in_place.h"

#include "warptape/autograd/autocast.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/internal/number_operand.h"
#include "warptape/autograd/ops/internal/pointwise_call.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/core/numbers/scalar_as.h"
#include "warptape/kernels/copy.h"

namespace wt {
namespace info {
constexpr OpInfo copy_{.name = "copy_", .derivative = Derivative::linear, .in_place = true};
constexpr OpInfo fill_{.name = "fill_", .derivative = Derivative::linear, .in_place = true};
constexpr OpInfo add_{.name = "add_", .derivative = Derivative::linear, .in_place = true};
constexpr OpInfo sub_{.name = "sub_", .derivative = Derivative::linear, .in_place = true};
constexpr OpInfo mul_{.name = "mul_", .in_place = true};
constexpr OpInfo div_{.name = "div_", .in_place = true};
constexpr OpInfo lerp_{.name = "lerp_", .in_place = true};
}  // namespace info

namespace {

// What is overwritten has no gradient, what was written has all of it.
void write_backward(Backward& g) {
  if (g.wants(1)) g.put(1, sum_to(g.grad(), g.input_shape(1)));
}
void fill_backward(Backward&) {}

// x op= other must not change x's dtype or shape.
void check_fits(const OpScope& s, DType t) {
  if (promotion_category(t) > promotion_category(s.dtype()))
    s.fail<DtypeError>(
        str("the result would be ", dtype_name(t), ", the tensor is ", dtype_name(s.dtype())));
}
void check_dtype(const OpScope& s, const elementwise::Entry& e) {
  elementwise::check_domain(s, e);
  if (e.domain == pw::Domain::floating && !is_floating(s.dtype()))
    s.fail<DtypeError>(str("the result would be floating, the tensor is ", dtype_name(s.dtype())));
}

// `other` as it is read: apart from x where the write would change it too early, or, while
// recording, where backward will read it.
Tensor readable(const Tensor& x, const Tensor& other, bool saved, Frame at) {
  const bool records = mode.grad && (x.requires_grad() || other.requires_grad());
  if (saved && records && x.impl()->storage == other.impl()->storage) return other.clone(at);
  return detail::readable_beside(x, other, at);
}

// By a 0-d tensor that x's 16 bits may not hold: as the operator that makes a new tensor does it.
bool written_wide(const OpInfo& op, const elementwise::Entry& e, Tensor x, const Tensor& other,
                  Frame at) {
  const Operand self(x, at.file, at.line), from(other, at.file, at.line);
  if (x.dtype() == other.dtype() || x.ndim() == 0 || other.ndim() > 0 || !is_half(x.dtype()))
    return false;
  const FrameScope frame(at);
  const AutocastScope off(x.dtype(), false);
  const Tensor y = elementwise::with_wide_number(e, self, from);
  if (y.defined()) detail::assign(op, x, y, at);
  return y.defined();
}

template <class F>
void with_tensor(const OpInfo& op, const Tensor& x, const Tensor& other, Frame at) {
  constexpr const elementwise::Entry& e = elementwise::kEntry<F>;
  constexpr int kSaved = F::kNeeds0 | F::kNeeds1;
  if (mode.recomputation && detail::leaves_alone(x.impl())) return;
  if (written_wide(op, e, x, other, at)) return;
  const In self(x, at.file, at.line);
  const Tensor source = readable(x, other, kSaved & kNeedsB, at);
  const In from(source, at.file, at.line);
  const In* const both[] = {&self, &from};
  if (source.dtype() != x.dtype()) promoted_dtype(op, both, 2);  // refuses what does not
  if (promotion_category(source.dtype()) <= promotion_category(x.dtype()))
    elementwise::convert(from, x.dtype());
  OpScope s(op, self, from, Types::any);
  check_fits(s, s.dtype(1));
  check_dtype(s, e);
  if (elementwise::common_shape(s, s.geometry(0), s.geometry(1)) != x.shape())
    s.fail<ShapeError>(
        str("shape ", shape_of(s.geometry(1)), " does not broadcast to ", x.shape()));
  detail::check_writable(s);
  s.begin_in_place();
  const bool old = kSaved & kNeedsA && s.wants(1);  // x, before it is written
  if (kSaved & kNeedsA) s.save_input_if(old, 0);
  if (kSaved & kNeedsB) s.save_input_if(s.wants(0) || s.wants(1), 1);
  if (kSaved & kNeedsOut) s.save_output();
  s.record(e.backward);
  if (old) {
    const NoGrad no_grad;
    s.keep_copy(0, clone(x));
  }
  const View in[] = {s.view(0), s.view(1)};
  e.launch(s.view(0), in, {}, nullptr, s.launch());
  s.finish_in_place();
}

template <class F>
void with_number(const OpInfo& op, const Tensor& x, Scalar v, Frame at) {
  constexpr const elementwise::Entry& e = elementwise::kEntry<F>;
  static_assert((F::kNeeds0 & ~kNeedsB) == 0, "the gradient reads the number alone");
  if (mode.recomputation && detail::leaves_alone(x.impl())) return;
  const In self(x, at.file, at.line);
  OpScope s(op, self);
  check_fits(s, elementwise::dtype_with_number(s.dtype(), v));
  check_dtype(s, e);
  detail::check_writable(s);
  s.begin_in_place();
  s.record(elementwise::number_backward<F, 1>);
  s.set_attribute(v);
  const View in[] = {s.view(0), {}};
  e.launch(s.view(0), in, v, nullptr, s.launch());
  s.finish_in_place();
}

Tensor scaled(const Tensor& x, Scalar alpha, Frame at) {
  if (alpha.f == 1) return x;
  const FrameScope frame(at);
  return mul(x, alpha);
}

}  // namespace

void detail::assign(const OpInfo& op, Tensor& x, const Tensor& y, Frame at) {
  const In self(x, at.file, at.line), from(y, at.file, at.line);
  OpScope s(op, self, from);
  check_writable(s);
  s.begin_in_place();
  s.record(write_backward);
  run(CopyArgs{s.view(0), s.view(1)}, s.launch());
  s.finish_in_place();
}

// --- copies and constants ---

Tensor& Tensor::copy_(const Tensor& source, Frame at) & {
  checked(at);
  if (mode.recomputation && detail::leaves_alone(p_)) return *this;
  const In self(*this, at.file, at.line);
  const Tensor converted =
      detail::readable_beside(*this, source.to(dtype(), at).to(device(), at), at);
  const In from(converted, at.file, at.line);
  OpScope s(info::copy_, self, from);
  if (broadcast_operands(s, shape(), converted.shape()) != shape())
    throw ShapeError(str("[copy_] shape ", converted.shape(), " does not broadcast to ", shape(),
                         "\n  at ", describe(at)));
  detail::check_writable(s);
  s.begin_in_place();
  s.record(write_backward);
  run(CopyArgs{s.view(0), s.view(1)}, s.launch());
  s.finish_in_place();
  return *this;
}

Tensor& Tensor::fill_(Scalar value, Frame at) & {
  if (mode.recomputation && detail::leaves_alone(checked(at))) return *this;
  const In self(*this, at.file, at.line);
  OpScope s(info::fill_, self);
  detail::check_holds(s, value);
  s.begin_in_place();
  s.record(fill_backward);
  const DType t = s.dtype();
  run(FillArgs{s.view(0), detail::rounded_to(t, value), detail::whole_of(t, value)}, s.launch());
  s.finish_in_place();
  return *this;
}

Tensor& Tensor::zero_(Frame at) & { return fill_(0, at); }

// --- arithmetic ---

Tensor& Tensor::add_(const Tensor& other, AddOptions options, Frame at) & {
  checked(at), other.checked(at);
  with_tensor<pw::Add>(info::add_, *this, scaled(other, options.alpha, at), at);
  return *this;
}
Tensor& Tensor::sub_(const Tensor& other, AddOptions options, Frame at) & {
  checked(at), other.checked(at);
  with_tensor<pw::Sub>(info::sub_, *this, scaled(other, options.alpha, at), at);
  return *this;
}
Tensor& Tensor::mul_(const Tensor& other, Frame at) & {
  checked(at), other.checked(at);
  with_tensor<pw::Mul>(info::mul_, *this, other, at);
  return *this;
}
Tensor& Tensor::div_(const Tensor& other, Frame at) & {
  checked(at), other.checked(at);
  with_tensor<pw::Div>(info::div_, *this, other, at);
  return *this;
}
#define WT_WITH_NUMBER(name, F)                        \
  Tensor& Tensor::name(Scalar number, Frame at)& {     \
    checked(at);                                       \
    with_number<pw::F>(info::name, *this, number, at); \
    return *this;                                      \
  }
WT_WITH_NUMBER(add_, Add)
WT_WITH_NUMBER(sub_, Sub)
WT_WITH_NUMBER(mul_, Mul)
WT_WITH_NUMBER(div_, Div)
#undef WT_WITH_NUMBER

namespace {

void lerp_in_place(Tensor& x, const Tensor& end, const Operand& weight, Frame at) {
  if (mode.recomputation && detail::leaves_alone(x.impl())) return;
  const FrameScope frame(at);
  // The weight's gradient reads x as it was.
  const bool reads_x = mode.grad && !weight.is_scalar() && weight.impl()->node;
  const Tensor old = reads_x ? x.clone(at) : x;
  const In self(old, at.file, at.line), end_in(end, at.file, at.line);
  const Tensor y = lerp(self, end_in, weight);
  if (y.shape() != x.shape())
    throw ShapeError(str("[lerp_] the result would be ", y.shape(), ", the tensor is ", describe(x),
                         "\n  at ", describe(at)));
  detail::assign(info::lerp_, x, y, at);
}

}  // namespace

Tensor& Tensor::lerp_(const Tensor& end, const Tensor& weight, Frame at) & {
  checked(at), end.checked(at), weight.checked(at);
  lerp_in_place(*this, end, Operand(weight, at.file, at.line), at);
  return *this;
}
Tensor& Tensor::lerp_(const Tensor& end, Scalar weight, Frame at) & {
  checked(at), end.checked(at);
  lerp_in_place(*this, end, Operand(weight, at.file, at.line), at);
  return *this;
}

// --- of temporaries ---

#define WT_OF_TEMPORARY(name, parameters, ...) \
  Written Tensor::name parameters&& {          \
    name(__VA_ARGS__);                         \
    return Written(std::move(*this));          \
  }
WT_OF_TEMPORARY(copy_, (const Tensor& source, Frame at), source, at)
WT_OF_TEMPORARY(fill_, (Scalar value, Frame at), value, at)
WT_OF_TEMPORARY(zero_, (Frame at), at)
WT_OF_TEMPORARY(add_, (const Tensor& other, AddOptions options, Frame at), other, options, at)
WT_OF_TEMPORARY(add_, (Scalar number, Frame at), number, at)
WT_OF_TEMPORARY(sub_, (const Tensor& other, AddOptions options, Frame at), other, options, at)
WT_OF_TEMPORARY(sub_, (Scalar number, Frame at), number, at)
WT_OF_TEMPORARY(mul_, (const Tensor& other, Frame at), other, at)
WT_OF_TEMPORARY(mul_, (Scalar number, Frame at), number, at)
WT_OF_TEMPORARY(div_, (const Tensor& other, Frame at), other, at)
WT_OF_TEMPORARY(div_, (Scalar number, Frame at), number, at)
WT_OF_TEMPORARY(lerp_, (const Tensor& end, const Tensor& weight, Frame at), end, weight, at)
WT_OF_TEMPORARY(lerp_, (const Tensor& end, Scalar weight, Frame at), end, weight, at)
#undef WT_OF_TEMPORARY

// --- x += y ---

#define WT_ASSIGNS(op, name)                                 \
  Tensor& operator op(Tensor& a, const Operand& b) {         \
    if (b.is_scalar()) return a.name(b.scalar(), b.frame()); \
    if (!b.impl()) detail::use_of_undefined(b.frame());      \
    const Tensor other(detail::retained(b.impl()));          \
    return a.name(other, WT_OPTIONS b.frame());              \
  }
#define WT_OPTIONS {},
WT_ASSIGNS(+=, add_)
WT_ASSIGNS(-=, sub_)
#undef WT_OPTIONS
#define WT_OPTIONS
WT_ASSIGNS(*=, mul_)
WT_ASSIGNS(/=, div_)
#undef WT_OPTIONS
#undef WT_ASSIGNS

Tensor& detail::kept(Tensor& a, const Operand& b) {
  const TensorImpl* p = a.impl();
  // A view shares its storage; what from_blob() lies over is the caller's.
  if (p && p->refs.sole() && p->storage->refs.sole() && !p->storage->borrowed)
    throw UsageError(str("[in place] writes into a copy that nobody keeps\n  operand 0: ",
                         wt::describe(a), "\n  at ", describe(b.frame()),
                         "\n  Try x.index_put_({...}, value, {.accumulate = true})"));
  return a;
}

namespace detail {
OpInfos in_place_ops() {
  static constexpr const OpInfo* kOps[] = {&info::copy_, &info::fill_, &info::add_, &info::sub_,
                                           &info::mul_,  &info::div_,  &info::lerp_};
  return kOps;
}
}  // namespace detail

}  // namespace wt
