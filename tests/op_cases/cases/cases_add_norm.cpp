// Rows of residual and normalisation. A sample's result holds both results, or one of them, so that
// backward is called with either gradient missing.
#include "warptape/autograd/ops/add_norm.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/tests/op_cases/cases/norm_case.h"

namespace wt_test {
namespace {

enum class Of { both, norm, sum };

Tensor taken(const AddNormResult& r, Of of) {
  return of == Of::both ? stack({r.y, r.sum}) : of == Of::norm ? r.y : r.sum;
}

// What rounding the sum to 16 bits may move its norm y by, in units of roundoff: the element
// itself, its row's mean, and, relative to y, the row's rstd (by Cauchy at most sqrt(mean(x^2))
// rstd).
void push_rounded(Array& y, const Array& sum, i64 length, double eps, bool centred) {
  for (size_t begin = 0; begin < sum.v.size(); begin += size_t(length)) {
    double mean = 0, squares = 0;
    for (size_t i = begin; i < begin + size_t(length); ++i) {
      mean += sum.v[i] / double(length);
      squares += sum.v[i] * sum.v[i] / double(length);
    }
    const double variance = centred ? squares - mean * mean : squares;
    const double steep = std::sqrt(squares) / std::sqrt(variance + eps);
    for (size_t i = begin; i < begin + size_t(length); ++i)
      y.rounded.push_back((1 + steep) * y.magnitude[i]);
  }
}

// `norm` of a + b and of the parameters behind them, over rows of `length`.
Oracle added(Oracle norm, Of of, i64 length, double eps, bool centred) {
  return [=](const std::vector<Array>& in) {
    std::vector<Array> of_sum(in.begin() + 1, in.end());
    Array& sum = of_sum[0];
    sum.v.clear();
    for (size_t i = 0; i < in[0].v.size(); ++i) sum.v.push_back(in[0].v[i] + in[1].v[i]);
    if (of == Of::sum) return sum;
    Array y = norm(of_sum);
    if (y.magnitude.empty())
      for (const double v : y.v) y.magnitude.push_back(std::fabs(v));
    push_rounded(y, sum, length, eps, centred);
    if (of == Of::norm) return y;
    y.shape = Shape{2};
    for (const i64 n : sum.shape) y.shape.push_back(n);
    for (const double v : sum.v) {
      y.v.push_back(v), y.magnitude.push_back(std::fabs(v)), y.rounded.push_back(0);
    }
    return y;
  };
}

struct AddNormCase {
  Shape x;
  int axes, parameters;
  Of of = Of::both;
  double eps = 1e-5;
};
const AddNormCase kCases[] = {
    {{3, 5}, 1, 2},   {{2, 3, 4}, 2, 2},        {{3, 5}, 1, 0, Of::norm, 1e-3},
    {{4, 6}, 1, 1},   {{3, 5}, 1, 2, Of::norm}, {{2, 3}, 1, 2, Of::sum},
    {{7}, 1, 2},      {{2, 2, 3}, 1, 1},        {{4, 1}, 1, 2, Of::both, 0.5},
    {{0, 3}, 1, 2},   {{3, 0}, 1, 2},           {{41, 40}, 1, 2},
    {{3, 264}, 1, 2}, {{2, 33}, 1, 2},          {{2, 1030}, 1, 2},
};

Shape last_axes(const AddNormCase& k) { return Shape(k.x.data() + k.x.ndim() - k.axes, k.axes); }

// call(x, residual, shape, parameters); `most` parameters are known.
template <class Call>
void add_samples(OpCase& c, int most, const char* torch_norm,
                 const std::function<Oracle(int, double)>& oracle, Call call) {
  for (const AddNormCase& k : kCases) {
    const int parameters = k.parameters < most ? k.parameters : most;
    std::vector<Input> inputs{{k.x}, {k.x}};
    for (int i = 0; i < parameters; ++i) inputs.push_back({last_axes(k)});
    c.samples.push_back(
        {str("axes ", k.axes, ", parameters ", parameters, ", of ", int(k.of)), inputs,
         [=](std::span<const Tensor> in) { return taken(call(in, last_axes(k), k.eps), k.of); },
         added(oracle(k.axes, k.eps), k.of, count(last_axes(k)), k.eps, most == 2)});
    Sample& s = c.samples.back();
    if (k.x == Shape{3, 5} && k.of == Of::both)
      s.torch = str("torch.stack([", torch_norm, ", a + b])");
    if (k.of == Of::norm && k.parameters == 2) s.torch = torch_norm;
    if (k.of == Of::sum) s.second_is_zero = true;
    if (k.x == Shape{4, 1} && most == 2) s.second_is_zero = true;  // the bias, whatever x is
  }
}

template <class Call>
std::vector<ErrorInput> errors(const std::string& op, Call call) {
  const std::string tag = "[" + op + "] ";
  const auto at = [call](const Shape& x, const Shape& residual, const Shape& last,
                         const Shape& weight, DType t, double eps) {
    return [=](Device d) {
      const TensorOptions o{.dtype = t, .device = d};
      (void)call(ones(x, o), ones(residual, o), last, ones(weight, o), eps);
    };
  };
  const Apply apply = [call](const Tensor& a, const Tensor& b) {
    (void)call(a, b, Shape{2}, Tensor(), 1e-5);
  };
  return {undefined_operand(op, apply),
          two_devices(op, apply),
          error_input<ShapeError>("residual", tag + "residual [1, 3] \u2260 x [2, 3]",
                                  at({2, 3}, {1, 3}, {3}, {3}, f32, 1e-5)),
          error_input<ShapeError>("no axis", tag + "normalized_shape has no axis",
                                  at({2, 3}, {2, 3}, {}, {}, f32, 1e-5)),
          error_input<ShapeError>("shape",
                                  tag + "the last axes of x [2, 3] \u2260 normalized_shape [2]",
                                  at({2, 3}, {2, 3}, {2}, {2}, f32, 1e-5)),
          error_input<ShapeError>("weight", tag + "weight [3, 1] \u2260 normalized_shape [3]",
                                  at({2, 3}, {2, 3}, {3}, {3, 1}, f32, 1e-5)),
          error_input<DtypeError>("dtype", tag + "expected a floating dtype that computes, got i64",
                                  at({2, 3}, {2, 3}, {3}, {3}, DType::i64, 1e-5)),
          error_input<UsageError>("eps", tag + "eps must be at least 0, got -1",
                                  at({2, 3}, {2, 3}, {3}, {3}, f32, -1))};
}

void add_add_norm_cases(std::vector<OpCase>& rows) {
  OpCase layer{"add_layer_norm",
               {"add_layer_norm_forward", "add_layer_norm_backward_input",
                "layer_norm_backward_input", "layer_norm_backward_params"},
               kFloats};
  layer.cancels = true;
  add_samples(layer, 2, "F.layer_norm(a + b, (5,), c, d)", layer_norm_oracle,
              [](std::span<const Tensor> in, const Shape& last, double eps) {
                return add_layer_norm(in[0], in[1], last,
                                      {.weight = in.size() > 2 ? in[2] : Tensor(),
                                       .bias = in.size() > 3 ? in[3] : Tensor(),
                                       .eps = eps});
              });
  layer.errors = errors("add_layer_norm", [](const Tensor& x, const Tensor& r, const Shape& last,
                                             const Tensor& w, double eps) {
    return add_layer_norm(x, r, last, {.weight = w, .eps = eps});
  });
  rows.push_back(std::move(layer));

  OpCase rms{"add_rms_norm",
             {"add_rms_norm_forward", "add_rms_norm_backward_input", "rms_norm_backward_input",
              "layer_norm_backward_params"},
             kFloats};
  rms.cancels = true;
  add_samples(rms, 1, "F.rms_norm(a + b, (5,), c, eps=1e-5)", rms_norm_oracle,
              [](std::span<const Tensor> in, const Shape& last, double eps) {
                return add_rms_norm(in[0], in[1], last,
                                    {.weight = in.size() > 2 ? in[2] : Tensor(), .eps = eps});
              });
  rms.errors = errors("add_rms_norm", [](const Tensor& x, const Tensor& r, const Shape& last,
                                         const Tensor& w, double eps) {
    return add_rms_norm(x, r, last, {.weight = w, .eps = eps});
  });
  rows.push_back(std::move(rms));
}

const CaseFile file{add_add_norm_cases};

}  // namespace
}  // namespace wt_test
