// Rows of the reductions.
#include <optional>

#include "warptape/autograd/ops_reduce.h"
#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {
namespace {

using Values = std::vector<double>;
struct Reduced {
  double value, magnitude;
};

// The elements along `axes` of x, brought together in order for each place of the result.
Array reduce(const Array& x, const std::vector<int>& axes, bool keep,
             const std::function<Reduced(const Values&)>& f) {
  std::vector<bool> gone(x.shape.size(), false);
  for (int a : axes) gone[size_t(a < 0 ? a + x.shape.ndim() : a)] = true;
  Shape kept = x.shape, out;
  for (int d = 0; d < x.shape.ndim(); ++d) {
    if (gone[size_t(d)]) kept[d] = 1;
    if (!gone[size_t(d)] || keep) out.push_back(kept[d]);
  }
  std::vector<Values> groups(size_t(count(kept)));
  for (i64 i = 0; i < count(x.shape); ++i)
    groups[size_t(ravel(unravel(i, x.shape), kept))].push_back(x.v[size_t(i)]);
  Array r{out, {}};
  for (const Values& g : groups) {
    const Reduced y = f(g);
    r.v.push_back(y.value);
    r.magnitude.push_back(y.magnitude);
    r.terms = std::max(r.terms, kTermsOfFormula + double(g.size()));
  }
  return r;
}

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
Reduced argmax_of(const Values& g) {
  size_t best = 0;
  for (size_t i = 1; i < g.size(); ++i)
    if (g[i] > g[best]) best = i;
  return {double(best), double(best)};
}

using Op = Tensor (*)(const In&, const Dims&, SumOptions);
Sample sample(Op op, const std::string& label, const Shape& shape, std::optional<Dims> dims,
              std::vector<int> axes, bool keep, Reduced (*f)(const Values&)) {
  if (!dims)
    for (int d = 0; d < shape.ndim(); ++d) axes.push_back(d);
  return {label + (keep ? " keep" : ""),
          {{shape}},
          [op, dims, keep](std::span<const Tensor> in) {
            return dims ? op(in[0], *dims, {.keep_dim = keep})
                        : op(in[0], Dims::all(), {.keep_dim = keep});
          },
          [=](const std::vector<Array>& in) { return reduce(in[0], axes, keep, f); }};
}

void add_samples(OpCase& c, Op op, Reduced (*f)(const Values&), bool several, bool empty) {
  c.samples = {sample(op, "0", {3, 5}, Dims{0}, {0}, false, f),
               sample(op, "1", {3, 5}, Dims{1}, {1}, false, f),
               sample(op, "all", {2, 3, 4}, {}, {}, false, f),
               sample(op, "-2", {2, 3, 4}, Dims{-2}, {1}, true, f),
               sample(op, "all", {}, {}, {}, false, f),
               sample(op, "all", {1}, {}, {}, true, f),
               sample(op, "1", {3, 257}, Dims{1}, {1}, false, f),
               sample(op, "0", {3, 257}, Dims{0}, {0}, false, f),
               sample(op, "1", {0, 3}, Dims{1}, {1}, false, f),
               sample(op, "all", {31, 33}, {}, {}, false, f)};
  if (several) {
    c.samples.push_back(sample(op, "0, 2", {2, 3, 4}, Dims{0, 2}, {0, 2}, false, f));
    c.samples.push_back(sample(op, "0, -1", {3, 7, 2, 5}, Dims{0, -1}, {0, 3}, true, f));
    c.samples.push_back(sample(op, "none", {2, 3}, Dims{}, {}, false, f));
  }
  if (empty) c.samples.push_back(sample(op, "0", {0, 3}, Dims{0}, {0}, false, f));
  const Apply apply = [op](const Tensor& x, const Tensor&) { (void)op(x, Dims::all(), {}); };
  c.errors = {undefined_operand(c.name, apply),
              error_input<ShapeError>("axis", "axis 2", [op](Device d) {
                (void)op(ones({2, 3}, {.device = d}), {2}, {});
              })};
}

void add_reduce_cases(std::vector<OpCase>& rows) {
  OpCase s{"sum", {"sum"}, kAll, ResultType::sum};
  add_samples(s, wt::sum, sum_of, true, true);
  s.errors.push_back(storage_dtype("sum", "i16 is for storage only",
                                   [](const Tensor& x, const Tensor&) { (void)sum(x); }));
  rows.push_back(s);

  OpCase m{"mean", {"sum"}, kFloats};
  add_samples(m, wt::mean, mean_of, true, true);
  m.errors.push_back(error_input<DtypeError>(
      "integers", "[mean] the mean of i64 has no dtype",
      [](Device d) { (void)mean(ones({2}, {.dtype = DType::i64, .device = d})); }));
  rows.push_back(m);

  OpCase x{"max", {"max"}, kAll};
  add_samples(x, wt::max, max_of, true, false);
  x.errors.push_back(
      error_input<ShapeError>("empty", "[max] no element to choose from in shape [0]",
                              [](Device d) { (void)max(ones({0}, {.device = d})); }));
  rows.push_back(x);

  OpCase a{"argmax", {"argmax"}, kAll, ResultType::i64};
  add_samples(a, wt::argmax, argmax_of, false, false);
  a.errors.push_back(error_input<ShapeError>(
      "two axes", "[argmax] takes one axis or all of them, not 2", [](Device d) {
        (void)argmax(ones({2, 2}, {.device = d}), {0, 1});
      }));
  rows.push_back(a);

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
