// Rows of the reductions.
#include <algorithm>
#include <optional>

#include "warptape/autograd/ops/reduce.h"
#include "warptape/tests/op_cases/op_case.h"
#include "warptape/tests/op_cases/reduced.h"

namespace wt_test {
namespace {

Reduced sum_of(const Values& g) {
  Reduced r{0, 0};
  for (double x : g) r.value += x, r.magnitude += std::fabs(x);
  return r;
}
Reduced mean_of(const Values& g) {
  Reduced r = sum_of(g);
  r.value /= double(g.size());
  r.magnitude /= double(g.size());
  return r;
}
Reduced max_of(const Values& g) {
  double m = g[0];
  for (double x : g)
    if (x > m || x != x) m = x;
  return {m, std::fabs(m)};
}
Reduced min_of(const Values& g) {
  double m = g[0];
  for (double x : g)
    if (x < m || x != x) m = x;
  return {m, std::fabs(m)};
}
Reduced argmax_of(const Values& g) {
  size_t best = 0;
  for (size_t i = 1; i < g.size(); ++i)
    if (g[i] > g[best]) best = i;
  return {double(best), double(best)};
}
Reduced argmin_of(const Values& g) {
  size_t best = 0;
  for (size_t i = 1; i < g.size(); ++i)
    if (g[i] < g[best]) best = i;
  return {double(best), double(best)};
}
Reduced prod_of(const Values& g) {
  double p = 1;
  for (double x : g) p *= x;
  return {p, std::fabs(p)};
}
Reduced any_of(const Values& g) {
  return {double(std::any_of(g.begin(), g.end(), [](double v) { return v != 0; })), 1};
}
Reduced all_of(const Values& g) {
  return {double(std::all_of(g.begin(), g.end(), [](double v) { return v != 0; })), 1};
}

using Op = Tensor (*)(const In&, const Dims&, SumOptions);
struct Kind {
  Op op;
  Reduced (*f)(const Values&);
  const char* torch;
  Input (*input)(const Shape&) = [](const Shape& s) { return Input{s}; };
};
Sample sample(const Kind& k, const std::string& label, const Shape& shape, std::optional<Dims> dims,
              std::vector<int> axes, bool keep) {
  const bool all = !dims;
  const std::string torch =
      axes.empty() && !all ? "" : std::string(k.torch) + "(a" + torch_dim(axes, all, keep) + ")";
  if (all)
    for (int d = 0; d < shape.ndim(); ++d) axes.push_back(d);
  Sample s{label + (keep ? " keep" : ""),
           {k.input(shape)},
           [op = k.op, dims, keep](std::span<const Tensor> in) {
             return dims ? op(in[0], *dims, {.keep_dim = keep})
                         : op(in[0], Dims::all(), {.keep_dim = keep});
           },
           [=, f = k.f](const std::vector<Array>& in) { return reduce(in[0], axes, keep, f); }};
  if (!keep || !all) s.torch = torch;
  return s;
}

void add_samples(OpCase& c, const Kind& k, bool several, bool empty) {
  c.samples = {sample(k, "0", {3, 5}, Dims{0}, {0}, false),
               sample(k, "1", {3, 5}, Dims{1}, {1}, false),
               sample(k, "all", {2, 3, 4}, {}, {}, false),
               sample(k, "-2", {2, 3, 4}, Dims{-2}, {1}, true),
               sample(k, "all", {}, {}, {}, false),
               sample(k, "all", {1}, {}, {}, true),
               sample(k, "1", {3, 257}, Dims{1}, {1}, false),
               sample(k, "0", {3, 257}, Dims{0}, {0}, false),
               sample(k, "1", {0, 3}, Dims{1}, {1}, false),
               sample(k, "all", {31, 33}, {}, {}, false)};
  if (several) {
    c.samples.push_back(sample(k, "0, 2", {2, 3, 4}, Dims{0, 2}, {0, 2}, false));
    c.samples.push_back(sample(k, "0, -1", {3, 7, 2, 5}, Dims{0, -1}, {0, 3}, true));
    c.samples.push_back(sample(k, "none", {2, 3}, Dims{}, {}, false));
  }
  if (empty) c.samples.push_back(sample(k, "0", {0, 3}, Dims{0}, {0}, false));
  const Op op = k.op;
  const Apply apply = [op](const Tensor& x, const Tensor&) { (void)op(x, Dims::all(), {}); };
  c.errors = {undefined_operand(c.name, apply),
              error_input<ShapeError>("axis", "axis 2", [op](Device d) {
                (void)op(ones({2, 3}, {.device = d}), {2}, {});
              })};
}

ErrorInput refuses_storage(const std::string& name, Op op) {
  return storage_dtype(name, "i16 is for storage only",
                       [op](const Tensor& x, const Tensor&) { (void)op(x, Dims::all(), {}); });
}

// Mostly zeros (any) or mostly not (all).
Input sparse_truth(const Shape& s, bool rare) {
  Input in{s};
  for (i64 i = 0; i < count(s); ++i) in.values.push_back((i * 7 % 11 == 4) == rare ? 1 : 0);
  return in;
}
Input small_factors(const Shape& s) { return {s, 0.7, 1.3}; }

// Samples with zeros, where a gradient by division would fail.
Sample prod_with_zeros(const std::string& label, std::vector<double> values,
                       const std::vector<int>& axes) {
  Input in{{2, 4}};
  in.values = std::move(values);
  return {
      label,
      {in},
      [axes](std::span<const Tensor> x) { return prod(x[0], axes); },
      [axes](const std::vector<Array>& x) { return reduce(x[0], axes, false, prod_of); },
      true,
      true,
      false,
      true,
      {},
      false,
      axes.size() == 1 ? "torch.prod(a" + torch_dim(axes, false, false) + ")" : "torch.prod(a)"};
}

void add_prod(std::vector<OpCase>& rows) {
  OpCase p{"prod", {"prod"}, kAll, ResultType::sum};
  const Kind k{wt::prod, prod_of, "torch.prod", small_factors};
  add_samples(p, k, true, true);
  for (Sample& s : p.samples) {
    i64 n = count(s.inputs[0].shape);
    if (s.torch.find('(', 11) != std::string::npos) s.torch.clear();  // one axis or all of them
    s.second_is_zero = n == 1 || s.label == "none";
    if (n > 1000) s = sample(k, "all", {7, 33}, {}, {}, false);
  }
  p.samples.push_back(prod_with_zeros("a zero", {1.5, 0, -2, 0.5, 1, -1, 2, 3}, {1}));
  p.samples.push_back(prod_with_zeros("two zeros", {1.5, 0, -2, 0, 0, -1, 0, 0}, {1}));
  p.samples.push_back(prod_with_zeros("zeros, 0", {1.5, 0, -2, 0, 0, -1, 0.5, 0}, {0}));
  p.samples.push_back(prod_with_zeros("zeros, all", {1.5, 0, -2, 0.5, 1, -1, 0, 3}, {0, 1}));
  p.errors.push_back(refuses_storage("prod", wt::prod));
  rows.push_back(p);
}

void add_truth(std::vector<OpCase>& rows) {
  OpCase a{"any", {"any"}, kAll, ResultType::boolean};
  add_samples(a,
              {wt::any, any_of, "torch.any", [](const Shape& s) { return sparse_truth(s, true); }},
              true, true);
  a.errors.push_back(refuses_storage("any", wt::any));
  rows.push_back(a);
  OpCase b{"all", {"any"}, kAll, ResultType::boolean};
  add_samples(b,
              {wt::all, all_of, "torch.all", [](const Shape& s) { return sparse_truth(s, false); }},
              true, true);
  b.errors.push_back(refuses_storage("all", wt::all));
  rows.push_back(b);
}

void add_extremes(std::vector<OpCase>& rows) {
  for (const bool least : {false, true}) {
    const std::string name = least ? "min" : "max";
    const Op op = least ? Op(wt::min) : Op(wt::max);
    OpCase x{name, {"max"}, kAll};
    add_samples(x, {op, least ? min_of : max_of, least ? "torch.amin" : "torch.amax"}, true, false);
    x.errors.push_back(error_input<ShapeError>(
        "empty", "[" + name + "] no element to choose from in shape [0]",
        [op](Device d) { (void)op(ones({0}, {.device = d}), Dims::all(), {}); }));
    rows.push_back(x);

    const std::string place = "arg" + name;
    const Op arg = least ? Op(wt::argmin) : Op(wt::argmax);
    OpCase a{place, {"argmax"}, kAll, ResultType::i64};
    add_samples(a, {arg, least ? argmin_of : argmax_of, least ? "torch.argmin" : "torch.argmax"},
                false, false);
    a.errors.push_back(error_input<ShapeError>(
        "two axes", "[" + place + "] takes one axis or all of them, not 2", [arg](Device d) {
          (void)arg(ones({2, 2}, {.device = d}), {0, 1}, {});
        }));
    rows.push_back(a);
  }
}

void add_reduce_cases(std::vector<OpCase>& rows) {
  OpCase s{"sum", {"sum"}, kAll, ResultType::sum};
  add_samples(s, {wt::sum, sum_of, "torch.sum"}, true, true);
  s.errors.push_back(storage_dtype("sum", "i16 is for storage only",
                                   [](const Tensor& x, const Tensor&) { (void)sum(x); }));
  rows.push_back(s);

  OpCase m{"mean", {"sum"}, kFloats};
  add_samples(m, {wt::mean, mean_of, "torch.mean"}, true, true);
  m.errors.push_back(error_input<DtypeError>(
      "integers", "[mean] the mean of i64 has no dtype",
      [](Device d) { (void)mean(ones({2}, {.dtype = DType::i64, .device = d})); }));
  rows.push_back(m);

  add_extremes(rows);
  add_prod(rows);
  add_truth(rows);

  OpCase t{"sum_to", {"sum"}, kFloats};
  const std::tuple<Shape, Shape, std::vector<int>> shapes[] = {
      {{3, 5}, {5}, {0}},   {{2, 3, 4}, {3, 1}, {0, 2}}, {{3, 5}, {}, {0, 1}},
      {{3, 5}, {3, 5}, {}}, {{0, 3}, {1, 3}, {0}},       {{33, 7}, {1, 7}, {0}}};
  for (const auto& [from, to, axes] : shapes)
    t.samples.push_back({"",
                         {{from}},
                         [to = to](std::span<const Tensor> in) { return sum_to(in[0], to); },
                         [to = to, axes = axes](const std::vector<Array>& in) {
                           Array r = reduce(in[0], axes, true, sum_of);
                           r.shape = to;
                           return r;
                         }});
  t.errors = {
      undefined_tensor([](const Tensor& v, const Tensor&) { (void)sum_to(v, {1}); }),
      error_input<ShapeError>("shape", "[sum_to] shape [2] does not broadcast to [3]",
                              [](Device d) { (void)sum_to(ones({3}, {.device = d}), {2}); })};
  rows.push_back(t);
}

const CaseFile file{add_reduce_cases};

}  // namespace
}  // namespace wt_test
