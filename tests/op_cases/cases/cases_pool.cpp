// Rows of the poolings.
#include "warptape/autograd/ops/pool.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {
namespace {

struct PoolCase {
  Shape x;
  std::vector<i64> kernel, stride, padding, dilation;  // adaptive: kernel are the sizes
  bool ceil = false;
  std::string torch{};  // options as PyTorch writes them
  bool count = true;
  i64 divisor = 0;
};

enum class Pooling : u8 { max, average, adaptive_average, adaptive_max };

bool adaptive(Pooling how) {
  return how == Pooling::adaptive_average || how == Pooling::adaptive_max;
}

// Positions of a window along one axis, and how many elements it counts with the padding.
struct Span {
  std::vector<i64> inside;
  i64 with_padding = 0;
};
Span span_of(const PoolCase& k, Pooling how, size_t d, i64 in, i64 q) {
  Span s;
  if (adaptive(how)) {
    const i64 out = k.kernel[d];
    for (i64 p = 0; p < in; ++p)
      if (p >= q * in / out && p < ((q + 1) * in + out - 1) / out) s.inside.push_back(p);
    return s;
  }
  for (i64 t = 0; t < k.kernel[d]; ++t) {
    const i64 p = q * k.stride[d] - k.padding[d] + t * k.dilation[d];
    if (p >= 0 && p < in) s.inside.push_back(p);
    if (p < in + k.padding[d]) ++s.with_padding;
  }
  return s;
}

i64 out_size(const PoolCase& k, Pooling how, size_t d, i64 in) {
  if (adaptive(how)) return k.kernel[d];
  const i64 left = in + 2 * k.padding[d] - k.dilation[d] * (k.kernel[d] - 1) - 1;
  i64 n = left / k.stride[d] + 1;
  if (k.ceil && left % k.stride[d] != 0 && n * k.stride[d] < in + k.padding[d]) ++n;
  return n;
}

double pooled(const PoolCase& k, Pooling how, const Array& x, std::vector<i64> at,
              double& magnitude) {
  const size_t axes = k.kernel.size(), lead = at.size() - axes;
  std::vector<Span> spans;
  double count = 1, with_padding = 1;
  std::vector<i64> q = at;
  i64 total = 1;
  for (size_t d = 0; d < axes; ++d) {
    spans.push_back(span_of(k, how, d, x.shape[int(lead + d)], at[lead + d]));
    count *= double(spans[d].inside.size());
    with_padding *= double(spans[d].with_padding);
    total *= i64(spans[d].inside.size());
  }
  double sum = 0, largest = -INFINITY;
  magnitude = 0;
  for (i64 i = 0; i < total; ++i) {
    i64 rest = i;
    for (size_t d = axes; d-- > 0;) {
      const i64 n = i64(spans[d].inside.size());
      q[lead + d] = spans[d].inside[size_t(rest % n)];
      rest /= n;
    }
    const double v = x.v[size_t(ravel(q, x.shape))];
    sum += v;
    magnitude += std::fabs(v);
    largest = std::max(largest, v);
  }
  if (how == Pooling::max || how == Pooling::adaptive_max) {
    magnitude = std::fabs(largest);
    return largest;
  }
  const double divisor = k.divisor != 0                                 ? double(k.divisor)
                         : how == Pooling::adaptive_average || !k.count ? count
                                                                        : with_padding;
  magnitude /= std::fabs(divisor);
  return sum / divisor;
}

Oracle pool_oracle(const PoolCase& k, Pooling how) {
  return [k, how](const std::vector<Array>& in) {
    const Array& x = in[0];
    const int axes = int(k.kernel.size()), lead = x.shape.ndim() - axes;
    Shape y(x.shape.data(), lead);
    double terms = 1;
    for (int d = 0; d < axes; ++d) {
      y.push_back(out_size(k, how, size_t(d), x.shape[lead + d]));
      terms *= double(adaptive(how) ? x.shape[lead + d] : k.kernel[size_t(d)]);
    }
    Array r{y, {}, kTermsOfFormula + terms};
    for (i64 i = 0; i < count(y); ++i) {
      double magnitude = 0;
      r.v.push_back(pooled(k, how, x, unravel(i, y), magnitude));
      r.magnitude.push_back(magnitude);
    }
    return r;
  };
}

Tensor call_pool(const PoolCase& k, Pooling how, const Tensor& x) {
  const size_t axes = k.kernel.size();
  if (how == Pooling::adaptive_max) return adaptive_max_pool2d(x, k.kernel);
  if (how == Pooling::adaptive_average)
    return axes == 1   ? adaptive_avg_pool1d(x, k.kernel)
           : axes == 2 ? adaptive_avg_pool2d(x, k.kernel)
                       : adaptive_avg_pool3d(x, k.kernel);
  if (how == Pooling::max) {
    const MaxPoolOptions o{.stride = PerAxis(k.stride),
                           .padding = k.padding,
                           .dilation = k.dilation,
                           .ceil_mode = k.ceil};
    return axes == 1   ? max_pool1d(x, k.kernel, o)
           : axes == 2 ? max_pool2d(x, k.kernel, o)
                       : max_pool3d(x, k.kernel, o);
  }
  AvgPoolOptions o{.stride = PerAxis(k.stride),
                   .padding = k.padding,
                   .ceil_mode = k.ceil,
                   .count_include_pad = k.count};
  if (k.divisor != 0) o.divisor_override = k.divisor;
  return axes == 1   ? avg_pool1d(x, k.kernel, o)
         : axes == 2 ? avg_pool2d(x, k.kernel, o)
                     : avg_pool3d(x, k.kernel, o);
}

Array permuted(const Array& x, const std::vector<i64>& order) {
  Shape shape = x.shape;
  for (size_t d = 0; d < order.size(); ++d) shape[int(d)] = x.shape[int(order[d])];
  const auto from = [&](const std::vector<i64>& i) {
    std::vector<i64> place(i.size());
    for (size_t d = 0; d < i.size(); ++d) place[size_t(order[d])] = i[d];
    return size_t(ravel(place, x.shape));
  };
  Array r = filled(shape, [&](const std::vector<i64>& i) { return x.v[from(i)]; });
  r.terms = x.terms;
  for (i64 i = 0; !x.magnitude.empty() && i < count(shape); ++i)
    r.magnitude.push_back(x.magnitude[from(unravel(i, shape))]);
  return r;
}

// The first case of several channels once more, with the channels of a place side by side, in the
// gradient that comes back too.
Sample channels_last(const std::vector<PoolCase>& cases, Pooling how) {
  const PoolCase* k = &cases[0];
  while (k->x.ndim() != int(k->kernel.size()) + 2 || k->x[1] == 1) ++k;
  const int n = k->x.ndim();
  std::vector<i64> in_order{0, n - 1}, back{0};
  Shape last{k->x[0]};
  for (int d = 2; d < n; ++d) {
    in_order.push_back(d - 1);
    back.push_back(d);
    last.push_back(k->x[d]);
  }
  back.push_back(1);
  last.push_back(k->x[1]);
  return {"channels side by side",
          {{last}},
          [k = *k, how, in_order, back](std::span<const Tensor> in) {
            return permute(call_pool(k, how, permute(in[0], in_order)), back);
          },
          [k = *k, how, in_order, back](const std::vector<Array>& in) {
            return permuted(pool_oracle(k, how)({permuted(in[0], in_order)}), back);
          }};
}

using Call = std::function<void(const Tensor&)>;

// `small`: a shape of the right rank.
void add_pool(std::vector<OpCase>& rows, const std::string& name, Pooling how,
              const std::vector<PoolCase>& cases, const Shape& small, const Call& call,
              const std::vector<ErrorInput>& errors) {
  const bool largest = how == Pooling::max || how == Pooling::adaptive_max;
  OpCase c{
      name,
      largest ? std::vector<std::string>{"max_pool_forward", "max_pool_backward", "max_pool_gather"}
              : std::vector<std::string>{"avg_pool_forward", "avg_pool_backward"},
      kFloats};
  for (const PoolCase& k : cases) {
    Sample s{k.torch.empty() ? "kernel only" : k.torch,
             {{k.x}},
             [k, how](std::span<const Tensor> in) { return call_pool(k, how, in[0]); },
             pool_oracle(k, how)};
    if (count(k.x) > 0) s.torch = "F." + name + "(a, " + k.torch + ")";
    c.samples.push_back(std::move(s));
  }
  c.samples.push_back(channels_last(cases, how));
  const Apply both = [call](const Tensor& x, const Tensor&) { call(x); };
  c.errors = {
      undefined_operand(name, both),
      error_input<DtypeError>(
          "dtype", "[" + name + "] expected a floating dtype that computes, got i64",
          [small, call](Device d) { call(ones(small, {.dtype = DType::i64, .device = d})); }),
      error_input<ShapeError>("rank", "[" + name + "] x has 1 dimensions, ",
                              [call](Device d) { call(ones({3}, {.device = d})); })};
  c.errors.insert(c.errors.end(), errors.begin(), errors.end());
  rows.push_back(std::move(c));
}

template <class E>
ErrorInput pool_error(const std::string& label, const std::string& text, const Shape& x,
                      const Call& call) {
  return error_input<E>(label, text, [=](Device d) { call(ones(x, {.device = d})); });
}

void add_max(std::vector<OpCase>& rows) {
  add_pool(rows, "max_pool1d", Pooling::max,
           {{{2, 3, 7}, {2}, {2}, {0}, {1}, false, "2"},
            {{2, 2, 9}, {3}, {2}, {1}, {1}, false, "3, 2, 1"},
            {{3, 8}, {2}, {3}, {1}, {2}, true, "2, 3, 1, 2, ceil_mode=True"},
            {{1, 1, 5}, {5}, {1}, {2}, {1}, false, "5, 1, 2"},
            {{2, 3, 257}, {4}, {4}, {0}, {1}, false, "4"},
            {{1, 1, 700}, {300}, {40}, {0}, {1}, false, "300, 40"},
            {{2, 1, 1}, {1}, {1}, {0}, {1}, false, "1"},
            {{0, 2, 4}, {2}, {2}, {0}, {1}, false, "2"}},
           {1, 1, 4}, [](const Tensor& x) { (void)max_pool1d(x, 2); },
           {pool_error<UsageError>("kernel", "[max_pool1d] kernel must be at least 1, got 0",
                                   {1, 1, 4}, [](const Tensor& x) { (void)max_pool1d(x, 0); })});
  const Shape x{1, 2, 5, 5};
  add_pool(
      rows, "max_pool2d", Pooling::max,
      {{{2, 2, 4, 4}, {2, 2}, {2, 2}, {0, 0}, {1, 1}, false, "2"},
       {{1, 2, 5, 5}, {3, 2}, {2, 1}, {1, 0}, {1, 2}, false, "(3, 2), (2, 1), (1, 0), (1, 2)"},
       {{2, 5, 6}, {2, 3}, {2, 2}, {0, 1}, {1, 1}, true, "(2, 3), 2, (0, 1), ceil_mode=True"},
       {{1, 1, 1, 1}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, false, "1"},
       {{2, 3, 7, 33}, {2, 2}, {2, 2}, {0, 0}, {1, 1}, false, "2"},
       {{1, 17, 9, 9}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false, "3, 2, 1"},
       {{1, 2, 40, 70}, {17, 17}, {20, 20}, {0, 0}, {1, 1}, false, "17, 20"},
       {{1, 3, 5, 7}, {2, 2}, {3, 3}, {1, 1}, {1, 1}, true, "2, 3, 1, ceil_mode=True"},
       {{0, 2, 4, 4}, {2, 2}, {2, 2}, {0, 0}, {1, 1}, false, "2"}},
      x, [](const Tensor& t) { (void)max_pool2d(t, 2); },
      {pool_error<UsageError>("padding", "[max_pool2d] padding 2 is more than half the kernel 3", x,
                              [](const Tensor& t) { (void)max_pool2d(t, 3, {.padding = 2}); }),
       pool_error<ShapeError>("kernel too large",
                              "[max_pool2d] the kernel spans 6 elements of spatial axis 1, x has 5",
                              x,
                              [](const Tensor& t) {
                                (void)max_pool2d(t, {2, 6});
                              }),
       pool_error<UsageError>("stride", "[max_pool2d] stride must be at least 1, got 0", x,
                              [](const Tensor& t) { (void)max_pool2d(t, 2, {.stride = 0}); }),
       pool_error<UsageError>("dilation", "[max_pool2d] dilation must be at least 1, got -1", x,
                              [](const Tensor& t) { (void)max_pool2d(t, 2, {.dilation = -1}); }),
       pool_error<UsageError>("numbers", "[max_pool2d] kernel has 3 numbers, 1 or 2 are needed", x,
                              [](const Tensor& t) {
                                (void)max_pool2d(t, {2, 2, 2});
                              }),
       pool_error<ShapeError>("empty", "[max_pool2d] x's size is 0 in spatial axis 0", {1, 1, 0, 3},
                              [](const Tensor& t) { (void)max_pool2d(t, 2); })});
  add_pool(
      rows, "max_pool3d", Pooling::max,
      {{{1, 2, 2, 4, 3}, {2, 2, 2}, {1, 2, 1}, {0, 0, 0}, {1, 1, 1}, false, "2, (1, 2, 1)"},
       {{2, 1, 3, 3, 3},
        {2, 1, 3},
        {2, 1, 1},
        {1, 0, 1},
        {1, 1, 1},
        false,
        "(2, 1, 3), (2, 1, 1), (1, 0, 1)"},
       {{1, 3, 3, 4}, {2, 2, 2}, {2, 2, 2}, {0, 0, 0}, {1, 1, 1}, true, "2, ceil_mode=True"},
       {{2, 3, 3, 7, 5}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}, {1, 1, 1}, false, "(1, 2, 2)"},
       {{0, 2, 2, 2, 2}, {2, 2, 2}, {2, 2, 2}, {0, 0, 0}, {1, 1, 1}, false, "2"}},
      {1, 1, 2, 2, 2}, [](const Tensor& t) { (void)max_pool3d(t, 2); },
      {pool_error<ShapeError>("kernel",
                              "[max_pool3d] the kernel spans 3 elements of spatial axis 0, x "
                              "has 2",
                              {1, 1, 2, 2, 2}, [](const Tensor& t) { (void)max_pool3d(t, 3); })});
}

