// Rows of the operators that have NumPy's names.
#include "warptape/autograd/ops/arrays.h"
#include "warptape/tests/op_cases/moves.h"

namespace wt_test {
namespace {

void add_tile(std::vector<OpCase>& rows) {
  OpCase c{"tile", {"copy"}, kAll};
  for (const auto& [in, times, out] : {std::tuple<Shape, Shape, Shape>{{3, 2}, {2, 3}, {6, 6}},
                                       {{3, 5}, {2}, {3, 10}},
                                       {{2, 3, 4}, {2, 1}, {2, 6, 4}},
                                       {{3}, {2, 1, 2}, {2, 1, 6}},
                                       {{}, {3, 2}, {3, 2}},
                                       {{2, 3}, {}, {2, 3}},
                                       {{2, 3}, {0}, {2, 0}},
                                       {{0, 3}, {2, 2}, {0, 6}},
                                       {{1, 7, 1}, {3, 1, 5}, {3, 7, 5}},
                                       {{31, 33}, {2, 1}, {62, 33}}}) {
    std::string list;
    for (const i64 n : times) list += str(n, ", ");
    c.samples.push_back(one_input(
        "torch.tile(a, (" + list + "))", in,
        [times = times](const Tensor& x) { return tile(x, times); },
        moved(out, [in = in](const Place& i) {
          const size_t lead = i.size() - in.size();
          Place from;
          for (int d = 0; d < in.ndim(); ++d) from.push_back(i[lead + size_t(d)] % in[d]);
          return from;
        })));
  }
  const auto times = [](const Shape& r) { return [=](const Tensor& x) { return tile(x, r); }; };
  c.errors = {undefined_input("tile", times({2, 2})),
              fails<ShapeError>("negative", "[tile] repeats [2, -1]: entry 1 is negative", {2, 3},
                                times({2, -1}))};
  rows.push_back(std::move(c));
}

// Where element i of the result lies: in which part, and where in it.
Array beside(const Shape& out, int axis, const std::vector<Array>& in) {
  return filled(out, [&](Place i) {
    for (const Array& part : in) {
      const i64 n = part.shape[axis];
      if (i[size_t(axis)] < n) return at(part, i);
      i[size_t(axis)] -= n;
    }
    return 0.0;
  });
}
void add_stacks(std::vector<OpCase>& rows) {
  using Stack = Tensor (*)(std::span<const Tensor>, Frame);
  struct Case {
    std::vector<Shape> in, as;  // `as`: what the parts count as
    Shape out;
    int axis;
  };
  const auto add = [&](const char* name, Stack f, const std::vector<Case>& cases) {
    OpCase c{name, {"copy"}, kAll};
    for (const Case& k : cases) {
      Sample s;
      std::string names;
      for (size_t i = 0; i < k.in.size(); ++i) {
        s.inputs.push_back({k.in[i]});
        names += str(char('a' + i), ", ");
      }
      s.label = s.torch = str("torch.", name, "((", names, "))");
      s.call = [f](std::span<const Tensor> in) { return f(in, Frame::here()); };
      s.oracle = [k](std::vector<Array> in) {
        for (size_t i = 0; i < in.size(); ++i) in[i].shape = k.as[i];
        return beside(k.out, k.axis, in);
      };
      c.samples.push_back(std::move(s));
    }
    c.errors = {
        undefined_operand(name,
                          [f](const Tensor& a, const Tensor& b) {
                            const std::vector<Tensor> parts{a, b};
                            (void)f(parts, Frame::here());
                          }),
        error_input<UsageError>("none", str("[", name, "] no tensors given"),
                                [f](Device) { (void)f({}, Frame::here()); }),
        error_input<ShapeError>("shapes",
                                str("[", name, "] shapes may differ only along axis ",
                                    cases[0].axis, ", got [2, 3] and [4, 5]"),
                                [f](Device d) {
                                  const TensorOptions o{.device = d};
                                  const std::vector<Tensor> parts{ones({2, 3}, o), ones({4, 5}, o)};
                                  (void)f(parts, Frame::here());
                                })};
    rows.push_back(std::move(c));
  };
  add("hstack", hstack,
      {{{{3, 2}, {3, 4}}, {{3, 2}, {3, 4}}, {3, 6}, 1},
       {{{3}, {5}, {1}}, {{3}, {5}, {1}}, {9}, 0},
       {{{}, {}}, {{1}, {1}}, {2}, 0},
       {{{}, {4}}, {{1}, {4}}, {5}, 0},
       {{{2, 1, 3}, {2, 2, 3}}, {{2, 1, 3}, {2, 2, 3}}, {2, 3, 3}, 1},
       {{{3, 0}, {3, 2}}, {{3, 0}, {3, 2}}, {3, 2}, 1},
       {{{31, 17}, {31, 33}}, {{31, 17}, {31, 33}}, {31, 50}, 1}});
  add("vstack", vstack,
      {{{{3, 2}, {1, 2}}, {{3, 2}, {1, 2}}, {4, 2}, 0},
       {{{3}, {3}}, {{1, 3}, {1, 3}}, {2, 3}, 0},
       {{{}, {}}, {{1, 1}, {1, 1}}, {2, 1}, 0},
       {{{4}, {2, 4}}, {{1, 4}, {2, 4}}, {3, 4}, 0},
       {{{2, 1, 3}, {1, 1, 3}}, {{2, 1, 3}, {1, 1, 3}}, {3, 1, 3}, 0},
       {{{0, 2}, {3, 2}}, {{0, 2}, {3, 2}}, {3, 2}, 0},
       {{{17, 33}, {31, 33}}, {{17, 33}, {31, 33}}, {48, 33}, 0}});
}

// By the definition: the n-th difference is a sum of n + 1 elements with binomial weights.
Array differences(const Array& x, int axis, i64 n, bool truth) {
  Shape out = x.shape;
  out[axis] = std::max<i64>(0, out[axis] - n);
  Array y = filled(out, [](const Place&) { return 0.0; });
  y.magnitude = y.v;
  for (i64 e = 0; e < count(out); ++e) {
    double weight = 1;
    for (i64 k = n; k >= 0; --k) {
      Place from = unravel(e, out);
      from[size_t(axis)] += k;
      const double v = at(x, from);
      y.v[size_t(e)] += weight * v;
      y.magnitude[size_t(e)] += std::fabs(weight * v);
      weight *= -double(k) / double(n - k + 1);
    }
    if (truth) y.v[size_t(e)] = double(i64(y.v[size_t(e)]) & 1);
  }
  y.rounded = n > 1 ? y.magnitude : std::vector<double>{};  // 16-bit floats between two rounds
  y.terms = kTermsOfFormula + double(n);
  return y;
}
void add_diff(std::vector<OpCase>& rows) {
  OpCase c{"diff", {"sub", "copy"}, {f64, f32, f16, bf16, DType::i64, DType::i32}};
  struct Case {
    Shape in;
    i64 n, dim;
  };
  for (const Case& k : {Case{{3, 5}, 1, -1}, Case{{5, 3}, 2, 0}, Case{{2, 7, 3}, 3, 1},
                        Case{{6}, 0, 0}, Case{{2, 3}, 5, 1}, Case{{0, 4}, 1, 0}, Case{{4, 1}, 1, 1},
                        Case{{0, 4}, 1, 1}, Case{{33, 17}, 1, 0}, Case{{3, 257}, 2, -1}}) {
    const int a = int(k.dim < 0 ? k.dim + k.in.ndim() : k.dim);
    c.samples.push_back(one_input(
        str("torch.diff(a, n=", k.n, ", dim=", k.dim, ")"), k.in,
        [k](const Tensor& x) { return diff(x, {.n = k.n, .dim = k.dim}); },
        [k, a](const std::vector<Array>& in) { return differences(in[0], a, k.n, false); }));
    c.samples.back().constant = k.n == 0 || k.in[a] <= k.n;
  }
  for (const bool behind : {false, true})
    c.samples.push_back(two_inputs(
        behind ? "torch.diff(a, dim=0, append=b)" : "torch.diff(a, dim=0, prepend=b)", {{3, 4}},
        {{2, 4}},
        [behind](const Tensor& x, const Tensor& end) {
          return behind ? diff(x, {.dim = 0, .append = end}) : diff(x, {.dim = 0, .prepend = end});
        },
        [behind](std::vector<Array> in) {
          if (!behind) std::swap(in[0], in[1]);
          return differences(beside({5, 4}, 0, in), 0, 1, false);
        }));
  c.samples.push_back(
      {"torch.diff(a, prepend=b, append=c)",
       {{{3}}, {{1}}, {{2}}},
       [](std::span<const Tensor> in) { return diff(in[0], {.prepend = in[1], .append = in[2]}); },
       [](const std::vector<Array>& in) {
         return differences(beside({6}, 0, {in[1], in[0], in[2]}), 0, 1, false);
       }});
  c.samples.back().torch = c.samples.back().label;
  // Truths.
  Sample truth{"torch.diff(a, n=2)",
               {truth_input({3, 7})},
               [](std::span<const Tensor> in) { return diff(in[0], {.n = 2}); },
               [](const std::vector<Array>& in) { return differences(in[0], 1, 2, true); }};
  truth.gradients = false;
  truth.result = DType::boolean;
  truth.torch = truth.label;
  c.samples.push_back(std::move(truth));
  const auto of = [](const DiffOptions& o) { return [=](const Tensor& x) { return diff(x, o); }; };
  c.errors = {
      undefined_input("diff", of({})),
      fails<ShapeError>("0-d", "[diff] needs at least one dimension", {}, of({})),
      fails<ShapeError>("axis", "[diff] axis 2", {2, 3}, of({.dim = 2})),
      fails<UsageError>("n", "[diff] n must not be negative, got -1", {3}, of({.n = -1})),
      fails<ShapeError>("prepend",
                        "[diff] shapes may differ only along axis 1, got [3, 2] and [2, 3]", {2, 3},
                        [](const Tensor& x) {
                          return diff(x, {.prepend = ones({3, 2}, {.device = x.device()})});
                        }),
      storage_dtype("diff", "i16 is for storage only",
                    [](const Tensor& x, const Tensor&) { (void)diff(x); })};
  rows.push_back(std::move(c));
}

void add_arrays_cases(std::vector<OpCase>& rows) {
  add_tile(rows);
  add_stacks(rows);
  add_diff(rows);
}

const CaseFile file{add_arrays_cases};

}  // namespace
}  // namespace wt_test
