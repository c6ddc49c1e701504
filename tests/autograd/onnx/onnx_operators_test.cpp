// Operators, each through a file and back.
#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/tests/autograd/onnx/round_trip.h"

using namespace wt;
using wt_test::round_trip;

namespace {

// Between low and high, the same for every run.
Tensor numbers(const Shape& shape, double low = -2, double high = 2, DType t = f32) {
  const Tensor u = rand(shape);
  return (u * (high - low) + low).to(t);
}
Tensor whole(const Shape& shape, i64 low, i64 high, DType t = int64) {
  return randint(low, high, shape, {.dtype = int64}).to(t);
}

}  // namespace

TEST_CASE("onnx operators: elementwise, of one tensor") {
  manual_seed(1);
  using F = Tensor (*)(const In& x);
  const std::pair<const char*, F> any[] = {{"abs", abs},
                                           {"asinh", asinh},
                                           {"atan", atan},
                                           {"ceil", ceil},
                                           {"cos", cos},
                                           {"cosh", cosh},
                                           {"erf", erf},
                                           {"exp", exp},
                                           {"expm1", expm1},
                                           {"floor", floor},
                                           {"gelu", gelu},
                                           {"gelu_tanh", gelu_tanh},
                                           {"hardsigmoid", hardsigmoid},
                                           {"hardswish", hardswish},
                                           {"isnan", isnan},
                                           {"isinf", isinf},
                                           {"isfinite", isfinite},
                                           {"mish", mish},
                                           {"neg", neg},
                                           {"reciprocal", reciprocal},
                                           {"relu", relu},
                                           {"round", round},
                                           {"sigmoid", sigmoid},
                                           {"sign", sign},
                                           {"silu", silu},
                                           {"sin", sin},
                                           {"sinh", sinh},
                                           {"softsign", softsign},
                                           {"square", square},
                                           {"tan", tan},
                                           {"tanh", tanh},
                                           {"trunc", trunc},
                                           {"relu6", relu6},
                                           {"selu", selu},
                                           {"logsigmoid", logsigmoid}};
  for (const auto& [name, f] : any)
    round_trip(name, [f = f](const Tensor& x) { return f(x); }, {numbers({3, 7}, -4, 4)});
  const std::pair<const char*, F> above_one[] = {
      {"log", log},   {"log1p", log1p}, {"log2", log2},  {"log10", log10},
      {"sqrt", sqrt}, {"rsqrt", rsqrt}, {"acosh", acosh}};
  for (const auto& [name, f] : above_one)
    round_trip(name, [f = f](const Tensor& x) { return f(x); }, {numbers({3, 7}, 1, 5)});
  const std::pair<const char*, F> within_one[] = {{"acos", acos}, {"asin", asin}, {"atanh", atanh}};
  for (const auto& [name, f] : within_one)
    round_trip(name, [f = f](const Tensor& x) { return f(x); }, {numbers({3, 7}, -0.9, 0.9)});
  const Tensor x = numbers({3, 7}, -4, 4);
  round_trip("clamp", [](const Tensor& t) { return clamp(t, -1.0, 2.0); }, {x});
  round_trip("clamp_one", [](const Tensor& t) { return clamp(t, {.max = 0.5}); }, {x});
  round_trip("elu", [](const Tensor& t) { return elu(t, 0.7); }, {x});
  round_trip("leaky_relu", [](const Tensor& t) { return leaky_relu(t, 0.1); }, {x});
  round_trip("softplus", [](const Tensor& t) { return softplus(t); }, {x});
  round_trip("softplus_beta", [](const Tensor& t) { return softplus(t, 2.0); }, {x});
  round_trip("nan_to_num", [](const Tensor& t) { return nan_to_num(log(t), {.nan = 7}); }, {x});
  round_trip("logical_not", [](const Tensor& t) { return logical_not(t); }, {x});
  round_trip("masked_fill", [](const Tensor& t) { return masked_fill(t, gt(t, 0), 9.0); }, {x});
  // In place, of a tensor that the function has made.
  round_trip("relu_in_place",
             [](const Tensor& t) {
               Tensor y = t * 2;
               y.relu_();
               y.add_(t);
               return y;
             },
             {x});
}

