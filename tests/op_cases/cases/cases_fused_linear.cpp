// Rows of the linear layers with an epilogue.
#include "warptape/autograd/ops/fused_linear.h"
#include "warptape/tests/op_cases/cases/activation_case.h"

namespace wt_test {
namespace {

// f(x w^T + bias + residual). What of x was rounded on its way is weighed by w.
Array layer(const Array& x, const Array& w, const Array* bias, const Array* residual,
            Activation f) {
  const i64 in = w.shape[1], out = w.shape[0], rows = in ? count(x.shape) / in : 0;
  Array y{x.shape, {}, x.terms + kTermsOfFormula + double(in)};
  y.shape[y.shape.ndim() - 1] = out;
  const i64 lines = out ? count(y.shape) / out : 0;
  for (i64 i = 0; i < lines; ++i)
    for (i64 j = 0; j < out; ++j) {
      double z = 0, size = 1e-3, rounded = 0;
      for (i64 l = 0; l < in && i < rows; ++l) {
        const size_t a = size_t(i * in + l), b = size_t(j * in + l);
        const double weight = std::fabs(w.v[b]);
        z += x.v[a] * w.v[b];
        size += weight * (x.magnitude.empty() ? std::fabs(x.v[a]) : x.magnitude[a]);
        if (!x.rounded.empty()) rounded += weight * (x.rounded[a] + std::fabs(x.v[a]));
      }
      if (bias) z += bias->v[size_t(j)], size += std::fabs(bias->v[size_t(j)]);
      rounded += std::fabs(z);
      if (residual) {
        const double r = residual->v[size_t(i * out + j)];
        z += r, size += std::fabs(r), rounded += std::fabs(z);
      }
      y.v.push_back(activated(f, z));
      y.magnitude.push_back(steepest(f) * size);
      y.rounded.push_back(steepest(f) * rounded);
    }
  return y;
}

Sample fused_linear_sample(const Shape& x, const Shape& w, const Way& way) {
  Shape y = x;
  y[y.ndim() - 1] = w[0];
  Sample s{str(name_of(way.activation), way.bias ? " bias" : "", way.residual ? " residual" : ""),
           {{x}, {w}},
           {},
           {}};
  std::string z = "F.linear(a, b";
  if (way.bias) s.inputs.push_back({{w[0]}}), z += ", c";
  z += ")";
  if (way.residual) s.inputs.push_back({y}), z += way.bias ? " + d" : " + c";
  s.call = [way](std::span<const Tensor> in) {
    FusedLinearOptions o{.activation = way.activation};
    if (way.bias) o.bias = in[2];
    if (way.residual) o.residual = in[2 + way.bias];
    return fused_linear(in[0], in[1], o);
  };
  s.oracle = [way](const std::vector<Array>& in) {
    return layer(in[0], in[1], way.bias ? &in[2] : nullptr,
                 way.residual ? &in[size_t(2 + way.bias)] : nullptr, way.activation);
  };
  s.second_is_zero = false;
  s.torch = torch_of(way.activation, z);
  return s;
}

Sample feed_forward_sample(const Shape& x, i64 hidden, i64 out, const Way& way) {
  Shape y = x;
  const i64 features = x[x.ndim() - 1];
  y[y.ndim() - 1] = out;
  Sample s{str(name_of(way.activation), way.bias ? " biases" : "", way.residual ? " residual" : ""),
           {{x, -1, 1}, {{hidden, features}, -0.5, 0.5}, {{out, hidden}, -0.5, 0.5}},
           {},
           {}};
  std::string first = "F.linear(a, b", second;
  if (way.bias) {
    s.inputs.push_back({{hidden}}), s.inputs.push_back({{out}});
    first += ", d", second = ", e";
  }
  if (way.residual) s.inputs.push_back({y});
  s.call = [way](std::span<const Tensor> in) {
    FeedForwardOptions o{.activation = way.activation};
    if (way.bias) o.bias1 = in[3], o.bias2 = in[4];
    if (way.residual) o.residual = in[way.bias ? 5 : 3];
    return feed_forward(in[0], in[1], in[2], o);
  };
  s.oracle = [way](const std::vector<Array>& in) {
    const Array h = layer(in[0], in[1], way.bias ? &in[3] : nullptr, nullptr, way.activation);
    return layer(h, in[2], way.bias ? &in[4] : nullptr,
                 way.residual ? &in[way.bias ? 5 : 3] : nullptr, Activation::none);
  };
  s.torch = "F.linear(" + torch_of(way.activation, first + ")") + ", c" + second + ")";
  if (way.residual) s.torch += way.bias ? " + f" : " + d";
  return s;
}

ErrorInput shapes(const std::string& label, const std::string& text,
                  const std::function<void(Device)>& call) {
  return error_input<ShapeError>(label, text, call);
}
Tensor of(const Shape& s, Device d, DType t = f32) { return ones(s, {.dtype = t, .device = d}); }

void add_fused_linear_cases(std::vector<OpCase>& rows) {
  constexpr Activation kNone = Activation::none, kRelu = Activation::relu, kGelu = Activation::gelu,
                       kTanh = Activation::gelu_tanh, kSilu = Activation::silu,
                       kRelu6 = Activation::relu6, kHard = Activation::hardswish;
  OpCase c{"fused_linear", {"matmul"}, {f64, f32, f16, bf16}};
  const std::pair<Shape, Shape> sizes[] = {{{3, 4}, {5, 4}}, {{2, 3, 4}, {2, 4}}, {{4}, {3, 4}}};
  for (const auto& [x, w] : sizes)
    for (const Way& way : {Way{kNone, true, true},
                           {kRelu, true, false},
                           {kGelu, true, true},
                           {kTanh, true, false},
                           {kSilu, false, true}})
      c.samples.push_back(fused_linear_sample(x, w, way));
  for (const Way& way : {Way{kNone, false, false},
                         {kRelu, false, true},
                         {kTanh, false, false},
                         {kGelu, false, false},
                         {kSilu, true, false}})
    c.samples.push_back(fused_linear_sample({16, 32}, {40, 32}, way));
  c.samples.push_back(fused_linear_sample({3, 1040}, {8, 1040}, {kTanh, true, true}));
  c.samples.push_back(fused_linear_sample({0, 3}, {2, 3}, {kGelu, true, true}));
  c.samples.push_back(fused_linear_sample({3, 0}, {2, 0}, {kRelu, true, false}));
  // Small: at hardswish's bends the slope jumps, and 16 bits round to the other side.
  c.samples.push_back(fused_linear_sample({3, 4}, {5, 4}, {kRelu6, true, true}));
  c.samples.push_back(fused_linear_sample({3, 4}, {5, 4}, {kHard, true, false}));
  const auto two = [](const Tensor& x, const Tensor& w) { (void)fused_linear(x, w); };
  c.errors = {
      undefined_operand("fused_linear", two),
      two_devices("fused_linear", two),
      shapes("features", "[fused_linear] input features 3 \u2260 weight in_features 4",
             [](Device d) {
               (void)fused_linear(of({2, 3}, d), of({5, 4}, d));
             }),
      shapes("weight", "[fused_linear] weight has 1 dimensions, 2 are needed",
             [](Device d) {
               (void)fused_linear(of({2, 3}, d), of({3}, d));
             }),
      shapes("bias", "[fused_linear] bias length 4 \u2260 weight out_features 5",
             [](Device d) {
               (void)fused_linear(of({2, 3}, d), of({5, 3}, d), {.bias = of({4}, d)});
             }),
      shapes("residual", "[fused_linear] residual [2, 1] \u2260 result [2, 5]",
             [](Device d) {
               (void)fused_linear(of({2, 3}, d), of({5, 3}, d), {.residual = of({2, 1}, d)});
             }),
      error_input<DtypeError>(
          "dtype", "[fused_linear] takes f64, f32, f16 and bf16, not i64", [](Device d) {
            (void)fused_linear(of({2, 2}, d, DType::i64), of({2, 2}, d, DType::i64));
          })};
  rows.push_back(c);

  OpCase f{"feed_forward", {"matmul"}, {f64, f32, f16, bf16}};
  f.cancels = true;  // the hidden layer's gradient is rounded, then summed by weights of both signs
  for (const Way& way : {Way{kNone, true, true},
                         {kRelu, true, true},
                         {kGelu, true, false},
                         {kTanh, true, true},
                         {kSilu, false, true},
                         {kRelu, false, false}}) {
    f.samples.push_back(feed_forward_sample({3, 4}, 6, 5, way));
    f.samples.push_back(feed_forward_sample({2, 3, 8}, 16, 8, way));
  }
  f.samples.push_back(feed_forward_sample({4}, 3, 2, {kTanh, true, true}));
  f.samples.push_back(feed_forward_sample({0, 3}, 4, 2, {kRelu, true, true}));
  f.samples.push_back(feed_forward_sample({2, 3}, 0, 2, {kGelu, true, true}));
  const auto three = [](const Tensor& x, const Tensor& w) { (void)feed_forward(x, w, w); };
  f.errors = {
      undefined_operand("feed_forward", three), two_devices("feed_forward", three),
      shapes("first", "[feed_forward] input features 3 \u2260 weight1 in_features 4",
             [](Device d) {
               (void)feed_forward(of({2, 3}, d), of({5, 4}, d), of({5, 5}, d));
             }),
      shapes("second", "[feed_forward] input features 5 \u2260 weight2 in_features 4",
             [](Device d) {
               (void)feed_forward(of({2, 3}, d), of({5, 3}, d), of({3, 4}, d));
             }),
      shapes("bias", "[feed_forward] bias1 length 3 \u2260 weight out_features 5", [](Device d) {
        (void)feed_forward(of({2, 3}, d), of({5, 3}, d), of({3, 5}, d), {.bias1 = of({3}, d)});
      })};
  rows.push_back(f);
}

const CaseFile file{add_fused_linear_cases};

}  // namespace
}  // namespace wt_test