void add_average(std::vector<OpCase>& rows) {
  add_pool(rows, "avg_pool1d", Pooling::average,
           {{{2, 3, 7}, {2}, {2}, {0}, {1}, false, "2"},
            {{2, 2, 9}, {3}, {2}, {1}, {1}, false, "3, 2, 1"},
            {{3, 8}, {3}, {2}, {1}, {1}, true, "3, 2, 1, ceil_mode=True"},
            {{2, 9},
             {4},
             {3},
             {2},
             {1},
             true,
             "4, 3, 2, ceil_mode=True, count_include_pad=False",
             false},
            {{2, 3, 257}, {5}, {4}, {0}, {1}, false, "5, 4"},
            {{2, 1, 1}, {1}, {1}, {0}, {1}, false, "1"},
            {{0, 2, 4}, {2}, {2}, {0}, {1}, false, "2"}},
           {1, 1, 4}, [](const Tensor& x) { (void)avg_pool1d(x, 2); },
           {pool_error<UsageError>("kernel", "[avg_pool1d] kernel must be at least 1, got -2",
                                   {1, 1, 4}, [](const Tensor& x) { (void)avg_pool1d(x, -2); })});
  const Shape x{1, 2, 5, 5};
  add_pool(
      rows, "avg_pool2d", Pooling::average,
      {{{2, 2, 4, 4}, {2, 2}, {2, 2}, {0, 0}, {1, 1}, false, "2"},
       {{1, 2, 5, 5}, {3, 2}, {2, 1}, {1, 0}, {1, 1}, false, "(3, 2), (2, 1), (1, 0)"},
       {{2, 5, 6},
        {2, 3},
        {2, 2},
        {1, 1},
        {1, 1},
        true,
        "(2, 3), 2, 1, ceil_mode=True, count_include_pad=False",
        false},
       {{2, 4, 5},
        {2, 2},
        {1, 2},
        {1, 0},
        {1, 1},
        false,
        "2, (1, 2), (1, 0), divisor_override=3",
        true,
        3},
       {{2, 3, 7, 33}, {2, 2}, {2, 2}, {0, 0}, {1, 1}, false, "2"},
       {{1, 17, 9, 9}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, true, "3, 2, 1, ceil_mode=True"},
       {{1, 1, 1, 1}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, false, "1"},
       {{0, 2, 4, 4}, {2, 2}, {2, 2}, {0, 0}, {1, 1}, false, "2"}},
      x, [](const Tensor& t) { (void)avg_pool2d(t, 2); },
      {pool_error<UsageError>("padding", "[avg_pool2d] padding 2 is more than half the kernel 2", x,
                              [](const Tensor& t) { (void)avg_pool2d(t, 2, {.padding = 2}); }),
       pool_error<UsageError>(
           "divisor", "[avg_pool2d] divisor_override must not be 0", x,
           [](const Tensor& t) { (void)avg_pool2d(t, 2, {.divisor_override = 0}); })});
  add_pool(
      rows, "avg_pool3d", Pooling::average,
      {{{1, 2, 2, 4, 3}, {2, 2, 2}, {1, 2, 1}, {0, 0, 0}, {1, 1, 1}, false, "2, (1, 2, 1)"},
       {{2, 1, 3, 3, 3},
        {2, 1, 3},
        {2, 1, 1},
        {1, 0, 1},
        {1, 1, 1},
        false,
        "(2, 1, 3), (2, 1, 1), (1, 0, 1)"},
       {{1, 3, 3, 4}, {2, 2, 2}, {2, 2, 2}, {0, 0, 0}, {1, 1, 1}, true, "2, ceil_mode=True"},
       {{2, 3, 3, 7, 5}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}, {1, 1, 1}, false, "(1, 2, 2)"}},
      {1, 1, 2, 2, 2}, [](const Tensor& t) { (void)avg_pool3d(t, 2); },
      {pool_error<ShapeError>("kernel",
                              "[avg_pool3d] the kernel spans 3 elements of spatial axis 0, x "
                              "has 2",
                              {1, 1, 2, 2, 2}, [](const Tensor& t) { (void)avg_pool3d(t, 3); })});
}

