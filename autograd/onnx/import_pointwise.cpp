// Elementwise operators and constants.
#include "warptape/autograd/onnx/import.h"
#include "warptape/autograd/ops.h"
#include "warptape/core/factories.h"

namespace wt::onnx {
namespace {

using Results = std::vector<Tensor>;

// ONNX asks for equal dtypes, with which our promotion agrees.
#define WT_UNARY_IMPORT(f)                                    \
  {                                                           \
    [](const NodeCall& c) -> Results { return {f(c.in(0))}; } \
  }
#define WT_BINARY_IMPORT(f)                                                      \
  {                                                                              \
    [](const NodeCall& c) -> Results { return {f(c.in(0), c.in(1))}; }, {}, 2, 2 \
  }
#define WT_LIST_IMPORT(f)                                        \
  {                                                              \
    [](const NodeCall& c) -> Results {                           \
      Tensor y = c.in(0);                                        \
      for (size_t i = 1; i < c.inputs(); ++i) y = f(y, c.in(i)); \
      return {y};                                                \
    },                                                           \
        {}, 1, kMostInputs                                       \
  }
constexpr size_t kMostInputs = size_t{1} << 20;

// Integers divide towards zero there.
Results divided(const NodeCall& c) {
  const bool whole = !is_floating(c.in(0).dtype());
  return {whole ? div_trunc(c.in(0), c.in(1)) : div(c.in(0), c.in(1))};
}
Results modulo(const NodeCall& c) {
  if (c.integer("fmod", 0)) return {fmod(c.in(0), c.in(1))};
  c.require(!is_floating(c.in(0).dtype()), "Mod of floats needs fmod = 1");
  return {remainder(c.in(0), c.in(1))};
}
// The base's dtype.
Results power(const NodeCall& c) {
  const Tensor y = pow(c.in(0), c.in(1));
  return {y.to(c.in(0).dtype())};
}
Results clipped(const NodeCall& c) {
  Tensor y = c.in(0);
  if (c.has(1)) y = clamp_min(y, c.in(1));
  if (c.has(2)) y = clamp_max(y, c.in(2));
  return {y};
}
Results infinite(const NodeCall& c) {
  const Tensor& x = c.in(0);
  const bool above = c.integer("detect_positive", 1), below = c.integer("detect_negative", 1);
  if (above && below) return {isinf(x)};
  if (!above && !below) return {logical_and(isinf(x), logical_not(isinf(x)))};
  return {logical_and(isinf(x), above ? gt(x, 0) : lt(x, 0))};
}
Results hard_sigmoid(const NodeCall& c) {
  const Tensor y = add(mul(c.in(0), c.real("alpha", 0.2)), c.real("beta", 0.5));
  return {clamp(y, 0.0, 1.0)};
}
std::string gelu_unread(const NodeCall& c) {
  const std::string how = c.text("approximate", "none");
  return how == "none" || how == "tanh" ? "" : "approximate " + how;
}
Results gelu_of(const NodeCall& c) {
  return {c.text("approximate", "none") == "tanh" ? gelu_tanh(c.in(0)) : gelu(c.in(0))};
}
// The slope broadcasts to x, as other operands do.
Tensor prelu_of(const Tensor& x, const Tensor& slope) { return where(gt(x, 0), x, mul(x, slope)); }
Results average(const NodeCall& c) {
  Tensor y = c.in(0);
  for (size_t i = 1; i < c.inputs(); ++i) y = add(y, c.in(i));
  return {div(y, double(c.inputs()))};
}
Results selu_of(const NodeCall& c) {
  const double alpha = c.real("alpha", 1.6732632423543772),
               gamma = c.real("gamma", 1.05070102214813);
  return {mul(elu(c.in(0), alpha), gamma)};
}
std::string cast_unread(const NodeCall& c) {
  const i64 to = c.integer("to", 0);
  return dtype_of_onnx(to) ? "" : "to " + onnx_dtype_name(to);
}
Results cast_to(const NodeCall& c) { return {c.in(0).to(*dtype_of_onnx(c.integer("to", 0)))}; }

Results constant_of(const NodeCall& c) {
  if (const AttributeProto* a = c.node().find("value")) return {a->t.to(c.device())};
  if (const AttributeProto* a = c.node().find("value_float"))
    return {full({}, double(a->f), {.dtype = DType::f32, .device = c.device()})};
  if (const AttributeProto* a = c.node().find("value_int"))
    return {full({}, a->i, {.dtype = DType::i64, .device = c.device()})};
  if (const AttributeProto* a = c.node().find("value_floats"))
    return {tensor(a->floats, {.device = Device::cpu()}).to(c.device())};
  if (const AttributeProto* a = c.node().find("value_ints"))
    return {tensor(a->ints, {.device = Device::cpu()}).to(c.device())};
  c.fail("has no value");
}
Results filled(const NodeCall& c) {
  const Shape shape(c.values(0));
  const AttributeProto* a = c.node().find("value");
  if (!a) return {zeros(shape, {.dtype = DType::f32, .device = c.device()})};
  c.require(a->t.numel() == 1, "value is one number");
  return {expand(a->t.to(c.device()).reshape({}), shape).contiguous()};
}
Results range(const NodeCall& c) {
  const DType t = c.in(0).dtype();
  const TensorOptions o{.dtype = t, .device = c.device()};
  if (is_floating(t)) return {arange(c.in(0).item(), c.in(1).item(), c.in(2).item(), o)};
  return {arange(c.in(0).item<i64>(), c.in(1).item<i64>(), c.in(2).item<i64>(), o)};
}

}  // namespace

void add_pointwise_importers(Importers& to) {
  to["Abs"] = WT_UNARY_IMPORT(abs), to["Acos"] = WT_UNARY_IMPORT(acos);
  to["Acosh"] = WT_UNARY_IMPORT(acosh), to["Asin"] = WT_UNARY_IMPORT(asin);
  to["Asinh"] = WT_UNARY_IMPORT(asinh), to["Atan"] = WT_UNARY_IMPORT(atan);
  to["Atanh"] = WT_UNARY_IMPORT(atanh), to["Ceil"] = WT_UNARY_IMPORT(ceil);
  to["Cos"] = WT_UNARY_IMPORT(cos), to["Cosh"] = WT_UNARY_IMPORT(cosh);
  to["Erf"] = WT_UNARY_IMPORT(erf), to["Exp"] = WT_UNARY_IMPORT(exp);
  to["Floor"] = WT_UNARY_IMPORT(floor), to["HardSwish"] = WT_UNARY_IMPORT(hardswish);
  to["IsNaN"] = WT_UNARY_IMPORT(isnan), to["Log"] = WT_UNARY_IMPORT(log);
  to["Mish"] = WT_UNARY_IMPORT(mish), to["Neg"] = WT_UNARY_IMPORT(neg);
  to["Not"] = WT_UNARY_IMPORT(logical_not), to["Reciprocal"] = WT_UNARY_IMPORT(reciprocal);
  to["Relu"] = WT_UNARY_IMPORT(relu), to["Round"] = WT_UNARY_IMPORT(round);
  to["Sigmoid"] = WT_UNARY_IMPORT(sigmoid), to["Sign"] = WT_UNARY_IMPORT(sign);
  to["Sin"] = WT_UNARY_IMPORT(sin), to["Sinh"] = WT_UNARY_IMPORT(sinh);
  to["Softplus"] = WT_UNARY_IMPORT(softplus), to["Softsign"] = WT_UNARY_IMPORT(softsign);
  to["Sqrt"] = WT_UNARY_IMPORT(sqrt), to["Tan"] = WT_UNARY_IMPORT(tan);
  to["Tanh"] = WT_UNARY_IMPORT(tanh);
  to["Identity"] = {[](const NodeCall& c) -> Results { return {c.in(0)}; }};
  to["Add"] = WT_BINARY_IMPORT(add), to["Sub"] = WT_BINARY_IMPORT(sub);
  to["Mul"] = WT_BINARY_IMPORT(mul), to["Equal"] = WT_BINARY_IMPORT(eq);
  to["Less"] = WT_BINARY_IMPORT(lt), to["LessOrEqual"] = WT_BINARY_IMPORT(le);
  to["Greater"] = WT_BINARY_IMPORT(gt), to["GreaterOrEqual"] = WT_BINARY_IMPORT(ge);
  to["And"] = WT_BINARY_IMPORT(logical_and), to["Or"] = WT_BINARY_IMPORT(logical_or);
  to["Xor"] = WT_BINARY_IMPORT(logical_xor), to["PRelu"] = WT_BINARY_IMPORT(prelu_of);
  to["Max"] = WT_LIST_IMPORT(maximum), to["Min"] = WT_LIST_IMPORT(minimum);
  to["Sum"] = WT_LIST_IMPORT(add), to["Mean"] = {average, {}, 1, kMostInputs};
  to["Div"] = {divided, {}, 2, 2}, to["Mod"] = {modulo, "fmod", 2, 2};
  to["Pow"] = {power, {}, 2, 2}, to["Clip"] = {clipped, {}, 1, 3};
  to["IsInf"] = {infinite, "detect_positive detect_negative"};
  to["HardSigmoid"] = {hard_sigmoid, "alpha beta"},
  to["Gelu"] = {gelu_of, "approximate", 1, 1, 0, gelu_unread};
  to["Selu"] = {selu_of, "alpha gamma"},
  to["Cast"] = {cast_to, "to saturate", 1, 1, 0, cast_unread};
  to["Elu"] = {[](const NodeCall& c) -> Results { return {elu(c.in(0), c.real("alpha", 1))}; },
               "alpha"};
  to["Celu"] = {[](const NodeCall& c) -> Results { return {celu(c.in(0), c.real("alpha", 1))}; },
                "alpha"};
  to["LeakyRelu"] = {
      [](const NodeCall& c) -> Results { return {leaky_relu(c.in(0), c.real("alpha", 0.01))}; },
      "alpha"};
  to["Where"] = {
      [](const NodeCall& c) -> Results { return {where(c.in(0), c.in(1), c.in(2))}; }, {}, 3, 3};
  to["Constant"] = {constant_of, "value value_float value_int value_floats value_ints", 0, 0};
  to["ConstantOfShape"] = {filled, "value", 1, 1, input_bit(0)}, to["Range"] = {range, {}, 3, 3};
}

}  // namespace wt::onnx
