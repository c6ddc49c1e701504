// Elementwise operators: checks, promotion, broadcasting, and the backward that follows from the
// entry's derivatives. The maths and the list are in kernels/pointwise.h.
#include "warptape/kernels/pointwise.h"

#include "warptape/autograd/engine.h"
#include "warptape/autograd/in_place.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops_matmul.h"
#include "warptape/autograd/ops_pointwise.h"
#include "warptape/autograd/ops_reduce.h"
#include "warptape/autograd/ops_shape.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/copy.h"

namespace wt {
namespace {

// --- an entry without its types: one code for the many, and a constant for the hot ones ----------

using LaunchFn = void (*)(const View& out, const View* in, const Scalar& v, const void* f,
                          const Launch& l);
struct Entry {
  OpInfo info;
  pw::Domain domain;
  bool predicate;
  int needs[2];
  LaunchFn launch;
  BackwardFn backward;
  BackwardFn number_first, number_second;  // of two-operand entries beside a number
};

template <class F>
void launch_entry(const View& out, const View* in, const Scalar& v, const void* f,
                  const Launch& l) {
  PointwiseArgs<F> k{out, {}, v.f, v.i};
  for (int n = 0; n < F::kArity; ++n) k.in[n] = in[n];
  if constexpr (sizeof(F) > 1) k.f = *static_cast<const F*>(f);
  run(k, l);
}

template <class F>
void unary_backward(Backward& g);
template <class F>
void binary_backward(Backward& g);
template <class F, int kNumber>
void number_backward(Backward& g);

template <class F>
constexpr Entry entry_of() {
  Entry e{{.name = ContractTable<PointwiseArgs<F>>::kName,
           .autocast = F::kAutocast,
           .derivative = F::kDerivative,
           .sign_of_output = requires {F::kSignOfOutput;
}
}  // namespace
, F::kDomain, F::kPredicate, {F::kNeeds0, F::kNeeds1}, launch_entry<F>, nullptr, nullptr, nullptr
};  // namespace wt
if constexpr (requires { F::kAtOut; } || F::kPredicate || F::kSelects) {
  // a fused backward, or no derivative
} else if constexpr (F::kArity == 1) {
  e.backward = unary_backward<F>;
} else {
  e.backward = binary_backward<F>;
  e.number_first = number_backward<F, 0>;
  e.number_second = number_backward<F, 1>;
}
return e;
}
template <class F>
inline constexpr Entry kEntry = entry_of<F>();

// --- operands ------------------------------------------------------------------------------------

// A number beside a tensor changes the dtype only when its category is higher.
DType dtype_with_number(DType t, Scalar v) {
  if (v.category() <= promotion_category(t)) return t;
  return v.kind == Scalar::Kind::floating ? mode.default_dtype : DType::i64;
}

void convert(const In& x, DType t) {
  if (dtype_of(x.impl()) == t) return;
  const FrameScope frame(x.frame());
  x.replace(to_dtype(Tensor(detail::retained(x.impl())), t));
}
void convert_integers(const In& x) {
  if (!x.impl()) return;
  const DType t = dtype_of(x.impl());
  if (!is_floating(t) && computes(t)) [[unlikely]]
    convert(x, mode.default_dtype);
}

WT_COLD std::string refusal(DType t) {
  return computes(t) ? "bool operands have no such operation"
                     : str(dtype_name(t), " is for storage only");
}
WT_HOT void check_domain(const OpScope& s, const Entry& e) {
  const int last = e.domain == pw::Domain::any ? int(DType::boolean) : int(DType::u8);
  const DType t = s.dtype(s.size() - 1);
  if (int(t) > last) [[unlikely]]
    s.fail<DtypeError>(refusal(t), ".to(dtype) with one of f64 f32 f16 bf16 i64 i32 u8");
}

// Scopes are not passed to what is not inlined: they live in registers.
WT_COLD bool broadcast(const Geometry& a, const Geometry& b, Shape& shape) {
  try {
    shape = broadcast_shapes("", shape_of(a), shape_of(b));
    return true;
  } catch (const ShapeError&) {
    return false;
  }
}
WT_HOT Shape common_shape(const OpScope& s, const Geometry& a, const Geometry& b) {
  Shape shape;
  if (!broadcast(a, b, shape))
    s.fail<ShapeError>(str("shapes ", shape_of(a), " and ", shape_of(b), " do not broadcast"));
  return shape;
}

WT_HOT Result broadcast_result(const OpScope& s, bool predicate) {
  const Geometry &a = s.geometry(0), &b = s.geometry(1);
  if (same_shape(a, b)) [[likely]]
    return predicate ? s.result_in_order(0, DType::boolean) : s.result_in_order();
  const Shape shape = common_shape(s, a, b);
  const DType t = predicate ? DType::boolean : s.dtype();
  for (int i = 0; i < 2; ++i)
    if (shape_of(s.geometry(i)) == shape)
      return predicate ? s.result_in_order(i, t) : s.result_in_order(i);
  return s.result(shape, t);
}

// --- gradients -----------------------------------------------------------------------------------

constexpr int kMaxFused = 4;  // gy, a, b and the output

// A fused backward. `operands` in the kernel's order, gy first; null: the number v.
Tensor fused(const Entry& e, const void* f, const In* const* operands, int n, Scalar v = {}) {
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

// How an operator without a number reaches its kernel: through the entry's pointer, or inlined.
// Inlined, the views go into the kernel's arguments one word at a time and nowhere else: copying a
// View that was just written reads its two words as one, which waits for the stores (5 ns).
struct LaunchEntry {
  const Entry& e;
  const void* f;
  template <class... V>
  WT_HOT void operator()(const Launch& l, View out, V... in) const {
    const View list[] = {in...};
    e.launch(out, list, Scalar(), f, l);
  }
};
template <class F>
struct LaunchInlined {
  static_assert(sizeof(F) == 1, "no parameters");
  template <class... V>
  WT_HOT void operator()(const Launch& l, View out, V... in) const {
    run(PointwiseArgs<F>{out, {in...}}, l);
  }
};

// Most have two operands.
template <class L>
WT_HOT Tensor fused_pair_inline(const Entry& e, L launch, const In& gy, const In& saved) {
  OpScope s(e.info, gy, saved);
  Result gx = s.result_in_order();
  launch(s.launch(), gx.view(), s.view(0), s.view(1));
  return s.finish(std::move(gx));
}
__attribute__((noinline)) Tensor fused_pair(const Entry& e, const void* f, const In& gy,
                                            const In& saved) {
  return fused_pair_inline(e, LaunchEntry{e, f}, gy, saved);
}

template <class F>
constexpr bool kParametric = !std::is_empty_v<F>;

template <class F>
void unary_backward(Backward& g) {
  constexpr bool kIn = (F::kNeeds0 & kNeedsA) != 0, kOut = (F::kNeeds0 & kNeedsOut) != 0;
  const Tensor none;
  const Tensor& x = kIn ? g.saved(0) : none;
  const Tensor& y = kOut ? g.saved(kIn) : none;
  if (!F::kFused || g.recording()) {
    if constexpr (kParametric<F>)
      return g.put(0, g.attribute<F>().d0(g.take_grad(), x, y));
    else
      return g.put(0, F::d0(g.take_grad(), x, y));
  }
  if constexpr (F::kFused) {
    constexpr const Entry& e = kEntry<pw::Grad0<F>>;
    const Tensor& saved = kIn ? x : y;
    static_assert(kIn != kOut, "one of them is enough");
    if constexpr (F::kHot)
      g.put(0, fused_pair_inline(e, LaunchInlined<pw::Grad0<F>>{}, g.take_grad(), saved));
    else if constexpr (kParametric<F>)
      g.put(0, fused_pair(e, &g.attribute<F>(), g.take_grad(), saved));
    else
      g.put(0, fused_pair(e, nullptr, g.take_grad(), saved));
  }
}

// Derivative I of a two-operand entry. An undefined tensor stands for what it does not need.
template <class F, int I>
Tensor chain(Tensor gy, const auto& a, const auto& b, const Tensor& y) {
  if constexpr (I == 0)
    return F::d0(std::move(gy), a, b, y);
  else
    return F::d1(std::move(gy), a, b, y);
}
template <class F, int I>
Tensor fused_binary(Tensor gy, const Tensor* a, const Tensor* b, const Tensor& y, Scalar v) {
  constexpr int kNeeds = I == 0 ? F::kNeeds0 : F::kNeeds1;
  const Tensor none;
  const In g_in(std::move(gy)), a_in(a ? *a : none), b_in(b ? *b : none), y_in(y);
  const In* operands[4] = {&g_in};
  int n = 1;
  if (kNeeds & kNeedsA) operands[n++] = a ? &a_in : nullptr;
  if (kNeeds & kNeedsB) operands[n++] = b ? &b_in : nullptr;
  if (kNeeds & kNeedsOut) operands[n++] = &y_in;
  return fused(kEntry<pw::Grad<F, I>>, nullptr, operands, n, v);
}

template <class F, int I>
WT_HOT Tensor binary_derivative(Backward& g, Tensor gy) {
  constexpr int kNeeds = I == 0 ? F::kNeeds0 : F::kNeeds1, kSaved = F::kNeeds0 | F::kNeeds1;
  constexpr int kSlotB = (kSaved & kNeedsA) != 0, kSlotOut = kSlotB + ((kSaved & kNeedsB) != 0);
  const Tensor none;
  const Tensor& a = kNeeds & kNeedsA ? g.saved(0) : none;
  const Tensor& b = kNeeds & kNeedsB ? g.saved(kSlotB) : none;
  const Tensor& y = kNeeds & kNeedsOut ? g.saved(kSlotOut) : none;
  if constexpr (F::kFused)
    if (!g.recording()) return fused_binary<F, I>(std::move(gy), &a, &b, y, {});
  return chain<F, I>(std::move(gy), a, b, y);
}
template <class F>
void binary_backward(Backward& g) {
  const bool a = g.wants(0), b = g.wants(1);
  if (a) g.put_broadcast(0, binary_derivative<F, 0>(g, b ? Tensor(g.grad()) : g.take_grad()));
  if (b) g.put_broadcast(1, binary_derivative<F, 1>(g, g.take_grad()));
}

// The same where operand kNumber is a number.
template <class F, int kNumber>
void number_backward(Backward& g) {
  constexpr int I = 1 - kNumber, kNeeds = I == 0 ? F::kNeeds0 : F::kNeeds1;
  constexpr bool kIn = (kNeeds & (I == 0 ? kNeedsA : kNeedsB)) != 0;
  const Scalar v = g.attribute<Scalar>();
  const Tensor none;
  const Tensor& x = kIn ? g.saved(0) : none;
  const Tensor& y = kNeeds & kNeedsOut ? g.saved(kIn) : none;
  Tensor gy = g.take_grad();
  if constexpr (!F::kFused) {
    if constexpr (I == 0)
      g.put(0, chain<F, I>(std::move(gy), x, v, y));
    else
      g.put(0, chain<F, I>(std::move(gy), v, x, y));
  } else if (g.recording()) {
    const Tensor number = full({}, v, {.dtype = gy.dtype(), .device = gy.device()});
    g.put(0, chain<F, I>(std::move(gy), I == 0 ? x : number, I == 0 ? number : x, y));
  } else {
    g.put(0, fused_binary<F, I>(std::move(gy), I == 0 ? &x : nullptr, I == 0 ? nullptr : &x, y, v));
  }
}

// --- operators -----------------------------------------------------------------------------------

struct NoParameters {};

template <class L, class P>
WT_HOT Tensor unary_inline(const Entry& e, L launch, const In& x, const P& parameters) {
  if (e.domain == pw::Domain::floating) convert_integers(x);
  OpScope s(e.info, x);
  check_domain(s, e);
  if (e.needs[0] & kNeedsA) s.save_input_if(s.wants(0), 0);
  if (e.needs[0] & kNeedsOut) s.save_output();
  Result y = e.predicate ? s.result_in_order(0, DType::boolean) : s.result_in_order();
  if (e.backward) s.record(e.backward);
  if constexpr (kParametric<P>) s.set_attribute(parameters);
  launch(s.launch(), y.view(), s.view(0));
  return s.finish(std::move(y));
}
template <class P>
__attribute__((noinline)) Tensor unary(const Entry& e, const In& x, const P& parameters) {
  return unary_inline(e, LaunchEntry{e, &parameters}, x, parameters);
}

// tensor op number, number op tensor
Tensor with_number(const Entry& e, const Operand& a, const Operand& b) {
  if (a.is_scalar() && b.is_scalar())
    throw UsageError(str("[", e.info.name, "] at least one operand must be a tensor\n  at ",
                         describe(a.frame())));
  const int i = a.is_scalar() ? 1 : 0;  // which operand the tensor is
  const In& x = i ? b : a;
  const Scalar v = i ? a.scalar() : b.scalar();
  if (x.impl()) {
    convert(x, dtype_with_number(dtype_of(x.impl()), v));
    if (e.domain == pw::Domain::floating) convert_integers(x);
  }
  OpScope s(e.info, x);
  check_domain(s, e);
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

template <class L>
WT_HOT Tensor binary_inline(const Entry& e, L launch, const Operand& a, const Operand& b) {
  if (a.is_scalar() || b.is_scalar()) [[unlikely]]
    return with_number(e, a, b);
  if (e.domain == pw::Domain::floating && a.impl() && b.impl() &&
      !is_floating(dtype_of(a.impl())) && !is_floating(dtype_of(b.impl()))) {
    convert_integers(a);
    convert_integers(b);
  }
  OpScope s(e.info, a, b, Types::promote);
  check_domain(s, e);
  const int saved = e.needs[0] | e.needs[1];
  for (int k = 0; k < 2; ++k) {
    const int bit = k ? kNeedsB : kNeedsA;
    if (saved & bit)
      s.save_input_if((s.wants(0) && e.needs[0] & bit) || (s.wants(1) && e.needs[1] & bit), k);
  }
  if (saved & kNeedsOut) s.save_output();
  Result y = broadcast_result(s, e.predicate);
  if (e.backward) s.record(e.backward);
  launch(s.launch(), y.view(), s.view(0), s.view(1));
  return s.finish(std::move(y));
}
__attribute__((noinline)) Tensor binary(const Entry& e, const Operand& a, const Operand& b) {
  return binary_inline(e, LaunchEntry{e, nullptr}, a, b);
}

// An integer to a negative power is no integer: refused as in PyTorch (among tensors it truncates).
void check_power(const Operand& base, const Operand& exponent) {
  if (base.is_scalar() || !exponent.is_scalar() || !base.impl()) return;
  const Scalar v = exponent.scalar();
  const DType t = dtype_of(base.impl());
  if (v.kind == Scalar::Kind::integer && v.i < 0 && is_integral(t) && computes(t))
    throw UsageError(str(
        "[pow] integers to the negative power ", v.i, ": the base is ", dtype_name(t), "\n  at ",
        describe(mode.frame ? frame_of(mode.frame) : base.frame()), "\n  Try a floating exponent"));
}

}  // namespace

#define WT_DEFINE_UNARY(M, name, F)                                                  \
  Tensor name(const In& x) {                                                         \
    if constexpr (pw::F::kHot)                                                       \
      return unary_inline(kEntry<pw::F>, LaunchInlined<pw::F>{}, x, NoParameters{}); \
    else                                                                             \
      return unary(kEntry<pw::F>, x, NoParameters{});                                \
  }
#define WT_DEFINE_BINARY(M, name, F)                                     \
  Tensor name(const Operand& a, const Operand& b) {                      \
    if constexpr (std::is_same_v<pw::F, pw::Pow>) check_power(a, b);     \
    if constexpr (pw::F::kHot)                                           \
      return binary_inline(kEntry<pw::F>, LaunchInlined<pw::F>{}, a, b); \
    else                                                                 \
      return binary(kEntry<pw::F>, a, b);                                \
  }
WT_POINTWISE_UNARY(WT_DEFINE_UNARY, )
WT_POINTWISE_UNARY_PLAIN(WT_DEFINE_UNARY, )
WT_POINTWISE_BINARY(WT_DEFINE_BINARY, )
WT_POINTWISE_BINARY_PLAIN(WT_DEFINE_BINARY, )

Tensor clamp(const In& x, Scalar lo, Scalar hi) {
  if (x.impl()) {
    convert(x, dtype_with_number(dtype_with_number(dtype_of(x.impl()), lo), hi));
  }
  return unary(kEntry<pw::Clamp>, x, pw::Clamp{{}, lo.f, hi.f, lo.i, hi.i});
}

// --- where ---------------------------------------------------------------------------------------

namespace {

// Which branches are tensors: edges 1 and up.
struct Branches {
  bool a, b;
};
void where_backward(Backward& g) {
  const Branches has = g.attribute<Branches>();
  const Tensor& c = g.saved(0);
  u32 edge = 1;
  if (has.a) {
    if (g.wants(edge)) g.put_broadcast(edge, where(c, g.grad(), 0));
    ++edge;
  }
  if (has.b && g.wants(edge)) g.put_broadcast(edge, where(c, 0, g.take_grad()));
}

Tensor where_tensors(const In& c, const Operand& a, const Operand& b) {
  const Entry& e = kEntry<pw::Where>;
  const Branches has{!a.is_scalar(), !b.is_scalar()};
  const In* in[3] = {&c};
  int n = 1;
  if (has.a) in[n++] = &a;
  if (has.b) in[n++] = &b;
  bool defined = true;
  for (int i = 1; i < n; ++i) defined &= in[i]->impl() != nullptr;
  if (defined) {
    DType t = promoted_dtype(in + 1, n - 1);
    if (!has.a || !has.b) t = dtype_with_number(t, has.a ? b.scalar() : a.scalar());
    for (int i = 1; i < n; ++i) convert(*in[i], t);
  }
  const In* const* list = in;
  OpScope s(e.info, list, n, Types::any);
  if (s.dtype(0) != DType::boolean)
    s.fail<DtypeError>(str("the condition must be bool, got ", dtype_name(s.dtype(0))),
                       "ne(condition, 0)");
  check_domain(s, e);
  Shape shape = common_shape(s, s.geometry(0), s.geometry(1));
  if (n == 3) {
    Geometry g = s.geometry(0);
    set_contiguous(g, shape.data(), shape.ndim(), DType::boolean);
    shape = common_shape(s, g, s.geometry(2));
  }
  s.save_input_if(s.recording(), 0);
  Result y = s.result(shape, s.dtype(1));
  s.record(where_backward);
  s.set_attribute(has);
  const View views[] = {s.view(0), has.a ? s.view(1) : View{}, has.b ? s.view(n - 1) : View{}};
  e.launch(y.view(), views, has.a ? b.scalar() : a.scalar(), nullptr, s.launch());
  return s.finish(std::move(y));
}

}  // namespace

Tensor where(const In& c, const Operand& a, const Operand& b) {
  if (!a.is_scalar() || !b.is_scalar() || !c.impl()) return where_tensors(c, a, b);
  // Two numbers: the second as a tensor of the dtype that both have.
  const DType t = dtype_with_number(dtype_with_number(DType::boolean, a.scalar()), b.scalar());
  const FrameScope frame(c.frame());
  return where_tensors(c, a, full({}, b.scalar(), {.dtype = t, .device = device_of(c.impl())}));
}

// --- in place ------------------------------------------------------------------------------------

namespace info {
constexpr OpInfo add_{.name = "add_", .derivative = Derivative::linear, .in_place = true};
constexpr OpInfo mul_{.name = "mul_", .in_place = true};
constexpr OpInfo relu_{
    .name = "relu_", .derivative = Derivative::piecewise, .in_place = true, .sign_of_output = true};
}  // namespace info

namespace {

// x op= other must not change x's dtype or shape.
void check_fits(const OpScope& s, DType t) {
  if (promotion_category(t) > promotion_category(s.dtype()))
    s.fail<DtypeError>(
        str("the result would be ", dtype_name(t), ", the tensor is ", dtype_name(s.dtype())));
}

}  // namespace

Tensor& Tensor::add_(const Tensor& other, Frame at) & {
  checked();
  other.checked();
  if (mode.recomputation && detail::leaves_alone(p_)) return *this;
  const In self(*this, at.file, at.line);
  const Tensor source = detail::readable_beside(*this, other, at);
  const In from(source, at.file, at.line);
  if (promotion_category(source.dtype()) <= promotion_category(dtype())) convert(from, dtype());
  OpScope s(info::add_, self, from, Types::any);
  check_fits(s, s.dtype(1));
  check_domain(s, kEntry<pw::Add>);
  if (common_shape(s, s.geometry(0), s.geometry(1)) != shape())
    s.fail<ShapeError>(str("shape ", shape_of(s.geometry(1)), " does not broadcast to ", shape()));
  detail::check_writable(s);
  s.begin_in_place();
  s.record(binary_backward<pw::Add>);
  const View in[] = {s.view(0), s.view(1)};
  kEntry<pw::Add>.launch(s.view(0), in, {}, nullptr, s.launch());
  s.finish_in_place();
  return *this;
}

Tensor& Tensor::mul_(Scalar factor, Frame at) & {
  checked();
  if (mode.recomputation && detail::leaves_alone(p_)) return *this;
  const In self(*this, at.file, at.line);
  OpScope s(info::mul_, self);
  check_fits(s, dtype_with_number(s.dtype(), factor));
  check_domain(s, kEntry<pw::Mul>);
  detail::check_writable(s);
  s.begin_in_place();
  s.record(number_backward<pw::Mul, 1>);
  s.set_attribute(factor);
  const View in[] = {s.view(0), {}};
  kEntry<pw::Mul>.launch(s.view(0), in, factor, nullptr, s.launch());
  s.finish_in_place();
  return *this;
}

Tensor& Tensor::relu_(Frame at) & {
  checked();
  if (mode.recomputation && detail::leaves_alone(p_)) return *this;
  const In self(*this, at.file, at.line);
  OpScope s(info::relu_, self);
  check_domain(s, kEntry<pw::Relu>);
  detail::check_writable(s);
  s.begin_in_place();
  s.save_output();
  s.record(unary_backward<pw::Relu>);
  const View in = s.view(0);
  kEntry<pw::Relu>.launch(s.view(0), &in, {}, nullptr, s.launch());
  s.finish_in_place();
  return *this;
}

Tensor Tensor::add_(const Tensor& other, Frame at) && {
  add_(other, at);
  return std::move(*this);
}
Tensor Tensor::mul_(Scalar factor, Frame at) && {
  mul_(factor, at);
  return std::move(*this);
}
Tensor Tensor::relu_(Frame at) && {
  relu_(at);
  return std::move(*this);
}

// --- what the engine needs -----------------------------------------------------------------------
namespace detail {

void add_into(TensorImpl* dst, const TensorImpl* src) {
  run(PointwiseArgs<pw::Add>{view_of(dst), {view_of(dst), view_of(src)}},
      Launch{&kEntry<pw::Add>.info, mode.native_stream, nullptr, device_of(dst)});
  ++dst->cell->version;
}

void copy_into(TensorImpl* dst, const TensorImpl* src) {
  run(CopyArgs{view_of(dst), view_of(src)},
      Launch{&kEntry<pw::Add>.info, mode.native_stream, nullptr, device_of(dst)});
  ++dst->cell->version;
}

void accumulate(TensorImpl*& have, Tensor t) {
  Tensor sum(have);
  have = nullptr;
  have = add(std::move(sum), std::move(t)).release_impl();
}

OpInfos pointwise_ops() {
  // clang-format off
#define WT_OP(M, name, F) &kEntry<pw::F>.info,
  static constexpr const OpInfo* kOps[] = {
      WT_POINTWISE_UNARY(WT_OP, )
      WT_POINTWISE_UNARY_PLAIN(WT_OP, )
      WT_POINTWISE_BINARY(WT_OP, )
      WT_POINTWISE_BINARY_PLAIN(WT_OP, )
      WT_POINTWISE_OTHER(WT_OP, )
      WT_POINTWISE_OTHER_PLAIN(WT_OP, )
      &info::add_, &info::mul_, &info::relu_};
#undef WT_OP
  // clang-format on
  return kOps;
}

}  // namespace detail
}  // namespace wt