void add_adaptive(std::vector<OpCase>& rows) {
  add_pool(rows, "adaptive_avg_pool1d", Pooling::adaptive_average,
           {{{2, 3, 7}, {3}, {}, {}, {}, false, "3"},
            {{2, 2, 8}, {4}, {}, {}, {}, false, "4"},
            {{3, 5}, {8}, {}, {}, {}, false, "8"},
            {{2, 3, 257}, {31}, {}, {}, {}, false, "31"},
            {{2, 1, 1}, {1}, {}, {}, {}, false, "1"}},
           {1, 1, 4}, [](const Tensor& x) { (void)adaptive_avg_pool1d(x, 2); },
           {pool_error<UsageError>("sizes", "[adaptive_avg_pool1d] sizes must be at least 1, got 0",
                                   {1, 1, 4},
                                   [](const Tensor& x) { (void)adaptive_avg_pool1d(x, 0); })});
  const std::vector<PoolCase> cases{{{2, 2, 4, 4}, {2, 3}, {}, {}, {}, false, "(2, 3)"},
                                    {{1, 2, 5, 5}, {3, 3}, {}, {}, {}, false, "3"},
                                    {{2, 5, 6}, {7, 2}, {}, {}, {}, false, "(7, 2)"},
                                    {{3, 5, 7, 7}, {1, 1}, {}, {}, {}, false, "1"},
                                    {{2, 17, 9, 31}, {4, 5}, {}, {}, {}, false, "(4, 5)"},
                                    {{0, 2, 4, 4}, {2, 2}, {}, {}, {}, false, "2"}};
  add_pool(rows, "adaptive_avg_pool2d", Pooling::adaptive_average, cases, {1, 1, 4, 4},
           [](const Tensor& x) { (void)adaptive_avg_pool2d(x, 2); },
           {pool_error<ShapeError>("empty", "[adaptive_avg_pool2d] x's size is 0 in spatial axis 1",
                                   {1, 1, 4, 0},
                                   [](const Tensor& x) { (void)adaptive_avg_pool2d(x, 2); })});
  add_pool(
      rows, "adaptive_max_pool2d", Pooling::adaptive_max, cases, {1, 1, 4, 4},
      [](const Tensor& x) { (void)adaptive_max_pool2d(x, 2); },
      {pool_error<UsageError>("sizes", "[adaptive_max_pool2d] sizes must be at least 1, got -1",
                              {1, 1, 4, 4}, [](const Tensor& x) {
                                (void)adaptive_max_pool2d(x, {2, -1});
                              })});
  add_pool(rows, "adaptive_avg_pool3d", Pooling::adaptive_average,
           {{{1, 2, 3, 4, 2}, {2, 3, 1}, {}, {}, {}, false, "(2, 3, 1)"},
            {{2, 1, 3, 3, 3}, {2, 2, 2}, {}, {}, {}, false, "2"},
            {{2, 3, 5, 4}, {4, 1, 3}, {}, {}, {}, false, "(4, 1, 3)"}},
           {1, 1, 2, 2, 2}, [](const Tensor& x) { (void)adaptive_avg_pool3d(x, 1); }, {});
}

void add_pool_cases(std::vector<OpCase>& rows) {
  add_max(rows);
  add_average(rows);
  add_adaptive(rows);
}

const CaseFile file{add_pool_cases};

}  // namespace
}  // namespace wt_test