TEST_CASE("onnx operators: elementwise, of two tensors and numbers") {
  manual_seed(2);
  const Tensor a = numbers({2, 3, 4}), b = numbers({3, 1});
  const Tensor positive = numbers({3, 1}, 0.5, 3);
  using F = Tensor (*)(const Operand& a, const Operand& b);
  const std::pair<const char*, F> all[] = {{"add", add},
                                           {"sub", sub},
                                           {"mul", mul},
                                           {"maximum", maximum},
                                           {"minimum", minimum},
                                           {"eq", eq},
                                           {"ne", ne},
                                           {"lt", lt},
                                           {"le", le},
                                           {"gt", gt},
                                           {"ge", ge},
                                           {"logical_and", logical_and},
                                           {"logical_or", logical_or},
                                           {"logical_xor", logical_xor},
                                           {"logaddexp", logaddexp}};
  for (const auto& [name, f] : all) {
    round_trip(name, [f = f](const Tensor& x, const Tensor& y) { return f(x, y); }, {a, b});
    round_trip(str(name, "_number"), [f = f](const Tensor& x) { return f(x, 0.5); }, {a});
    round_trip(str(name, "_by_number"), [f = f](const Tensor& x) { return f(0.5, x); }, {a});
  }
  const Tensor ends =
      tensor({-INFINITY, INFINITY, 2.F, -INFINITY, INFINITY, float(NAN)}).reshape({6});
  round_trip("logaddexp_of_infinities",
             [](const Tensor& x, const Tensor& y) { return logaddexp(x, y); },
             {ends.unsqueeze(1), ends});
  const std::pair<const char*, F> quotients[] = {{"div", div},
                                                 {"floor_divide", floor_divide},
                                                 {"remainder", remainder},
                                                 {"fmod", fmod},
                                                 {"div_trunc", div_trunc}};
  for (const auto& [name, f] : quotients) {
    round_trip(name, [f = f](const Tensor& x, const Tensor& y) { return f(x, y); }, {a, positive});
    round_trip(str(name, "_i64"), [f = f](const Tensor& x, const Tensor& y) { return f(x, y); },
               {whole({2, 3, 4}, -9, 9), whole({3, 1}, 1, 5)});
  }
  round_trip("pow", [](const Tensor& x, const Tensor& y) { return pow(x, y); },
             {numbers({2, 3, 4}, 0.5, 2), b});
  round_trip("pow_number", [](const Tensor& x) { return pow(x, 3); }, {a});
  round_trip("promoted", [](const Tensor& x, const Tensor& y) { return x * y + 1; },
             {a, whole({3, 1}, 1, 5, int32)});
  round_trip("where", [](const Tensor& x, const Tensor& y) { return where(gt(x, y), x, y); },
             {a, b});
  round_trip("where_number", [](const Tensor& x) { return where(gt(x, 0), x, -1.0); }, {a});
  round_trip("lerp", [](const Tensor& x, const Tensor& y) { return lerp(x, y, 0.3); },
             {a, numbers({2, 3, 4})});
  round_trip("addcmul", [](const Tensor& x, const Tensor& y) { return addcmul(x, x, y); }, {a, b});
  round_trip("clamp_tensors", [](const Tensor& x, const Tensor& y) { return clamp(x, y, y + 1); },
             {a, b});
  for (const DType t : {f64, f16, bf16, int64, int32, uint8}) {
    const std::string name = dtype_name(t);
    round_trip("sum_" + name, [](const Tensor& x, const Tensor& y) { return x + y * 2; },
               {whole({3, 4}, 0, 9, t), whole({4}, 0, 9, t)});
    round_trip("cast_" + name, [t](const Tensor& x) { return x.to(t); }, {numbers({3, 4}, 0, 9)});
    round_trip("cast_from_" + name, [](const Tensor& x) { return x.to(f32) / 3; },
               {whole({3, 4}, 0, 9, t)});
  }
  round_trip("cast_bool", [](const Tensor& x) { return x.to(boolean); }, {whole({4}, 0, 2)});
}

TEST_CASE("onnx operators: shapes") {
  manual_seed(3);
  const Tensor x = numbers({2, 3, 4, 5});
  const auto go = [&](const char* name, auto f) { round_trip(name, f, {x}); };
  go("reshape", [](const Tensor& t) { return t.reshape({6, -1}); });
  go("flatten", [](const Tensor& t) { return t.flatten(1); });
  go("view_of_transposed", [](const Tensor& t) { return t.transpose(1, 2).reshape({2, 12, 5}); });
  go("transpose", [](const Tensor& t) { return t.transpose(0, 2); });
  go("permute", [](const Tensor& t) { return t.permute({3, 0, 2, 1}); });
  go("squeeze", [](const Tensor& t) { return t.unsqueeze(1).unsqueeze(-1).squeeze(); });
  go("squeeze_one", [](const Tensor& t) { return t.slice(1, {0, 1}).squeeze(1); });
  go("unsqueeze_first", [](const Tensor& t) { return t.unsqueeze(0); });
  go("unsqueeze_last", [](const Tensor& t) { return t.unsqueeze(-1); });
  go("expand", [](const Tensor& t) { return t.slice(1, {0, 1}).expand({2, 3, 4, 5}); });
  go("expand_lead", [](const Tensor& t) { return t.expand({2, 2, 3, 4, 5}); });
  go("repeat", [](const Tensor& t) { return t.repeat({1, 2, 1, 3}); });
  go("select", [](const Tensor& t) { return t.select(1, 2); });
  go("select_last", [](const Tensor& t) { return t.select(-1, -1); });
  go("slice", [](const Tensor& t) { return t.slice(2, {1, 4, 2}); });
  go("narrow", [](const Tensor& t) { return t.narrow(3, 2, 2); });
  go("nothing_sliced", [](const Tensor& t) { return t.slice(2, {0, 4}) * 1.0; });
  go("index", [](const Tensor& t) { return t[{0, Slice{1, 3}, ellipsis, 2}]; });
  go("split", [](const Tensor& t) { return t.split(2, 3); });
  go("chunk", [](const Tensor& t) { return chunk(t, 2, 2); });
  go("cat", [](const Tensor& t) { return cat({t, t * 2, t.slice(1, {0, 1})}, 1); });
  go("stack", [](const Tensor& t) { return stack({t, t * 2}, 1); });
  go("flip", [](const Tensor& t) { return flip(t, {1, 3}); });
  go("roll", [](const Tensor& t) { return roll(t, 2, 3); });
  go("tril", [](const Tensor& t) { return tril(t, 1); });
  go("pad", [](const Tensor& t) { return pad(t, {1, 2, 0, 3}, {.value = 1.5}); });
  go("pad_crop", [](const Tensor& t) { return pad(t, {-1, 2, 1, -2}); });
  go("pad_reflect", [](const Tensor& t) {
    return pad(t, {1, 2, 2, 1}, {.mode = PadMode::reflect});
  });
  go("pad_replicate", [](const Tensor& t) { return pad(t, {1, 2}, {.mode = PadMode::replicate}); });
  go("pixel_shuffle", [](const Tensor& t) { return pixel_shuffle(t.reshape({2, 12, 1, 5}), 2); });
  go("einsum", [](const Tensor& t) { return einsum("bchw,bchv->bcwv", {t, t}); });
  go("copy_", [](const Tensor& t) {
    Tensor y = t * 2;
    y.copy_(t.slice(0, {0, 1}));
    return y;
  });
  go("two_results", [](const Tensor& t) { return std::pair(t, t); });
}

