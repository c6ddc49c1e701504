// Behind every elementwise operator: an entry of kernels/pointwise.h without its types, checks,
// promotion, broadcasting, and the backward that follows from the entry's derivatives. Internal to
// autograd/ops/pointwise.cpp, ops/activation.cpp and ops/where.cpp.
#pragma once
#include "warptape/autograd/backward.h"
#include "warptape/autograd/op_saving.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/internal/bit_gate.h"
#include "warptape/autograd/ops/internal/inverses.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/numbers/scalar_as.h"
#include "warptape/kernels/pointwise.h"

namespace wt::elementwise {

// --- an entry without its types: one code for the many, and a constant for the hot ones ---

using LaunchFn = void (*)(const View& out, const View* in, const Scalar& v, const void* f,
                          const Launch& l);
struct Entry {
  OpInfo info;
  pw::Domain domain;
  bool predicate;
  bool compares;  // a number beside a tensor is first rounded to the tensor's dtype
  bool wraps;     // modulo 2^bits of integers, so that bits of a number beyond them mean nothing
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

template <class F, class... Of>
constexpr bool kIsOneOf = (std::is_same_v<F, Of> || ...);
// What says how two values compare, or gives one of them.
template <class F>
constexpr bool kCompares = kIsOneOf<F, pw::Eq, pw::Ne, pw::Lt, pw::Le, pw::Gt, pw::Ge, pw::Maximum,
                                    pw::Minimum, pw::ClampMin, pw::ClampMax>;
template <class F>
constexpr bool kWraps =
    kIsOneOf<F, pw::Add, pw::Sub, pw::Mul, pw::BitwiseAnd, pw::BitwiseOr, pw::BitwiseXor>;

template <class F>
constexpr Entry entry_of() {
  Entry e{{.name = ContractTable<PointwiseArgs<F>>::kName,
           .autocast = F::kAutocast,
           .derivative = F::kDerivative,
           .sign_of_output = F::kSignOfOutput},
          F::kDomain,
          F::kPredicate,
          kCompares<F>,
          kWraps<F>,
          {F::kNeeds0, F::kNeeds1},
          launch_entry<F>,
          nullptr,
          nullptr,
          nullptr};
  if constexpr (requires { F::kAtOut; } || F::kPredicate || F::kArity > 2 ||
                F::kDerivative == Derivative::none) {
    // a fused backward, no derivative, or one that is written by hand
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

// --- operands ---

// A number beside a tensor changes the dtype only when its category is higher. What is for storage
// only stays what it is, for check_domain() to refuse.
inline DType dtype_with_number(DType t, Scalar v) {
  if (v.category() <= promotion_category(t) || !computes(t)) return t;
  return v.kind == Scalar::Kind::floating ? mode.default_dtype : DType::i64;
}

inline void convert(const In& x, DType t) {
  if (dtype_of(x.impl()) == t) return;
  const FrameScope frame(x.frame());
  x.replace(to_dtype(Tensor(detail::retained(x.impl())), t));
}
inline void convert_integers(const In& x) {
  if (!x.impl()) return;
  const DType t = dtype_of(x.impl());
  if (!is_floating(t) && computes(t)) [[unlikely]]
    convert(x, mode.default_dtype);
}

WT_COLD std::string refusal(pw::Domain domain, DType t);
WT_HOT void check_domain(const OpScope& s, const Entry& e) {
  const int last = pw::has_bool(e.domain) ? int(DType::boolean) : int(DType::u8);
  const int first = pw::has_floats(e.domain) ? 0 : int(DType::i64);
  const DType t = s.dtype(s.size() - 1);
  if (unsigned(int(t) - first) > unsigned(last - first)) [[unlikely]]
    s.fail<DtypeError>(refusal(e.domain, t),
                       first ? ".to(dtype) with one of i64 i32 u8"
                             : ".to(dtype) with one of f64 f32 f16 bf16 i64 i32 u8");
}

// Scopes are not passed to what is not inlined: they live in registers.
WT_COLD bool broadcast(const Geometry& a, const Geometry& b, Shape& shape);
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

// --- gradients ---

constexpr int kMaxFused = 4;  // gy, a, b and the output

// A fused backward. `operands` in the kernel's order, gy first; null: the number v.
Tensor fused(const Entry& e, const void* f, const In* const* operands, int n, Scalar v = {});

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
Tensor fused_pair(const Entry& e, const void* f, const In& gy, const In& saved);

template <class F>
constexpr bool kParametric = !std::is_empty_v<F>;

template <class F>
void unary_backward(Backward& g) {
  constexpr bool kIn = (F::kNeeds0 & kNeedsA) != 0, kOut = (F::kNeeds0 & kNeedsOut) != 0;
  if constexpr (F::kSignOfOutput)
    if (const SignBits* sign = g.sign_bits(0)) [[unlikely]] {
      detail::BitGate gate;
      if constexpr (kParametric<F>) gate = {true, g.attribute<F>().slope};
      return g.put(0, detail::bit_gate(kEntry<pw::Grad0<F>>.info, g.take_grad(), *sign, gate));
    }
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
    // In f32 as kernels do it: 16 bits may hold neither the number nor what is chosen from it. What
    // f32 cannot hold is infinite, as it was for the kernel, which full() would refuse.
    const DType t = gy.dtype(), wide = is_half(t) ? DType::f32 : t;
    const auto widened = [&](const Tensor& s) { return s.defined() ? to_dtype(s, wide) : s; };
    const Tensor number =
        full({}, detail::rounded_to(wide, v), {.dtype = wide, .device = gy.device()});
    const Tensor in = widened(x), out = widened(y);
    Tensor gx = chain<F, I>(widened(gy), I == 0 ? in : number, I == 0 ? number : in, out);
    g.put(0, to_dtype(std::move(gx), t));
  } else {
    g.put(0, fused_binary<F, I>(std::move(gy), I == 0 ? &x : nullptr, I == 0 ? nullptr : &x, y, v));
  }
}

// --- operators ---

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

template <class F>
Tensor unary_again(Node& n, const Tensor& x, const Tensor*) {
  if constexpr (kParametric<F>)
    return unary(kEntry<F>, x, n.attribute<F>());
  else
    return unary(kEntry<F>, x, NoParameters{});
}

// What F, or its form in place, offers the save policies. A leaky relu of a NaN has its slope.
template <class F>
constexpr OpSaving saving_of_entry(const OpInfo& info = kEntry<F>.info) {
  return {.op = &info,
          .again = unary_again<F>,
          .inverse = find_inverse<F>(),
          .operand_slot = F::kNeeds0 & kNeedsA ? 0 : -1,
          .nan_is_above = !kParametric<F>};
}

// tensor op number, number op tensor
Tensor with_number(const Entry& e, const Operand& a, const Operand& b);
// A 0-d tensor that the other operand's dtype may not hold, computed in a wider one. Undefined:
// there is none.
WT_COLD Tensor with_wide_number(const Entry& e, const Operand& a, const Operand& b);

template <class L>
WT_HOT Tensor binary_inline(const Entry& e, L launch, const Operand& a, const Operand& b) {
  const TensorImpl *p = a.impl(), *q = b.impl();  // null: a number too
  if (!p || !q || p->key != q->key) [[unlikely]] {
    if (a.is_scalar() || b.is_scalar()) return with_number(e, a, b);
    if (Tensor y = with_wide_number(e, a, b); y.defined()) return y;
  }
  if (e.domain == pw::Domain::floating && a.impl() && b.impl() &&
      !is_floating(dtype_of(a.impl())) && !is_floating(dtype_of(b.impl())) &&
      promotes(dtype_of(a.impl()), dtype_of(b.impl()))) {
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
Tensor binary(const Entry& e, const Operand& a, const Operand& b);

// What an operator in place and its functional form share: op(x, ...) writes x's own storage.
struct InPlace {
  OpInfo info;
  const Entry* entry;
};
template <class F>
constexpr InPlace in_place_of(const char* name) {
  InPlace r{kEntry<F>.info, &kEntry<F>};
  r.info.name = name;
  r.info.autocast = Autocast::none;  // the dtype is that of the storage
  r.info.in_place = true;
  return r;
}
// x is defined. Where the derivative needs the input, the node keeps a copy of it.
void write_in_place(const InPlace& op, Tensor& x, const void* parameters,
                    void (*set_attribute)(const OpScope&, const void*), Frame at);
template <class P>
void write_in_place(const InPlace& op, Tensor& x, const P& parameters, Frame at) {
  const auto set = [](const OpScope& s, const void* p) {
    s.set_attribute(*static_cast<const P*>(p));
  };
  if constexpr (kParametric<P>)
    write_in_place(op, x, &parameters, set, at);
  else
    write_in_place(op, x, nullptr, nullptr, at);
}

}  // namespace wt::elementwise
