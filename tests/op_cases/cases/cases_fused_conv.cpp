// Rows of the convolutions with an epilogue.
#include "warptape/autograd/ops/fused_conv.h"
#include "warptape/tests/op_cases/cases/activation_case.h"
#include "warptape/tests/op_cases/cases/conv_case.h"

namespace wt_test {
namespace {

constexpr Activation kNone = Activation::none, kRelu = Activation::relu, kGelu = Activation::gelu,
                     kTanh = Activation::gelu_tanh, kSilu = Activation::silu,
                     kRelu6 = Activation::relu6, kHard = Activation::hardswish;

// f(conv(x, w, bias) + residual) of what the convolution makes.
Array finished(Array z, const Array* residual, Activation f) {
  for (size_t i = 0; i < z.v.size(); ++i) {
    double rounded = std::fabs(z.v[i]);
    if (residual) {
      z.v[i] += residual->v[i];
      z.magnitude[i] += std::fabs(residual->v[i]);
      rounded += std::fabs(z.v[i]);
    }
    z.v[i] = activated(f, z.v[i]);
    z.magnitude[i] = steepest(f) * (z.magnitude[i] + 1e-3);
    z.rounded.push_back(steepest(f) * rounded);
  }
  z.terms += kTermsOfFormula;
  return z;
}

Tensor call(int axes, const Tensor& x, const Tensor& w, const FusedConvOptions& o) {
  return axes == 1   ? fused_conv1d(x, w, o)
         : axes == 2 ? fused_conv2d(x, w, o)
                     : fused_conv3d(x, w, o);
}

Sample fused_conv_sample(ConvCase k, const Way& way) {
  k.bias = way.bias;
  const int axes = axes_of(k);
  Sample s{str("w ", k.w, k.options.empty() ? "" : ", ", k.options, " ", name_of(way.activation),
               way.bias ? " bias" : "", way.residual ? " residual" : ""),
           {{k.x}, {k.w}},
           {},
           {}};
  if (way.bias) s.inputs.push_back({Shape{k.w[0]}});
  if (way.residual) s.inputs.push_back({result_shape(k, k.w[0], out_size)});
  s.call = [k, way, axes](std::span<const Tensor> in) {
    FusedConvOptions o{.activation = way.activation, .conv = options(k)};
    if (way.bias) o.bias = in[2];
    if (way.residual) o.residual = in[2 + way.bias];
    return call(axes, in[0], in[1], o);
  };
  s.oracle = [k, way](const std::vector<Array>& in) {
    return finished(forward_oracle(k)(in), way.residual ? &in[size_t(2 + way.bias)] : nullptr,
                    way.activation);
  };
  std::string z = str("F.conv", axes, "d(a, b", way.bias ? ", c" : "",
                      k.options.empty() ? "" : ", ", k.options, ")");
  if (way.residual) z += way.bias ? " + d" : " + c";
  if (count(k.x) > 0 && count(k.w) > 0) s.torch = torch_of(way.activation, z);
  return s;
}

OpCase row(int axes, const std::vector<std::pair<ConvCase, Way>>& cases) {
  OpCase c{str("fused_conv", axes, "d"),
           {"conv_forward", "conv_backward_input", "conv_backward_weight"},
           kFloats};
  // The gradient of the sum is rounded, then summed by weights of both signs.
  c.cancels = true;
  for (const auto& [k, way] : cases) c.samples.push_back(fused_conv_sample(k, way));
  const ConvCall plain = [axes](const Tensor& x, const Tensor& w) { (void)call(axes, x, w, {}); };
  c.errors = {undefined_operand(c.name, plain), two_devices(c.name, plain),
              conv_error_dtype(c.name, Shape(std::vector<i64>(size_t(axes + 2), 1)), plain)};
  return c;
}

void add_fused_conv1d(std::vector<OpCase>& rows) {
  const std::vector<i64> one{1}, none{0};
  rows.push_back(row(
      1,
      {{{{2, 2, 5}, {3, 2, 3}, true, one, one, one, {}, 1, "padding=1"}, {kNone, true, true}},
       {{{2, 2, 7}, {2, 2, 3}, true, {2}, none, one, {}, 1, "stride=2"}, {kRelu, true, true}},
       {{{4, 6}, {4, 2, 2}, true, one, none, {2}, {}, 2, "dilation=2, groups=2"},
        {kGelu, true, true}},
       {{{1, 1, 6}, {2, 1, 4}, true, one, none, one, {}, 1, "padding='same'", true},
        {kTanh, true, false}},
       {{{1, 3, 1}, {2, 3, 1}, true, one, none, one, {}}, {kSilu, false, true}},
       {{{2, 3, 9}, {5, 3, 3}, true, one, one, one, {}, 1, "padding=1"}, {kRelu6, true, true}},
       {{{2, 3, 9}, {5, 3, 3}, true, one, one, one, {}, 1, "padding=1"}, {kHard, true, false}},
       {{{1, 3, 257}, {5, 3, 3}, true, one, one, one, {}, 1, "padding=1"}, {kSilu, true, true}},
       {{{1, 17, 7}, {33, 17, 3}, true, one, one, one, {}, 1, "padding=1"}, {kRelu, false, true}},
       {{{2, 3, 6}, {3, 1, 3}, true, one, one, one, {}, 3, "padding=1, groups=3"},
        {kRelu, true, true}},
       {{{0, 2, 5}, {3, 2, 3}, true, one, none, one, {}}, {kGelu, true, true}}}));
  OpCase& c = rows.back();
  c.errors.push_back(conv_error_shapes(
      "rank", "[fused_conv1d] x has 4 dimensions, 3 are needed", {1, 1, 1, 3}, {1, 1, 1},
      [](const Tensor& x, const Tensor& w) { (void)fused_conv1d(x, w); }));
}

void add_fused_conv2d(std::vector<OpCase>& rows) {
  const std::vector<i64> one{1, 1}, none{0, 0};
  const ConvCase plain{{2, 2, 3, 4}, {2, 2, 2, 2}, true, one, none, one, {}};
  const ConvCase wide{{1, 17, 5, 5}, {33, 17, 3, 3}, true, one, one, one, {}, 1, "padding=1"};
  const ConvCase groups{{2, 4, 5},
                        {4, 1, 2, 2},
                        true,
                        one,
                        one,
                        {1, 2},
                        {},
                        2,
                        "padding=1, dilation=(1, 2), groups=2"};
  const ConvCase steps{{1, 2, 4, 3},
                       {3, 2, 3, 2},
                       true,
                       {2, 1},
                       {1, 0},
                       one,
                       {},
                       1,
                       "stride=(2, 1), padding=(1, 0)"};
  std::vector<std::pair<ConvCase, Way>> cases;
  for (const Way& way : {Way{kNone, true, true},
                         {kRelu, true, true},
                         {kGelu, true, true},
                         {kTanh, true, false},
                         {kSilu, false, true}})
    for (const ConvCase& k : {plain, groups}) cases.push_back({k, way});
  for (const Way& way : {Way{kNone, false, false},
                         {kRelu, false, false},
                         {kGelu, false, false},
                         {kSilu, true, false}})
    cases.push_back({steps, way});
  for (const Way& way : {Way{kRelu, true, true}, {kTanh, true, true}}) cases.push_back({wide, way});
  cases.push_back({{{3, 8, 6, 5}, {7, 8, 1, 1}, true, one, none, one, {}}, {kRelu, true, true}});
  cases.push_back({{{2, 3, 4, 5}, {3, 1, 3, 3}, true, one, one, one, {}, 3, "padding=1, groups=3"},
                   {kRelu6, true, false}});
  cases.push_back({{{1, 6, 9, 9},
                    {12, 1, 3, 3},
                    true,
                    {2, 2},
                    one,
                    one,
                    {},
                    6,
                    "stride=2, padding=1, groups=6"},
                   {kSilu, true, true}});
  cases.push_back({{{3, 4, 2, 3}, {5, 4, 2, 3}, true, one, none, one, {}}, {kTanh, true, true}});
  cases.push_back({{{0, 2, 3, 3}, {2, 2, 2, 2}, true, one, none, one, {}}, {kRelu, true, true}});
  cases.push_back({{{1, 2, 3, 3}, {0, 2, 2, 2}, true, one, none, one, {}}, {kGelu, true, true}});
  rows.push_back(row(2, cases));

  OpCase& c = rows.back();
  const std::string tag = "[fused_conv2d] ";
  const auto with = [](const std::function<FusedConvOptions(Device)>& o) {
    return [o](const Tensor& x, const Tensor& w) { (void)fused_conv2d(x, w, o(x.device())); };
  };
  const Shape x{1, 4, 5, 5}, w{6, 4, 3, 3};
  const auto shapes = [&](const std::string& label, const std::string& text, const Shape& of_x,
                          const Shape& of_w, const ConvCall& f) {
    c.errors.push_back(conv_error_shapes(label, tag + text, of_x, of_w, f));
  };
  const ConvCall bare = [](const Tensor& a, const Tensor& b) { (void)fused_conv2d(a, b); };
  shapes("channels", "x has 4 channels, weight takes 3", x, {6, 3, 3, 3}, bare);
  shapes("kernel", "the kernel spans 3 elements of spatial axis 0, x has 2", {1, 4, 2, 5}, w, bare);
  shapes("bias", "bias [5] \u2260 output channels [6]", x, w,
         with([](Device d) { return FusedConvOptions{.bias = ones({5}, {.device = d})}; }));
  shapes("residual", "residual [1, 6, 3, 1] \u2260 result [1, 6, 3, 3]", x, w, with([](Device d) {
           return FusedConvOptions{.residual = ones({1, 6, 3, 1}, {.device = d})};
         }));
  shapes("residual's rank", "residual [6, 3, 3] \u2260 result [1, 6, 3, 3]", x, w,
         with([](Device d) {
           return FusedConvOptions{.residual = ones({6, 3, 3}, {.device = d})};
         }));
  c.errors.push_back(
      conv_error_usage("stride", tag + "stride must be at least 1, got 0", x, w, with([](Device) {
                         return FusedConvOptions{.conv = {.stride = {1, 0}}};
                       })));
  c.errors.push_back(error_input<DtypeError>("types", tag, [x, w](Device d) {
    (void)fused_conv2d(ones(x, {.device = d}), ones(w, {.device = d}),
                       {.residual = ones({1, 6, 3, 3}, {.dtype = f64, .device = d})});
  }));
}

void add_fused_conv3d(std::vector<OpCase>& rows) {
  const std::vector<i64> one{1, 1, 1}, none{0, 0, 0};
  rows.push_back(row(
      3, {{{{2, 1, 3, 3, 2}, {2, 1, 2, 2, 2}, true, one, none, one, {}}, {kNone, true, true}},
          {{{3, 2, 2, 2, 3}, {4, 2, 2, 2, 3}, true, one, none, one, {}}, {kTanh, true, true}},
          {{{1, 2, 3, 2, 2},
            {2, 2, 2, 1, 2},
            true,
            {2, 1, 1},
            {1, 0, 1},
            one,
            {},
            1,
            "stride=(2, 1, 1), padding=(1, 0, 1)"},
           {kRelu, true, true}},
          {{{2, 3, 2, 3},
            {2, 1, 2, 1, 2},
            true,
            one,
            none,
            {1, 1, 2},
            {},
            2,
            "dilation=(1, 1, 2), groups=2"},
           {kSilu, true, true}},
          {{{1, 1, 2, 2, 2}, {1, 1, 2, 3, 1}, true, one, none, one, {}, 1, "padding='same'", true},
           {kGelu, false, true}},
          {{{1, 4, 3, 5, 5}, {4, 1, 3, 3, 3}, true, one, one, one, {}, 4, "padding=1, groups=4"},
           {kTanh, true, false}},
          {{{0, 1, 3, 3, 3}, {2, 1, 2, 2, 2}, true, one, none, one, {}}, {kTanh, true, true}}}));
}

void add_fused_conv_cases(std::vector<OpCase>& rows) {
  add_fused_conv1d(rows);
  add_fused_conv2d(rows);
  add_fused_conv3d(rows);
}

const CaseFile file{add_fused_conv_cases};

}  // namespace
}  // namespace wt_test
