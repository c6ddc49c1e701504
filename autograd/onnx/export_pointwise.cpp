// Elementwise operators.
#include <cmath>
#include <limits>

#include "warptape/autograd/onnx/export.h"
#include "warptape/core/error.h"
#include "warptape/kernels/pointwise.h"

namespace wt::onnx {
namespace {

// --- of one tensor ---

// The operator of ONNX by the name of ours, where it is that and no more.
const std::unordered_map<std::string_view, const char*>& plain() {
  static const std::unordered_map<std::string_view, const char*> all = {
      {"abs", "Abs"},     {"acos", "Acos"},
      {"acosh", "Acosh"}, {"asin", "Asin"},
      {"asinh", "Asinh"}, {"atan", "Atan"},
      {"atanh", "Atanh"}, {"cos", "Cos"},
      {"cosh", "Cosh"},   {"erf", "Erf"},
      {"exp", "Exp"},     {"hardswish", "HardSwish"},
      {"isnan", "IsNaN"}, {"log", "Log"},
      {"neg", "Neg"},     {"reciprocal", "Reciprocal"},
      {"relu", "Relu"},   {"sigmoid", "Sigmoid"},
      {"sign", "Sign"},   {"sin", "Sin"},
      {"sinh", "Sinh"},   {"softsign", "Softsign"},
      {"sqrt", "Sqrt"},   {"tan", "Tan"},
      {"tanh", "Tanh"},   {"isinf", "IsInf"}};
  return all;
}

DType computed_in(const OpExport& e) {
  return is_floating(e.of(0).dtype()) ? e.of(0).dtype() : e.out().dtype();
}

void unary(OpExport& e) {
  const bool predicate = e.kind() == "isnan" || e.kind() == "isinf";
  const DType t = predicate ? e.of(0).dtype() : e.out().dtype();
  if (predicate && !is_floating(t)) e.refuse("of integers");
  e.put(e.w.node(plain().at(e.kind()), {e.in(0, t)}));
}
// Integers are themselves.
void rounding(OpExport& e) {
  const DType t = e.out().dtype();
  if (!is_floating(t)) return e.put(e.w.node("Identity", {e.in(0)}));
  const std::string x = e.in(0, t);
  if (e.kind() == "ceil") return e.put(e.w.node("Ceil", {x}));
  if (e.kind() == "floor") return e.put(e.w.node("Floor", {x}));
  if (e.kind() == "round") return e.put(e.w.node("Round", {x}));
  const std::string size = e.w.node("Floor", {e.w.node("Abs", {x})});
  e.put(e.w.node("Mul", {e.w.node("Sign", {x}), size}));
}
void square(OpExport& e) {
  const std::string x = e.in(0, e.out().dtype());
  e.put(e.w.node("Mul", {x, x}));
}
void rsqrt(OpExport& e) {
  e.put(e.w.node("Reciprocal", {e.w.node("Sqrt", {e.in(0, e.out().dtype())})}));
}
void log1p(OpExport& e) {
  const DType t = computed_in(e);
  e.put(e.w.node("Log", {e.w.node("Add", {e.in(0, t), e.w.number(t, 1.0)})}));
}
void expm1(OpExport& e) {
  const DType t = computed_in(e);
  e.put(e.w.node("Sub", {e.w.node("Exp", {e.in(0, t)}), e.w.number(t, 1.0)}));
}
void other_log(OpExport& e) {
  const DType t = computed_in(e);
  const double by = e.kind() == "log2" ? std::log(2.0) : std::log(10.0);
  e.put(e.w.node("Div", {e.w.node("Log", {e.in(0, t)}), e.w.number(t, by)}));
}
void gelu(OpExport& e) { e.put(write_gelu(e.w, e.in(0, e.out().dtype()), e.out().dtype())); }
template <Activation f>
void activation(OpExport& e) {
  e.put(write_activation(e.w, f, e.in(0, e.out().dtype()), e.out().dtype()));
}
void mish(OpExport& e) {
  const std::string x = e.in(0, e.out().dtype());
  e.put(e.w.node("Mul", {x, e.w.node("Tanh", {e.w.node("Softplus", {x})})}));
}
void hardsigmoid(OpExport& e) {
  e.put(e.w.node("HardSigmoid", {e.in(0, e.out().dtype())},
                 {attribute("alpha", 1.0 / 6), attribute("beta", 0.5)}));
}
void elu(OpExport& e) {
  using Args = PointwiseArgs<pw::Elu>;
  const double alpha = e.args<Args>().f.alpha;
  e.same(alpha == e.twin_args<Args>().f.alpha, "alpha");
  e.put(e.w.node("Elu", {e.in(0, e.out().dtype())}, {attribute("alpha", alpha)}));
}
void leaky_relu(OpExport& e) {
  using Args = PointwiseArgs<pw::LeakyRelu>;
  const double slope = e.args<Args>().f.slope;
  e.same(slope == e.twin_args<Args>().f.slope, "its slope");
  e.put(e.w.node("LeakyRelu", {e.in(0, e.out().dtype())}, {attribute("alpha", slope)}));
}
void softplus(OpExport& e) {
  using Args = PointwiseArgs<pw::Softplus>;
  const pw::Softplus f = e.args<Args>().f;
  e.same(f.beta == e.twin_args<Args>().f.beta, "beta");
  const DType t = e.out().dtype();
  const std::string x = e.in(0, t);
  if (f.beta == 1) return e.put(e.w.node("Softplus", {x}));
  const std::string beta = e.w.number(t, f.beta);
  e.put(e.w.node("Div", {e.w.node("Softplus", {e.w.node("Mul", {x, beta})}), beta}));
}
void clamp(OpExport& e) {
  using Args = PointwiseArgs<pw::Clamp>;
  const pw::Clamp f = e.args<Args>().f, f2 = e.twin_args<Args>().f;
  e.same(same_number(f.lo, f2.lo) && same_number(f.hi, f2.hi) && f.lo_int == f2.lo_int &&
             f.hi_int == f2.hi_int,
         "a bound");
  const DType t = e.out().dtype();
  const bool whole = !is_floating(t);
  const auto bound = [&](double of, i64 of_int, bool low) -> std::string {
    const bool none =
        whole ? of_int == (low ? std::numeric_limits<i64>::min() : std::numeric_limits<i64>::max())
              : of == (low ? -INFINITY : INFINITY);
    if (none) return "";
    return e.w.number(t, whole ? Scalar(of_int) : Scalar(of));
  };
  Texts inputs{e.in(0, t), bound(f.lo, f.lo_int, true), bound(f.hi, f.hi_int, false)};
  while (inputs.back().empty()) inputs.pop_back();
  e.put(e.w.node("Clip", inputs));
}
void nan_to_num(OpExport& e) {
  using Args = PointwiseArgs<pw::NanToNum>;
  const pw::NanToNum f = e.args<Args>().f, f2 = e.twin_args<Args>().f;
  e.same(same_number(f.nan, f2.nan) && same_number(f.posinf, f2.posinf) &&
             same_number(f.neginf, f2.neginf),
         "a number");
  const DType t = e.out().dtype();
  std::string x = e.in(0, t);
  if (!is_floating(t)) return e.put(e.w.node("Identity", {x}));
  x = e.w.node("Where", {e.w.node("IsNaN", {x}), e.w.number(t, f.nan), x});
  const auto infinite = [&](bool above) {
    return e.w.node(
        "IsInf", {x},
        {attribute("detect_negative", i64(!above)), attribute("detect_positive", i64(above))});
  };
  x = e.w.node("Where", {infinite(true), e.w.number(t, f.posinf), x});
  e.put(e.w.node("Where", {infinite(false), e.w.number(t, f.neginf), x}));
}
void isfinite(OpExport& e) {
  if (!is_floating(e.of(0).dtype())) e.refuse("of integers");
  const std::string x = e.in(0);
  e.put(e.w.node("Not", {e.w.node("Or", {e.w.node("IsNaN", {x}), e.w.node("IsInf", {x})})}));
}
void negation(OpExport& e) {
  if (e.kind() == "bitwise_not" && e.of(0).dtype() != DType::boolean) e.refuse("of integers");
  e.put(e.w.node("Not", {e.in(0, DType::boolean)}));
}

// --- of two, either of which may be a number ---

struct Pair {
  std::string a, b;
  DType dtype;  // of both
};

template <class Args>
void same_scalars(OpExport& e, const Args& a, const Args& b) {
  e.same(same_number(a.scalar, b.scalar) && a.scalar_int == b.scalar_int, "a number");
}

template <class F>
Pair pair(OpExport& e) {
  using Args = PointwiseArgs<F>;
  const Args& k = e.args<Args>();
  const std::vector<TracedKernel::Seen>& seen = e.kernel<Args>()->views;
  same_scalars(e, k, e.twin_args<Args>());
  const DType t = (seen[1].there ? seen[1] : seen[2]).geometry.dtype;
  int next = 0;
  Pair p{.a = {}, .b = {}, .dtype = t};
  for (int i = 0; i < 2; ++i) {
    std::string& name = i ? p.b : p.a;
    if (seen[size_t(1 + i)].there)
      name = e.in(next++, t);
    else
      name = e.w.number(t, is_floating(t) ? Scalar(k.scalar) : Scalar(k.scalar_int));
  }
  if (next != e.operands()) e.refuse("its operands are not those of its kernel");
  return p;
}

template <class F>
void binary(OpExport& e, const char* op) {
  const Pair p = pair<F>(e);
  e.put(e.w.node(op, {p.a, p.b}));
}
void add(OpExport& e) {
  if (e.out().dtype() == DType::boolean) e.refuse("of bools");
  binary<pw::Add>(e, "Add");
}
void sub(OpExport& e) { binary<pw::Sub>(e, "Sub"); }
void mul(OpExport& e) { binary<pw::Mul>(e, e.out().dtype() == DType::boolean ? "And" : "Mul"); }
void div(OpExport& e) { binary<pw::Div>(e, "Div"); }
void pow(OpExport& e) { binary<pw::Pow>(e, "Pow"); }
void maximum(OpExport& e) { binary<pw::Maximum>(e, "Max"); }
void minimum(OpExport& e) { binary<pw::Minimum>(e, "Min"); }
void clamp_min(OpExport& e) { binary<pw::ClampMin>(e, "Max"); }
void clamp_max(OpExport& e) { binary<pw::ClampMax>(e, "Min"); }

// Comparisons that order bools do so by their numbers.
template <class F>
void compare(OpExport& e, const char* op, bool not_it = false) {
  Pair p = pair<F>(e);
  if (p.dtype == DType::boolean && std::string_view(op) != "Equal")
    p.a = e.cast(p.a, p.dtype, DType::i32), p.b = e.cast(p.b, p.dtype, DType::i32);
  const std::string y = e.w.node(op, {p.a, p.b});
  e.put(not_it ? e.w.node("Not", {y}) : y);
}
void eq(OpExport& e) { compare<pw::Eq>(e, "Equal"); }
void ne(OpExport& e) { compare<pw::Ne>(e, "Equal", true); }
void lt(OpExport& e) { compare<pw::Lt>(e, "Less"); }
void le(OpExport& e) { compare<pw::Le>(e, "LessOrEqual"); }
void gt(OpExport& e) { compare<pw::Gt>(e, "Greater"); }
void ge(OpExport& e) { compare<pw::Ge>(e, "GreaterOrEqual"); }

template <class F>
void logical(OpExport& e, const char* op, bool of_bools_only = false) {
  const Pair p = pair<F>(e);
  if (of_bools_only && p.dtype != DType::boolean) e.refuse("of integers");
  e.put(e.w.node(op, {e.cast(p.a, p.dtype, DType::boolean), e.cast(p.b, p.dtype, DType::boolean)}));
}
void logical_and(OpExport& e) { logical<pw::LogicalAnd>(e, "And"); }
void logical_or(OpExport& e) { logical<pw::LogicalOr>(e, "Or"); }
void logical_xor(OpExport& e) { logical<pw::LogicalXor>(e, "Xor"); }
void bitwise_and(OpExport& e) { logical<pw::BitwiseAnd>(e, "And", true); }
void bitwise_or(OpExport& e) { logical<pw::BitwiseOr>(e, "Or", true); }
void bitwise_xor(OpExport& e) { logical<pw::BitwiseXor>(e, "Xor", true); }

// Of an infinite larger one what is taken off is 0: inf - inf is no number.
void logaddexp(OpExport& e) {
  const Pair p = pair<pw::LogAddExp>(e);
  const std::string top = e.w.node("Max", {p.a, p.b});
  const std::string off =
      e.w.node("Where", {e.w.node("IsInf", {top}), e.w.number(p.dtype, 0.0), top});
  const auto part = [&](const std::string& x) {
    return e.w.node("Exp", {e.w.node("Sub", {x, off})});
  };
  e.put(e.w.node("Add", {off, e.w.node("Log", {e.w.node("Add", {part(p.a), part(p.b)})})}));
}

// a - floor(a / b) b.
std::string remainder_of(OpExport& e, const Pair& p) {
  if (!is_floating(p.dtype)) return e.w.node("Mod", {p.a, p.b});
  const std::string q = e.w.node("Floor", {e.w.node("Div", {p.a, p.b})});
  return e.w.node("Sub", {p.a, e.w.node("Mul", {q, p.b})});
}
void remainder(OpExport& e) { e.put(remainder_of(e, pair<pw::Remainder>(e))); }
void fmod(OpExport& e) {
  const Pair p = pair<pw::Fmod>(e);
  e.put(e.w.node("Mod", {p.a, p.b}, {attribute("fmod", i64{1})}));
}
void floor_divide(OpExport& e) {
  const Pair p = pair<pw::FloorDivide>(e);
  if (is_floating(p.dtype)) return e.put(e.w.node("Floor", {e.w.node("Div", {p.a, p.b})}));
  e.put(e.w.node("Div", {e.w.node("Sub", {p.a, remainder_of(e, p)}), p.b}));
}
void div_trunc(OpExport& e) {
  const Pair p = pair<pw::DivTrunc>(e);
  const std::string q = e.w.node("Div", {p.a, p.b});
  if (!is_floating(p.dtype)) return e.put(q);
  e.put(e.w.node("Mul", {e.w.node("Sign", {q}), e.w.node("Floor", {e.w.node("Abs", {q})})}));
}

// --- of three ---

void where(OpExport& e) {
  using Args = PointwiseArgs<pw::Where>;
  const Args& k = e.args<Args>();
  const std::vector<TracedKernel::Seen>& seen = e.kernel<Args>()->views;
  same_scalars(e, k, e.twin_args<Args>());
  const DType t = e.out().dtype();
  Texts inputs{e.in(0, DType::boolean)};
  int next = 1;
  for (size_t i = 2; i < 4; ++i)
    inputs.push_back(seen[i].there
                         ? e.in(next++, t)
                         : e.w.number(t, is_floating(t) ? Scalar(k.scalar) : Scalar(k.scalar_int)));
  if (next != e.operands()) e.refuse("its operands are not those of its kernel");
  e.put(e.w.node("Where", inputs));
}
void lerp(OpExport& e) {
  using Args = PointwiseArgs<pw::Lerp>;
  const Args& k = e.args<Args>();
  const DType t = e.out().dtype();
  same_scalars(e, k, e.twin_args<Args>());
  if (!e.kernel<Args>()->views[1].there || !e.kernel<Args>()->views[2].there)
    e.refuse("a number as an end");
  const std::string a = e.in(0, t), b = e.in(1, t);
  const std::string weight = e.operands() > 2 ? e.in(2, t) : e.w.number(t, k.scalar);
  e.put(e.w.node("Add", {a, e.w.node("Mul", {weight, e.w.node("Sub", {b, a})})}));
}

}  // namespace

std::string write_gelu(GraphWriter& w, const std::string& x, DType t) {
  const std::string turned = w.node("Erf", {w.node("Div", {x, w.number(t, std::sqrt(2.0))})});
  const std::string gate = w.node("Add", {turned, w.number(t, 1.0)});
  return w.node("Mul", {w.node("Mul", {x, gate}), w.number(t, 0.5)});
}
std::string write_activation(GraphWriter& w, Activation f, const std::string& x, DType t) {
  switch (f) {
    case Activation::relu:
      return w.node("Relu", {x});
    case Activation::gelu:
      return write_gelu(w, x, t);
    case Activation::silu:
      return w.node("Mul", {x, w.node("Sigmoid", {x})});
    case Activation::relu6:
      return w.node("Clip", {x, w.number(t, 0.0), w.number(t, 6.0)});
    case Activation::hardswish:
      return w.node("HardSwish", {x});
    case Activation::gelu_tanh: {
      const std::string cube = w.node("Mul", {w.node("Mul", {x, x}), x});
      const std::string inner =
          w.node("Add", {x, w.node("Mul", {cube, w.number(t, pw::GeluTanh::kCubic)})});
      const std::string scaled =
          w.node("Mul", {inner, w.number(t, std::sqrt(2 / 3.14159265358979323846))});
      const std::string gate = w.node("Add", {w.node("Tanh", {scaled}), w.number(t, 1.0)});
      return w.node("Mul", {w.node("Mul", {x, gate}), w.number(t, 0.5)});
    }
    case Activation::none:
      break;
  }
  return x;
}

void add_pointwise_exporters(Exporters& to) {
  for (const auto& [name, op] : plain()) to[name] = unary;
  for (const char* name : {"ceil", "floor", "round", "trunc"}) to[name] = rounding;
  to["square"] = square, to["rsqrt"] = rsqrt, to["log1p"] = log1p, to["expm1"] = expm1;
  to["log2"] = to["log10"] = other_log;
  to["gelu"] = gelu, to["gelu_tanh"] = activation<Activation::gelu_tanh>;
  to["silu"] = activation<Activation::silu>, to["mish"] = mish;
  to["hardsigmoid"] = hardsigmoid, to["elu"] = elu, to["leaky_relu"] = leaky_relu;
  to["softplus"] = softplus, to["clamp"] = clamp, to["nan_to_num"] = nan_to_num;
  to["relu6"] = activation<Activation::relu6>;
  to["isfinite"] = isfinite, to["logical_not"] = to["bitwise_not"] = negation;
  to["add"] = add, to["sub"] = sub, to["mul"] = mul, to["div"] = div, to["pow"] = pow;
  to["maximum"] = maximum, to["minimum"] = minimum;
  to["clamp_min"] = clamp_min, to["clamp_max"] = clamp_max;
  to["eq"] = eq, to["ne"] = ne, to["lt"] = lt, to["le"] = le, to["gt"] = gt, to["ge"] = ge;
  to["logical_and"] = logical_and, to["logical_or"] = logical_or, to["logical_xor"] = logical_xor;
  to["bitwise_and"] = bitwise_and, to["bitwise_or"] = bitwise_or, to["bitwise_xor"] = bitwise_xor;
  to["logaddexp"] = logaddexp, to["remainder"] = remainder, to["fmod"] = fmod;
  to["floor_divide"] = floor_divide, to["div_trunc"] = div_trunc;
  to["where"] = where, to["lerp"] = lerp;
}

}  // namespace wt::onnx
