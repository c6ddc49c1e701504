// Rows of the normalisations.
#include "warptape/autograd/ops/norm.h"
#include "warptape/tests/op_cases/cases/norm_case.h"

namespace wt_test {
namespace {

void add_layer_norm_cases(std::vector<OpCase>& rows) {
  OpCase c{"layer_norm",
           {"layer_norm_forward", "layer_norm_backward_input", "layer_norm_backward_params"},
           kFloats};
  c.cancels = true;
  struct Case {
    Shape x;
    int axes, parameters;
    double eps = 1e-5;
  };
  const Case cases[] = {{{3, 5}, 1, 2},    {{2, 3, 4}, 2, 2},   {{3, 5}, 1, 0, 1e-3},
                        {{4, 6}, 1, 1},    {{2, 3, 4}, 3, 2},   {{7}, 1, 2},
                        {{2, 2, 3}, 1, 2}, {{4, 1}, 1, 2, 0.5}, {{0, 3}, 1, 2},
                        {{3, 0}, 1, 2},    {{41, 40}, 1, 2},    {{3, 264}, 1, 2},
                        {{2, 33}, 1, 2},   {{2, 1030}, 1, 2}};
  for (const Case& k : cases) {
    Shape normalized;
    for (int d = k.x.ndim() - k.axes; d < k.x.ndim(); ++d) normalized.push_back(k.x[d]);
    std::vector<Input> inputs{{k.x}, {normalized}, {normalized}};
    inputs.resize(size_t(1 + k.parameters));
    c.samples.push_back({str("axes ", k.axes, ", parameters ", k.parameters, ", eps ", k.eps),
                         inputs,
                         [normalized, eps = k.eps](std::span<const Tensor> in) {
                           const LayerNormOptions o{.eps = eps};
                           return in.size() == 1   ? layer_norm(in[0], normalized, o)
                                  : in.size() == 2 ? layer_norm(in[0], normalized, in[1], o)
                                                   : layer_norm(in[0], normalized, in[1], in[2], o);
                         },
                         layer_norm_oracle(k.axes, k.eps)});
    if (k.x == Shape{3, 5} && k.parameters == 2)
      c.samples.back().torch = "F.layer_norm(a, (5,), b, c)";
    if (k.x == Shape{2, 3, 4} && k.axes == 2)
      c.samples.back().torch = "F.layer_norm(a, (3, 4), b, c)";
    if (k.x == Shape{4, 1})  // the bias, whatever x is
      c.samples.back().constant = c.samples.back().second_is_zero = true;
  }
  const std::string tag = "[layer_norm] ";
  const auto call = [](const Shape& x, const Shape& normalized, const Shape& weight, DType t,
                       double eps) {
    return [=](Device d) {
      (void)layer_norm(ones(x, {.dtype = t, .device = d}), normalized,
                       ones(weight, {.dtype = t, .device = d}), {.eps = eps});
    };
  };
  const Apply apply = [](const Tensor& a, const Tensor& b) { (void)layer_norm(a, {2}, b); };
  c.errors = {
      undefined_operand("layer_norm", apply),
      two_devices("layer_norm", apply),
      error_input<ShapeError>("no axis", tag + "normalized_shape has no axis",
                              call({2, 3}, {}, {}, f32, 1e-5)),
      error_input<ShapeError>("shape",
                              tag + "the last axes of x [2, 3] \u2260 normalized_shape [2]",
                              call({2, 3}, {2}, {2}, f32, 1e-5)),
      error_input<ShapeError>("weight", tag + "weight [3, 1] \u2260 normalized_shape [3]",
                              call({2, 3}, {3}, {3, 1}, f32, 1e-5)),
      error_input<DtypeError>("dtype", tag + "expected a floating dtype that computes, got i64",
                              call({2, 3}, {3}, {3}, DType::i64, 1e-5)),
      error_input<UsageError>("eps", tag + "eps must be at least 0, got -1",
                              call({2, 3}, {3}, {3}, f32, -1))};
  rows.push_back(std::move(c));
}

void add_rms_norm_cases(std::vector<OpCase>& rows) {
  OpCase c{"rms_norm",
           {"rms_norm_forward", "rms_norm_backward_input", "layer_norm_backward_params"},
           kFloats};
  c.cancels = true;
  struct Case {
    Shape x;
    int axes;
    bool weight;
    double eps;
    const char* torch;
  };
  const Case cases[] = {{{3, 5}, 1, true, 1e-5, "F.rms_norm(a, (5,), b, eps=1e-5)"},
                        {{2, 3, 4}, 2, true, 1e-3, "F.rms_norm(a, (3, 4), b, eps=1e-3)"},
                        {{3, 5}, 1, false, 1e-5, "F.rms_norm(a, (5,), eps=1e-5)"},
                        {{2, 3, 4}, 3, true, 1e-5, ""},
                        {{7}, 1, true, 1e-5, ""},
                        {{4, 1}, 1, true, 0.5, ""},
                        {{0, 3}, 1, true, 1e-5, ""},
                        {{3, 0}, 1, true, 1e-5, ""},
                        {{41, 40}, 1, true, 1e-5, ""},
                        {{2, 33}, 1, false, 1e-5, ""},
                        {{2, 1030}, 1, true, 1e-5, ""}};
  for (const Case& k : cases) {
    Shape normalized;
    for (int d = k.x.ndim() - k.axes; d < k.x.ndim(); ++d) normalized.push_back(k.x[d]);
    std::vector<Input> inputs{{k.x}, {normalized}};
    if (!k.weight) inputs.pop_back();
    c.samples.push_back({str("axes ", k.axes, ", eps ", k.eps), inputs,
                         [normalized, eps = k.eps](std::span<const Tensor> in) {
                           const RmsNormOptions o{.eps = eps};
                           return in.size() == 1 ? rms_norm(in[0], normalized, o)
                                                 : rms_norm(in[0], normalized, in[1], o);
                         },
                         rms_norm_oracle(k.axes, k.eps)});
    c.samples.back().torch = k.torch;
  }
  // Without eps: the machine epsilon of f64, and of f32 for what computes in it.
  c.samples.push_back({"eps by dtype",
                       {{{3, 5}, 0.5, 2}},
                       [](std::span<const Tensor> in) { return rms_norm(in[0], {5}); },
                       rms_norm_oracle(1, 0x1p-52)});
  c.samples.back().torch = "F.rms_norm(a, (5,))";
  const std::string tag = "[rms_norm] ";
  const auto call = [](const Shape& x, const Shape& normalized, const Shape& weight, DType t,
                       double eps) {
    return [=](Device d) {
      (void)rms_norm(ones(x, {.dtype = t, .device = d}), normalized,
                     ones(weight, {.dtype = t, .device = d}), {.eps = eps});
    };
  };
  const Apply apply = [](const Tensor& a, const Tensor& b) { (void)rms_norm(a, {2}, b); };
  c.errors = {
      undefined_operand("rms_norm", apply),
      two_devices("rms_norm", apply),
      error_input<ShapeError>("shape",
                              tag + "the last axes of x [2, 3] \u2260 normalized_shape [2]",
                              call({2, 3}, {2}, {2}, f32, 1e-5)),
      error_input<ShapeError>("weight", tag + "weight [3, 1] \u2260 normalized_shape [3]",
                              call({2, 3}, {3}, {3, 1}, f32, 1e-5)),
      error_input<DtypeError>("dtype", tag + "expected a floating dtype that computes, got i64",
                              call({2, 3}, {3}, {3}, DType::i64, 1e-5)),
      error_input<UsageError>("eps", tag + "eps must be at least 0, got -1",
                              call({2, 3}, {3}, {3}, f32, -1))};
  rows.push_back(std::move(c));
}

void add_norm_cases(std::vector<OpCase>& rows) {
  add_layer_norm_cases(rows);
  add_rms_norm_cases(rows);
}

const CaseFile file{add_norm_cases};

}  // namespace
}  // namespace wt_test
