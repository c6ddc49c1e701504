// Rows of the convolutions.
#include "warptape/autograd/ops/conv.h"
#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {
namespace {

struct ConvCase {
  Shape x, w;
  bool bias;
  std::vector<i64> stride, padding, dilation, extra;  // one a spatial axis; extra: output_padding
  i64 groups = 1;
  std::string options{};  // as PyTorch writes them
  bool same = false;
};

int axes_of(const ConvCase& k) { return k.w.ndim() - 2; }
bool batched(const ConvCase& k) { return k.x.ndim() == axes_of(k) + 2; }
i64 out_size(const ConvCase& k, int d) {
  const int lead = k.x.ndim() - axes_of(k);
  const i64 reach = k.dilation[size_t(d)] * (k.w[2 + d] - 1) + 1;
  if (k.same) return k.x[lead + d];
  return (k.x[lead + d] + 2 * k.padding[size_t(d)] - reach) / k.stride[size_t(d)] + 1;
}
i64 transposed_size(const ConvCase& k, int d) {
  const int lead = k.x.ndim() - axes_of(k);
  return (k.x[lead + d] - 1) * k.stride[size_t(d)] - 2 * k.padding[size_t(d)] +
         k.dilation[size_t(d)] * (k.w[2 + d] - 1) + k.extra[size_t(d)] + 1;
}
Shape result_shape(const ConvCase& k, i64 channels, i64 (*size)(const ConvCase&, int)) {
  Shape s;
  if (batched(k)) s.push_back(k.x[0]);
  s.push_back(channels);
  for (int d = 0; d < axes_of(k); ++d) s.push_back(size(k, d));
  return s;
}

// The position of x that tap `kernel` of position `q` reads; false outside.
bool reads(const ConvCase& k, const std::vector<i64>& q, const std::vector<i64>& kernel,
           const Shape& x, std::vector<i64>& p) {
  const int lead = x.ndim() - axes_of(k);
  p = q;
  for (int d = 0; d < axes_of(k); ++d) {
    const i64 reach = k.dilation[size_t(d)] * (k.w[2 + d] - 1);
    const i64 before = k.same ? reach / 2 : k.padding[size_t(d)];
    const size_t at = size_t(lead + d);
    p[at] = q[at] * k.stride[size_t(d)] - before + kernel[size_t(2 + d)] * k.dilation[size_t(d)];
    if (p[at] < 0 || p[at] >= x[lead + d]) return false;
  }
  return true;
}

// The three contracts in one: every term y[q] ~ x[p] * w[o, c, k] is handed to f(y, x, w), flat
// positions.
template <class F>
void for_terms(const ConvCase& k, const Shape& x, const Shape& y, F&& f) {
  const int lead = x.ndim() - axes_of(k);
  const i64 in_group = k.w[1], out_group = k.w[0] / k.groups;
  for (i64 i = 0; i < count(y); ++i) {
    const std::vector<i64> q = unravel(i, y);
    const i64 o = q[size_t(lead - 1)];
    for (i64 j = 0; j < count(k.w) / k.w[0]; ++j) {
      const i64 w = o * (count(k.w) / k.w[0]) + j;
      const std::vector<i64> kernel = unravel(w, k.w);
      std::vector<i64> p;
      if (!reads(k, q, kernel, x, p)) continue;
      p[size_t(lead - 1)] = o / out_group * in_group + kernel[1];
      f(i, ravel(p, x), w);
    }
  }
}

void add(Array& r, i64 at, double term) {
  r.v[size_t(at)] += term;
  r.magnitude[size_t(at)] += std::fabs(term);
}
Array zeros_like(const Shape& s, double terms) {
  const auto n = size_t(count(s));
  return {s, std::vector<double>(n), kTermsOfFormula + terms, std::vector<double>(n)};
}
void add_bias(Array& r, const Array& bias, int lead) {
  for (i64 i = 0; i < count(r.shape); ++i)
    add(r, i, bias.v[size_t(unravel(i, r.shape)[size_t(lead - 1)])]);
}

Oracle forward_oracle(const ConvCase& k) {
  return [k](const std::vector<Array>& in) {
    const Shape y = result_shape(k, k.w[0], out_size);
    Array r = zeros_like(y, double(count(k.w)) / double(std::max<i64>(k.w[0], 1)));
    for_terms(k, k.x, y,
              [&](i64 i, i64 x, i64 w) { add(r, i, in[0].v[size_t(x)] * in[1].v[size_t(w)]); });
    if (in.size() > 2) add_bias(r, in[2], y.ndim() - axes_of(k));
    return r;
  };
}
// k.x is what the convolution calls y here.
Oracle transposed_oracle(const ConvCase& k) {
  return [k](const std::vector<Array>& in) {
    const Shape x = result_shape(k, k.w[1] * k.groups, transposed_size);
    Array r = zeros_like(x, double(count(k.w)));
    for_terms(k, x, k.x,
              [&](i64 y, i64 i, i64 w) { add(r, i, in[0].v[size_t(y)] * in[1].v[size_t(w)]); });
    if (in.size() > 2) add_bias(r, in[2], x.ndim() - axes_of(k));
    return r;
  };
}
Oracle weight_oracle(const ConvCase& k) {
  return [k](const std::vector<Array>& in) {
    const Shape y = result_shape(k, k.w[0], out_size);
    Array r = zeros_like(k.w, double(count(y)));
    for_terms(k, k.x, y,
              [&](i64 i, i64 x, i64 w) { add(r, w, in[0].v[size_t(i)] * in[1].v[size_t(x)]); });
    return r;
  };
}

ConvOptions options(const ConvCase& k) {
  ConvOptions o{.stride = k.stride, .dilation = k.dilation, .groups = k.groups};
  o.padding = k.same ? ConvPadding(Padding::same) : ConvPadding(PerAxis(k.padding));
  return o;
}

Tensor call_conv(const ConvCase& k, std::span<const Tensor> in) {
  const ConvOptions o = options(k);
  switch (axes_of(k)) {
    case 1:
      return in.size() > 2 ? conv1d(in[0], in[1], in[2], o) : conv1d(in[0], in[1], o);
    case 2:
      return in.size() > 2 ? conv2d(in[0], in[1], in[2], o) : conv2d(in[0], in[1], o);
    default:
      return in.size() > 2 ? conv3d(in[0], in[1], in[2], o) : conv3d(in[0], in[1], o);
  }
}
Tensor call_transposed(const ConvCase& k, std::span<const Tensor> in) {
  const ConvTransposeOptions o{.stride = k.stride,
                               .padding = k.padding,
                               .output_padding = k.extra,
                               .groups = k.groups,
                               .dilation = k.dilation};
  switch (axes_of(k)) {
    case 1:
      return in.size() > 2 ? conv_transpose1d(in[0], in[1], in[2], o)
                           : conv_transpose1d(in[0], in[1], o);
    case 2:
      return in.size() > 2 ? conv_transpose2d(in[0], in[1], in[2], o)
                           : conv_transpose2d(in[0], in[1], o);
    default:
      return in.size() > 2 ? conv_transpose3d(in[0], in[1], in[2], o)
                           : conv_transpose3d(in[0], in[1], o);
  }
}

std::vector<Input> inputs_of(const ConvCase& k, i64 results) {
  std::vector<Input> inputs{{k.x}, {k.w}};
  if (k.bias) inputs.push_back({Shape{results}});
  return inputs;
}

using Call = std::function<void(const Tensor& x, const Tensor& w)>;

void add_row(std::vector<OpCase>& rows, const std::string& name, bool transposed,
             const std::vector<ConvCase>& cases) {
  OpCase c{name, {"conv_forward", "conv_backward_input", "conv_backward_weight"}, kFloats};
  // The gradient of its x of one element is a small sum of three larger products: in f64, where
  // what it is compared with is rounded as well, it is off by more than roundings of the sum.
  c.cancels = name == "conv_transpose3d";
  for (const ConvCase& k : cases) {
    Sample s{str("w ", k.w, k.bias ? ", bias" : "", k.options.empty() ? "" : ", ", k.options),
             inputs_of(k, transposed ? k.w[1] * k.groups : k.w[0]),
             [k, transposed](std::span<const Tensor> in) {
               return transposed ? call_transposed(k, in) : call_conv(k, in);
             },
             transposed ? transposed_oracle(k) : forward_oracle(k)};
    if (count(k.w) == 0 || count(k.x) == 0) s.constant = true;
    if (count(k.x) > 0 && count(k.w) > 0)
      s.torch = str("F.", name, "(a, b", k.bias ? ", c" : "", k.options.empty() ? "" : ", ",
                    k.options, ")");
    c.samples.push_back(std::move(s));
  }
  rows.push_back(std::move(c));
}

ErrorInput conv_error_shapes(const std::string& label, const std::string& text, const Shape& x,
                             const Shape& w, const Call& call) {
  return error_input<ShapeError>(
      label, text, [=](Device d) { call(ones(x, {.device = d}), ones(w, {.device = d})); });
}
ErrorInput conv_error_usage(const std::string& label, const std::string& text, const Shape& x,
                            const Shape& w, const Call& call) {
  return error_input<UsageError>(
      label, text, [=](Device d) { call(ones(x, {.device = d}), ones(w, {.device = d})); });
}
ErrorInput conv_error_dtype(const std::string& op, const Shape& x, const Call& call) {
  return error_input<DtypeError>(
      "dtype", "[" + op + "] expected a floating dtype that computes, got i64", [=](Device d) {
        const Tensor t = ones(x, {.dtype = DType::i64, .device = d});
        call(t, t);
      });
}

void add_conv1d(std::vector<OpCase>& rows) {
  add_row(rows, "conv1d", false,
          {{{2, 2, 5}, {3, 2, 3}, true, {1}, {1}, {1}, {}, 1, "padding=1"},
           {{2, 2, 7}, {2, 2, 3}, false, {2}, {0}, {1}, {}, 1, "stride=2"},
           {{4, 6}, {4, 2, 2}, true, {1}, {0}, {2}, {}, 2, "dilation=2, groups=2"},
           {{1, 1, 6}, {2, 1, 4}, true, {1}, {0}, {1}, {}, 1, "padding='same'", true},
           {{1, 3, 1}, {2, 3, 1}, true, {1}, {0}, {1}, {}},
           {{2, 3, 31}, {5, 3, 5}, true, {3}, {4}, {2}, {}, 1, "stride=3, padding=4, dilation=2"},
           {{1, 6, 33}, {6, 1, 3}, false, {1}, {1}, {1}, {}, 6, "padding=1, groups=6"},
           {{1, 3, 257}, {5, 3, 3}, true, {1}, {1}, {1}, {}, 1, "padding=1"},
           {{1, 17, 7}, {33, 17, 3}, true, {1}, {1}, {1}, {}, 1, "padding=1"},
           {{0, 2, 5}, {3, 2, 3}, true, {1}, {0}, {1}, {}},
           {{2, 0, 5}, {3, 0, 3}, true, {1}, {0}, {1}, {}}});
  OpCase& c = rows.back();
  const Call call = [](const Tensor& x, const Tensor& w) { (void)conv1d(x, w); };
  const std::string tag = "[conv1d] ";
  c.errors = {undefined_operand("conv1d", call), two_devices("conv1d", call),
              conv_error_dtype("conv1d", {1, 1, 3}, call),
              conv_error_shapes("rank", tag + "x has 4 dimensions, 3 are needed: [N, C, L], or 2",
                                {1, 1, 1, 3}, {1, 1, 1}, call),
              conv_error_shapes("weight", tag + "weight has 2 dimensions, 3 are needed", {1, 3},
                                {1, 1}, call)};
}

void add_conv2d(std::vector<OpCase>& rows) {
  const std::vector<i64> one{1, 1}, none{0, 0};
  add_row(
      rows, "conv2d", false,
      {{{2, 2, 3, 4}, {2, 2, 2, 2}, true, one, none, one, {}},
       {{1, 2, 4, 3},
        {3, 2, 3, 2},
        false,
        {2, 1},
        {1, 0},
        one,
        {},
        1,
        "stride=(2, 1), padding=(1, 0)"},
       {{2, 4, 5},
        {4, 1, 2, 2},
        true,
        one,
        {1, 1},
        {1, 2},
        {},
        2,
        "padding=1, dilation=(1, 2), groups=2"},
       {{1, 2, 4, 3}, {2, 1, 2, 3}, true, one, none, one, {}, 2, "padding='same', groups=2", true},
       {{1, 1, 1, 1}, {2, 1, 3, 3}, true, one, {1, 1}, one, {}, 1, "padding=1"},
       {{2, 3, 9, 7},
        {5, 3, 3, 3},
        true,
        {3, 2},
        {2, 1},
        {1, 2},
        {},
        1,
        "stride=(3, 2), padding=(2, 1), dilation=(1, 2)"},
       {{1, 6, 9, 31}, {6, 1, 3, 3}, true, one, {1, 1}, one, {}, 6, "padding=1, groups=6"},
       {{1, 6, 9, 9},
        {12, 1, 3, 3},
        false,
        {2, 2},
        {1, 1},
        one,
        {},
        6,
        "stride=2, padding=1, groups=6"},
       {{1, 17, 5, 5}, {33, 17, 3, 3}, true, one, {1, 1}, one, {}, 1, "padding=1"},
       {{3, 5, 6, 5}, {7, 5, 1, 1}, true, one, none, one, {}},
       {{1, 2, 5, 5}, {2, 2, 1, 1}, false, {3, 3}, none, one, {}, 1, "stride=3"},
       {{1, 2, 3, 3}, {2, 2, 2, 2}, true, one, {3, 3}, one, {}, 1, "padding=3"},
       {{0, 2, 3, 3}, {2, 2, 2, 2}, true, one, none, one, {}},
       {{1, 2, 0, 3}, {2, 2, 2, 2}, true, one, {1, 0}, one, {}},
       {{1, 2, 3, 3}, {0, 2, 2, 2}, false, one, none, one, {}},
       {{3, 4, 2, 3}, {5, 4, 2, 3}, true, one, none, one, {}},  // as large as the image
       {{2, 7, 1, 1}, {9, 7, 1, 1}, false, one, none, one, {}}});
  OpCase& c = rows.back();
  const std::string tag = "[conv2d] ";
  const auto with = [](const ConvOptions& o) {
    return [o](const Tensor& x, const Tensor& w) { (void)conv2d(x, w, o); };
  };
  const Call call = with({});
  const Shape x{1, 4, 5, 5}, w{6, 4, 3, 3};
  c.errors = {
      undefined_operand("conv2d", call),
      two_devices("conv2d", call),
      conv_error_dtype("conv2d", {1, 1, 3, 3}, call),
      conv_error_shapes("rank", tag + "x has 2 dimensions, 4 are needed: [N, C, H, W], or 3",
                        {3, 3}, w, call),
      conv_error_shapes("weight rank", tag + "weight has 3 dimensions, 4 are needed", x, {6, 4, 3},
                        call),
      conv_error_shapes("channels", tag + "x has 4 channels, weight takes 3", x, {6, 3, 3, 3},
                        call),
      conv_error_shapes("groups", tag + "x's channels 4 cannot be divided among groups 3", x, w,
                        with({.groups = 3})),
      conv_error_shapes("groups of results",
                        tag + "weight's output channels 6 cannot be divided among groups 4", x,
                        {6, 1, 3, 3}, with({.groups = 4})),
      conv_error_shapes("kernel too large",
                        tag + "the kernel spans 9 elements of spatial axis 0, x has 5, 7 with "
                              "padding",
                        x, w, with({.padding = 1, .dilation = 4})),
      conv_error_shapes("no kernel", tag + "weight has a kernel of size 0", x, {6, 4, 0, 3}, call),
      conv_error_usage("stride", tag + "stride must be at least 1, got 0", x, w,
                       with({.stride = {1, 0}})),
      conv_error_usage("stride's numbers", tag + "stride has 3 numbers, 1 or 2 are needed", x, w,
                       with({.stride = {1, 1, 1}})),
      conv_error_usage("padding", tag + "padding must be at least 0, got -1", x, w,
                       with({.padding = -1})),
      conv_error_usage("dilation", tag + "dilation must be at least 1, got -2", x, w,
                       with({.dilation = -2})),
      conv_error_usage("groups 0", tag + "groups must be at least 1, got 0", x, w,
                       with({.groups = 0})),
      conv_error_usage("same", tag + "padding same needs stride 1, got 2", x, w,
                       with({.stride = 2, .padding = Padding::same})),
      conv_error_shapes("bias", tag + "bias [5] \u2260 output channels [6]", x, w,
                        [](const Tensor& a, const Tensor& b) {
                          (void)conv2d(a, b, ones({5}, {.device = a.device()}));
                        })};
}

void add_conv3d(std::vector<OpCase>& rows) {
  const std::vector<i64> one{1, 1, 1}, none{0, 0, 0};
  add_row(rows, "conv3d", false,
          {{{2, 1, 3, 3, 2}, {2, 1, 2, 2, 2}, true, one, none, one, {}},
           {{1, 2, 3, 2, 2},
            {2, 2, 2, 1, 2},
            false,
            {2, 1, 1},
            {1, 0, 1},
            one,
            {},
            1,
            "stride=(2, 1, 1), padding=(1, 0, 1)"},
           {{2, 3, 2, 3},
            {2, 1, 2, 1, 2},
            true,
            one,
            none,
            {1, 1, 2},
            {},
            2,
            "dilation=(1, 1, 2), groups=2"},
           {{1, 1, 2, 2, 2}, {1, 1, 2, 3, 1}, true, one, none, one, {}, 1, "padding='same'", true},
           {{1, 3, 5, 7, 6},
            {5, 3, 3, 3, 2},
            true,
            {2, 3, 1},
            {1, 2, 0},
            {2, 1, 1},
            {},
            1,
            "stride=(2, 3, 1), padding=(1, 2, 0), dilation=(2, 1, 1)"},
           {{1, 4, 3, 5, 5}, {4, 1, 3, 3, 3}, true, one, one, one, {}, 4, "padding=1, groups=4"},
           {{1, 1, 1, 1, 1}, {3, 1, 1, 1, 1}, true, one, none, one, {}},
           {{0, 1, 3, 3, 3}, {2, 1, 2, 2, 2}, true, one, none, one, {}}});
  OpCase& c = rows.back();
  const Call call = [](const Tensor& x, const Tensor& w) { (void)conv3d(x, w); };
  const std::string tag = "[conv3d] ";
  c.errors = {undefined_operand("conv3d", call), two_devices("conv3d", call),
              conv_error_dtype("conv3d", {1, 1, 3, 3, 3}, call),
              conv_error_shapes("rank", tag + "x has 3 dimensions, 5 are needed: [N, C, D, H, W]",
                                {1, 1, 3}, {1, 1, 1, 1, 1}, call),
              conv_error_shapes("kernel", tag + "the kernel spans 4 elements of spatial axis 1",
                                {1, 1, 3, 3, 3}, {1, 1, 1, 4, 1}, call)};
}

void add_conv_transpose1d(std::vector<OpCase>& rows) {
  add_row(rows, "conv_transpose1d", true,
          {{{2, 2, 5}, {2, 3, 3}, true, {1}, {0}, {1}, {0}},
           {{2, 2, 4},
            {2, 2, 3},
            false,
            {2},
            {1},
            {1},
            {1},
            1,
            "stride=2, padding=1, output_padding=1"},
           {{4, 5}, {4, 2, 2}, true, {1}, {0}, {2}, {0}, 2, "groups=2, dilation=2"},
           {{1, 3, 1}, {3, 2, 1}, true, {1}, {0}, {1}, {0}},
           {{2, 3, 7},
            {3, 5, 4},
            true,
            {3},
            {2},
            {2},
            {1},
            1,
            "stride=3, padding=2, output_padding=1, dilation=2"},
           {{1, 3, 3}, {3, 2, 1}, false, {3}, {0}, {1}, {2}, 1, "stride=3, output_padding=2"},
           {{1, 6, 33}, {6, 1, 3}, true, {2}, {1}, {1}, {0}, 6, "stride=2, padding=1, groups=6"},
           {{0, 2, 5}, {2, 3, 3}, true, {1}, {0}, {1}, {0}}});
  OpCase& c = rows.back();
  const Call call = [](const Tensor& x, const Tensor& w) { (void)conv_transpose1d(x, w); };
  const std::string tag = "[conv_transpose1d] ";
  c.errors = {undefined_operand("conv_transpose1d", call), two_devices("conv_transpose1d", call),
              conv_error_dtype("conv_transpose1d", {1, 1, 3}, call),
              conv_error_shapes("weight",
                                tag + "weight has 2 dimensions, 3 are needed: [in "
                                      "channels, out channels / groups, kernel]",
                                {1, 3}, {1, 1}, call)};
}

void add_conv_transpose2d(std::vector<OpCase>& rows) {
  const std::vector<i64> one{1, 1}, none{0, 0};
  add_row(rows, "conv_transpose2d", true,
          {{{2, 2, 3, 2}, {2, 2, 2, 2}, true, one, none, one, none},
           {{1, 2, 3, 3},
            {2, 3, 3, 2},
            false,
            {2, 1},
            {1, 0},
            one,
            {1, 0},
            1,
            "stride=(2, 1), padding=(1, 0), output_padding=(1, 0)"},
           {{2, 3, 3},
            {2, 2, 2, 2},
            true,
            {1, 2},
            none,
            {2, 1},
            none,
            2,
            "stride=(1, 2), groups=2, dilation=(2, 1)"},
           {{1, 1, 1, 1}, {1, 2, 3, 3}, true, one, {1, 1}, one, none, 1, "padding=1"},
           {{2, 5, 4, 3},
            {5, 3, 3, 3},
            true,
            {3, 2},
            {2, 1},
            {1, 2},
            {2, 1},
            1,
            "stride=(3, 2), padding=(2, 1), output_padding=(2, 1), dilation=(1, 2)"},
           {{1, 6, 5, 9},
            {6, 1, 3, 3},
            true,
            {2, 2},
            {1, 1},
            one,
            one,
            6,
            "stride=2, padding=1, output_padding=1, groups=6"},
           {{1, 17, 4, 4}, {17, 33, 3, 3}, true, one, {1, 1}, one, none, 1, "padding=1"},
           {{1, 3, 3, 3},
            {3, 2, 1, 1},
            true,
            {2, 3},
            none,
            one,
            {1, 2},
            1,
            "stride=(2, 3), output_padding=(1, 2)"},
           {{1, 0, 3, 3}, {0, 2, 2, 2}, true, one, none, one, none},
           {{3, 6, 1, 1}, {6, 4, 3, 2}, true, one, none, one, none}});  // from one pixel
  OpCase& c = rows.back();
  const auto with = [](const ConvTransposeOptions& o) {
    return [o](const Tensor& x, const Tensor& w) { (void)conv_transpose2d(x, w, o); };
  };
  const Call call = with({});
  const std::string tag = "[conv_transpose2d] ";
  const Shape x{1, 4, 3, 3}, w{4, 2, 3, 3};
  c.errors = {
      undefined_operand("conv_transpose2d", call),
      two_devices("conv_transpose2d", call),
      conv_error_dtype("conv_transpose2d", {1, 1, 3, 3}, call),
      conv_error_shapes("channels", tag + "x has 4 channels, weight takes 2", x, {2, 2, 3, 3},
                        call),
      conv_error_usage("output_padding",
                       tag + "output_padding 2 must be less than stride 2 or dilation 1", x, w,
                       with({.stride = 2, .output_padding = 2})),
      conv_error_shapes("padding", tag + "padding 3 leaves nothing of spatial axis 0: size -1", x,
                        w, with({.padding = 3})),
      conv_error_shapes("bias", tag + "bias [4] \u2260 output channels [2]", x, w,
                        [](const Tensor& a, const Tensor& b) {
                          (void)conv_transpose2d(a, b, ones({4}, {.device = a.device()}));
                        })};
}

void add_conv_transpose3d(std::vector<OpCase>& rows) {
  const std::vector<i64> one{1, 1, 1}, none{0, 0, 0};
  add_row(rows, "conv_transpose3d", true,
          {{{1, 2, 2, 3, 2}, {2, 2, 2, 1, 2}, true, one, none, one, none},
           {{1, 1, 2, 2, 2},
            {1, 2, 2, 2, 2},
            false,
            {2, 1, 2},
            none,
            one,
            {1, 0, 0},
            1,
            "stride=(2, 1, 2), output_padding=(1, 0, 0)"},
           {{2, 2, 2, 2},
            {2, 1, 2, 2, 1},
            true,
            one,
            {1, 0, 0},
            {2, 1, 1},
            none,
            2,
            "padding=(1, 0, 0), groups=2, dilation=(2, 1, 1)"},
           {{1, 3, 3, 4, 3},
            {3, 5, 3, 2, 3},
            true,
            {2, 3, 2},
            {1, 0, 2},
            {1, 1, 2},
            {0, 1, 1},
            1,
            "stride=(2, 3, 2), padding=(1, 0, 2), output_padding=(0, 1, 1), dilation=(1, 1, 2)"},
           {{1, 4, 3, 5, 5}, {4, 1, 3, 3, 3}, true, one, one, one, none, 4, "padding=1, groups=4"},
           {{1, 1, 1, 1, 1}, {1, 3, 1, 1, 1}, true, one, none, one, none}});
  OpCase& c = rows.back();
  const Call call = [](const Tensor& x, const Tensor& w) { (void)conv_transpose3d(x, w); };
  const std::string tag = "[conv_transpose3d] ";
  c.errors = {undefined_operand("conv_transpose3d", call), two_devices("conv_transpose3d", call),
              conv_error_dtype("conv_transpose3d", {1, 1, 3, 3, 3}, call),
              conv_error_shapes("rank", tag + "x has 3 dimensions, 5 are needed", {1, 1, 3},
                                {1, 1, 1, 1, 1}, call)};
}

void add_conv_weight_grad(std::vector<OpCase>& rows) {
  OpCase c{
      "conv_weight_grad", {"conv_forward", "conv_backward_input", "conv_backward_weight"}, kFloats};
  const std::vector<i64> one{1, 1}, none{0, 0};
  const ConvCase cases[] = {
      {{2, 2, 3, 4}, {2, 2, 2, 2}, false, one, none, one, {}},
      {{1, 2, 4, 3},
       {3, 2, 3, 2},
       false,
       {2, 1},
       {1, 0},
       one,
       {},
       1,
       "stride=(2, 1), padding=(1, 0)"},
      {{4, 6}, {4, 2, 2}, false, {1}, {0}, {2}, {}, 2, "dilation=2, groups=2"},
      {{1, 1, 3, 3, 2}, {2, 1, 2, 2, 2}, false, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, {}},
      {{1, 2, 4, 3}, {2, 1, 2, 3}, false, one, none, one, {}, 2, "padding='same'", true},
      {{2, 3, 9, 7},
       {5, 3, 3, 3},
       false,
       {3, 2},
       {2, 1},
       {1, 2},
       {},
       1,
       "stride=(3, 2), padding=(2, 1), dilation=(1, 2)"},
      {{2, 6, 9, 31}, {6, 1, 3, 3}, false, one, {1, 1}, one, {}, 6, "padding=1, groups=6"},
      {{1, 17, 5, 5}, {33, 17, 3, 3}, false, one, {1, 1}, one, {}, 1, "padding=1"},
      {{1, 1, 33}, {2, 1, 5}, false, {1}, {2}, {1}, {}, 1, "padding=2"},
      {{0, 2, 3, 3}, {2, 2, 2, 2}, false, one, none, one, {}},
      {{3, 4, 5}, {6, 4, 5}, false, {1}, {0}, {1}, {}}};  // as large as the image
  for (const ConvCase& k : cases) {
    const Shape y = result_shape(k, k.w[0], out_size);
    Sample s{
        str("w ", k.w, k.options.empty() ? "" : ", ", k.options),
        {{y}, {k.x}},
        [k](std::span<const Tensor> in) { return conv_weight_grad(in[0], in[1], k.w, options(k)); },
        weight_oracle(k)};
    if (axes_of(k) == 2 && batched(k) && !k.same && count(k.x) > 0 && k.groups == 1)
      s.torch = str("torch.nn.grad.conv2d_weight(b, ", k.w, ", a", k.options.empty() ? "" : ", ",
                    k.options, ")");
    s.constant = count(k.x) == 0;
    c.samples.push_back(std::move(s));
  }
  const Call call = [](const Tensor& gy, const Tensor& x) {
    (void)conv_weight_grad(gy, x, {2, 1, 2, 2});
  };
  const std::string tag = "[conv_weight_grad] ";
  c.errors = {
      undefined_operand("conv_weight_grad", call),
      two_devices("conv_weight_grad", call),
      conv_error_dtype("conv_weight_grad", {1, 1, 3, 3}, call),
      conv_error_shapes("gy", tag + "gy [1, 2, 3, 3] \u2260 the convolution's result [1, 2, 2, 2]",
                        {1, 2, 3, 3}, {1, 1, 3, 3}, call),
      conv_error_shapes("channels", tag + "weight [2, 1, 2, 2] does not fit x's channels 3",
                        {1, 2, 2, 2}, {1, 3, 3, 3}, call),
      conv_error_shapes("rank", tag + "weight has 2 dimensions, 3 to 5 are needed", {1, 2, 2, 2},
                        {1, 1, 3, 3}, [](const Tensor& gy, const Tensor& x) {
                          (void)conv_weight_grad(gy, x, {2, 1});
                        })};
  rows.push_back(std::move(c));
}

void add_conv_cases(std::vector<OpCase>& rows) {
  add_conv1d(rows);
  add_conv2d(rows);
  add_conv3d(rows);
  add_conv_transpose1d(rows);
  add_conv_transpose2d(rows);
  add_conv_transpose3d(rows);
  add_conv_weight_grad(rows);
}

const CaseFile file{add_conv_cases};

}  // namespace
}  // namespace wt_test