TEST_CASE("onnx operators: picking by index") {
  manual_seed(4);
  const Tensor x = numbers({5, 6}), index = whole({4, 6}, 0, 5);
  round_trip("gather", [](const Tensor& t, const Tensor& i) { return gather(t, 0, i); },
             {x, index});
  round_trip("index_select", [](const Tensor& t, const Tensor& i) { return index_select(t, 1, i); },
             {x, whole({4}, 0, 6)});
  round_trip("embedding", [](const Tensor& t, const Tensor& i) { return embedding(i, t); },
             {x, whole({2, 3}, 0, 5)});
  round_trip("scatter_add",
             [](const Tensor& t, const Tensor& i) {
               return scatter_add(t, 0, i, t.slice(0, {0, 4}));
             },
             {x, index});
  round_trip("one_hot", [](const Tensor& i) { return one_hot(i, 7); }, {whole({2, 3}, 0, 7)});
  round_trip("topk",
             [](const Tensor& t) {
               const SortResult r = topk(t, 2);
               return std::pair(r.values, r.indices);
             },
             {x});
  round_trip("sort",
             [](const Tensor& t) {
               const SortResult r = sort(t, 0, {.descending = true});
               return std::pair(r.values, r.indices);
             },
             {x});
}

TEST_CASE("onnx operators: reductions") {
  manual_seed(5);
  const Tensor x = numbers({2, 3, 4});
  const auto go = [&](const char* name, auto f) { round_trip(name, f, {x}); };
  go("sum_all", [](const Tensor& t) { return sum(t); });
  go("sum_axes", [](const Tensor& t) { return sum(t, {0, 2}); });
  go("sum_keep", [](const Tensor& t) { return sum(t, 1, {.keep_dim = true}); });
  go("mean", [](const Tensor& t) { return mean(t, {-1}); });
  go("prod", [](const Tensor& t) { return prod(t, {1}); });
  go("max", [](const Tensor& t) { return max(t, {1}); });
  go("min", [](const Tensor& t) { return min(t); });
  go("argmax", [](const Tensor& t) { return argmax(t, 1); });
  go("argmin_all", [](const Tensor& t) { return argmin(t); });
  go("max_with_indices", [](const Tensor& t) {
    const PlacedResult r = max_with_indices(t, 2);
    return std::pair(r.values, r.indices);
  });
  go("any", [](const Tensor& t) { return any(gt(t, 1), {2}); });
  go("all", [](const Tensor& t) { return all(gt(t, -1), {2}); });
  go("var", [](const Tensor& t) { return var(t, {2}); });
  go("std", [](const Tensor& t) { return t.std({0, 1}, {.correction = 0, .keep_dim = true}); });
  go("norm", [](const Tensor& t) { return norm(t, 2, {1}); });
  go("norm1", [](const Tensor& t) { return norm(t, 1); });
  go("logsumexp", [](const Tensor& t) { return logsumexp(t, {1}); });
  go("cumsum", [](const Tensor& t) { return cumsum(t, 1); });
  go("softmax", [](const Tensor& t) { return softmax(t, 1); });
  go("log_softmax", [](const Tensor& t) { return log_softmax(t, -1); });
  go("cosine_similarity", [](const Tensor& t) { return cosine_similarity(t, t + 1); });
}
