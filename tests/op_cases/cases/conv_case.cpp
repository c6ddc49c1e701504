#include "warptape/tests/op_cases/cases/conv_case.h"

namespace wt_test {

int axes_of(const ConvCase& k) { return k.w.ndim() - 2; }
bool batched(const ConvCase& k) { return k.x.ndim() == axes_of(k) + 2; }
i64 out_size(const ConvCase& k, int d) {
  const int lead = k.x.ndim() - axes_of(k);
  const i64 reach = k.dilation[size_t(d)] * (k.w[2 + d] - 1) + 1;
  if (k.same) return k.x[lead + d];
  return (k.x[lead + d] + 2 * k.padding[size_t(d)] - reach) / k.stride[size_t(d)] + 1;
}
static i64 transposed_size(const ConvCase& k, int d) {
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
static bool reads(const ConvCase& k, const std::vector<i64>& q, const std::vector<i64>& kernel,
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
static void for_terms(const ConvCase& k, const Shape& x, const Shape& y, F&& f) {
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

static void add(Array& r, i64 at, double term) {
  r.v[size_t(at)] += term;
  r.magnitude[size_t(at)] += std::fabs(term);
}
static Array zeros_like(const Shape& s, double terms) {
  const auto n = size_t(count(s));
  return {s, std::vector<double>(n), kTermsOfFormula + terms, std::vector<double>(n)};
}
static void add_bias(Array& r, const Array& bias, int lead) {
  for (i64 i = 0; i < count(r.shape); ++i)
    add(r, i, bias.v[size_t(unravel(i, r.shape)[size_t(lead - 1)])]);
}

Oracle forward_oracle(const ConvCase& k) {
  return [k](const std::vector<Array>& in) {
    const Shape y = result_shape(k, k.w[0], out_size);
    Array r = zeros_like(y, double(count(k.w)) / double(std::max<i64>(k.w[0], 1)));
    for_terms(k, k.x, y,
              [&](i64 i, i64 x, i64 w) { add(r, i, in[0].v[size_t(x)] * in[1].v[size_t(w)]); });
    if (k.bias) add_bias(r, in[2], y.ndim() - axes_of(k));
    return r;
  };
}
// k.x is what the convolution calls y here.
static Oracle transposed_oracle(const ConvCase& k) {
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

static Tensor call_conv(const ConvCase& k, std::span<const Tensor> in) {
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
static Tensor call_transposed(const ConvCase& k, std::span<const Tensor> in) {
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

static std::vector<Input> inputs_of(const ConvCase& k, i64 results) {
  std::vector<Input> inputs{{k.x}, {k.w}};
  if (k.bias) inputs.push_back({Shape{results}});
  return inputs;
}

void add_conv_row(std::vector<OpCase>& rows, const std::string& name, bool transposed,
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
                             const Shape& w, const ConvCall& call) {
  return error_input<ShapeError>(
      label, text, [=](Device d) { call(ones(x, {.device = d}), ones(w, {.device = d})); });
}
ErrorInput conv_error_usage(const std::string& label, const std::string& text, const Shape& x,
                            const Shape& w, const ConvCall& call) {
  return error_input<UsageError>(
      label, text, [=](Device d) { call(ones(x, {.device = d}), ones(w, {.device = d})); });
}
ErrorInput conv_error_dtype(const std::string& op, const Shape& x, const ConvCall& call) {
  return error_input<DtypeError>(
      "dtype", "[" + op + "] expected a floating dtype that computes, got i64", [=](Device d) {
        const Tensor t = ones(x, {.dtype = DType::i64, .device = d});
        call(t, t);
      });
}

}  // namespace wt_test
