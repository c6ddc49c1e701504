// Rows of sorting, counting and drawing.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "warptape/autograd/ops/sort.h"
#include "warptape/core/random.h"
#include "warptape/tests/op_cases/lines.h"
#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {
namespace {

constexpr u64 kSeed = 91;

// The places of the first k in order, or their values.
Line in_order(const Line& x, bool descending, i64 k, bool places) {
  std::vector<size_t> order(x.v.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return descending ? x.v[a] > x.v[b] : x.v[a] < x.v[b];
  });
  Line y;
  for (i64 i = 0; i < (k < 0 ? i64(order.size()) : k); ++i)
    y.v.push_back(places ? double(order[size_t(i)]) : x.v[order[size_t(i)]]);
  return y;
}

const std::pair<Shape, int> kShapes[] = {{{3, 5}, 1}, {{3, 5}, 0},   {{2, 3, 4}, 1},
                                         {{33}, -1},  {{}, 0},       {{1, 4}, 0},
                                         {{0, 3}, 1}, {{3, 257}, 1}, {{31, 7}, 0}};

Sample sample(const std::string& label, const Input& in, CheckedFunction call, int axis,
              bool descending, i64 k, bool places) {
  Sample s{label, {in}, std::move(call), [=](const std::vector<Array>& x) {
             return along(x[0], axis,
                          [=](const Line& l) { return in_order(l, descending, k, places); });
           }};
  if (!places) return s;
  s.result = DType::i64;
  s.gradients = false;
  return s;
}

void add_sort(std::vector<OpCase>& rows) {
  OpCase c{"sort", {"sort"}, kAll}, p{"argsort", {"sort"}, kAll, ResultType::i64};
  for (const bool descending : {false, true})
    for (const auto& [shape, axis] : kShapes) {
      const std::string label = str("axis ", axis, descending ? " descending" : "");
      const SortOptions o{.descending = descending};
      const std::string torch =
          str("torch.sort(a, dim=", axis,
              ", stable=True, descending=", descending ? "True" : "False", ")");
      c.samples.push_back(sample(
          label, {shape},
          [axis = axis, o](std::span<const Tensor> x) { return sort(x[0], axis, o).values; }, axis,
          descending, -1, false));
      c.samples.back().torch = torch + ".values";
      p.samples.push_back(sample(
          label, {shape},
          [axis = axis, o](std::span<const Tensor> x) { return argsort(x[0], axis, o); }, axis,
          descending, -1, true));
      p.samples.back().torch = torch + ".indices";
    }
  // Ties keep their order.
  Input ties{{2, 9}, 0, 3};
  ties.whole = true;
  for (const bool descending : {false, true})
    c.samples.push_back(sample(
        descending ? "places descending" : "places", ties,
        [descending](std::span<const Tensor> x) {
          return sort(x[0], 1, {.descending = descending}).indices;
        },
        1, descending, -1, true));
  for (OpCase* row : {&c, &p}) {
    const bool only = row == &p;
    const auto call = [only](const Tensor& x, i64 axis) {
      return only ? argsort(x, axis) : sort(x, axis).values;
    };
    row->errors = {
        undefined_operand(row->name, [call](const Tensor& x, const Tensor&) { (void)call(x, 0); }),
        error_input<ShapeError>("axis", "[" + row->name + "] axis 2 is outside [-2, 1]",
                                [call](Device d) {
                                  (void)call(ones({2, 3}, {.device = d}), 2);
                                }),
        storage_dtype(row->name, "i16 is for storage only",
                      [call](const Tensor& x, const Tensor&) { (void)call(x, 0); })};
    rows.push_back(std::move(*row));
  }
}

void add_topk(std::vector<OpCase>& rows) {
  OpCase c{"topk", {"sort"}, kAll};
  for (const bool largest : {true, false})
    for (const auto& [shape, axis] : kShapes) {
      const i64 n = shape.ndim() ? shape[axis < 0 ? axis + shape.ndim() : axis] : 1;
      const i64 k = std::max<i64>(1, n / 2);
      if (n == 0) continue;
      c.samples.push_back(sample(
          str("k ", k, largest ? "" : " least"), {shape},
          [axis = axis, k, largest](std::span<const Tensor> x) {
            return topk(x[0], k, axis, {.largest = largest}).values;
          },
          axis, largest, k, false));
      c.samples.back().torch = str("torch.topk(a, ", k, ", dim=", axis,
                                   ", largest=", largest ? "True" : "False", ").values");
    }
  Input ties{{2, 9}, 0, 3};
  ties.whole = true;
  c.samples.push_back(sample(
      "places", ties, [](std::span<const Tensor> x) { return topk(x[0], 4, 1).indices; }, 1, true,
      4, true));
  c.samples.push_back(sample(
      "k 0", {{2, 3}}, [](std::span<const Tensor> x) { return topk(x[0], 0, 1).values; }, 1, true,
      0, false));
  c.errors = {undefined_operand("topk", [](const Tensor& x, const Tensor&) { (void)topk(x, 1); }),
              error_input<ShapeError>("k", "[topk] k = 4 of 3 elements along axis 1",
                                      [](Device d) {
                                        (void)topk(ones({2, 3}, {.device = d}), 4);
                                      }),
              error_input<ShapeError>("negative", "[topk] k = -1 of 3",
                                      [](Device d) {
                                        (void)topk(ones({2, 3}, {.device = d}), -1);
                                      }),
              storage_dtype("topk", "i16 is for storage only",
                            [](const Tensor& x, const Tensor&) { (void)topk(x, 1); })};
  rows.push_back(std::move(c));
}

Array bins_of(const std::vector<Array>& in, i64 minlength) {
  double most = double(minlength) - 1;
  for (const double v : in[0].v) most = std::max(most, v);
  Array y{{i64(most) + 1}, std::vector<double>(size_t(most) + 1, 0.0)};
  y.terms = kTermsOfFunction + double(in[0].v.size());
  y.magnitude = y.v;
  for (size_t i = 0; i < in[0].v.size(); ++i) {
    const double w = in.size() > 1 ? in[1].v[i] : 1;
    y.v[size_t(in[0].v[i])] += w;
    y.magnitude[size_t(in[0].v[i])] += std::fabs(w);
  }
  return y;
}

void add_bincount(std::vector<OpCase>& rows) {
  OpCase c{"bincount", {"bincount"}, kFloats};
  for (const auto& [n, bins, minlength] :
       {std::tuple<i64, i64, i64>{7, 5, 0}, {33, 4, 9}, {257, 31, 0}, {1, 3, 0}, {0, 1, 3}}) {
    const Input list = index_input({n}, bins);
    const std::string torch = str("minlength=", minlength, ")");
    Sample s{
        str("minlength ", minlength),
        {list},
        [minlength = minlength](std::span<const Tensor> x) { return bincount(x[0], minlength); },
        [minlength = minlength](const std::vector<Array>& x) { return bins_of(x, minlength); }};
    s.result = DType::i64;
    s.torch = "torch.bincount(a, " + torch;
    c.samples.push_back(s);
    Sample w = s;
    w.label += " weights";
    w.inputs.push_back({{n}});
    w.call = [minlength = minlength](std::span<const Tensor> x) {
      return bincount(x[0], x[1], minlength);
    };
    w.result.reset();
    w.torch = "torch.bincount(a, b, " + torch;
    w.constant = n == 0;
    c.samples.push_back(std::move(w));
  }
  const auto integers = [](std::initializer_list<Scalar> v, Device d) {
    return tensor(v, {.dtype = DType::i64}).to(d);
  };
  c.errors = {
      undefined_operand("bincount", [](const Tensor& x, const Tensor&) { (void)bincount(x); }),
      error_input<IndexError>("negative", "[bincount] x has a negative element: -2",
                              [=](Device d) {
                                (void)bincount(integers({1, -2, 3}, d));
                              }),
      error_input<DtypeError>("floats", "[bincount] x must be i64, i32, u8 or bool, got f32",
                              [](Device d) { (void)bincount(ones({2}, {.device = d})); }),
      error_input<ShapeError>("rank", "[bincount] x must be 1-d, got shape [2, 2]",
                              [](Device d) {
                                (void)bincount(ones({2, 2}, {.dtype = DType::i64, .device = d}));
                              }),
      error_input<ShapeError>("weights", "[bincount] weights [3] and x [2] differ",
                              [=](Device d) {
                                (void)bincount(integers({1, 2}, d), ones({3}, {.device = d}));
                              }),
      error_input<UsageError>("minlength", "[bincount] minlength must not be negative, got -1",
                              [=](Device d) { (void)bincount(integers({1}, d), -1); })};
  rows.push_back(std::move(c));
}

// What MultinomialArgs says.
Array drawn(const Array& p, i64 draws, bool replacement) {
  const i64 places = p.shape[p.shape.ndim() - 1], rows = count(p.shape) / std::max<i64>(places, 1);
  Array y{p.shape, {}};
  y.shape[p.shape.ndim() - 1] = draws;
  const PhiloxKey key = philox_key(kSeed, RandomStream::user);
  const auto uniform = [&](i64 block) {
    const PhiloxBlock b = philox(key, u64(block), 0);
    return uniform53(b.v[0], b.v[1]);
  };
  for (i64 r = 0; r < rows; ++r) {
    const double* row = p.v.data() + r * places;
    if (replacement) {
      double total = 0;
      for (i64 c = 0; c < places; ++c) total += row[c];
      for (i64 j = 0; j < draws; ++j) {
        const double target = uniform(r * draws + j) * total;
        double sum = 0;
        i64 c = 0;
        while ((sum += row[c]) <= target) ++c;
        y.v.push_back(double(c));
      }
    } else {
      std::vector<std::pair<double, i64>> line;
      for (i64 c = 0; c < places; ++c)
        if (row[c] > 0) line.push_back({-std::log1p(-uniform(r * places + c)) / row[c], c});
      std::sort(line.begin(), line.end());
      for (i64 j = 0; j < draws; ++j) y.v.push_back(double(line[size_t(j)].second));
    }
  }
  return y;
}

void add_multinomial(std::vector<OpCase>& rows) {
  OpCase c{"multinomial", {"multinomial"}, kFloats, ResultType::i64};
  const auto add = [&](const Input& in, i64 draws, bool replacement) {
    c.samples.push_back(
        {str(draws, replacement ? " with replacement" : ""),
         {in},
         [=](std::span<const Tensor> x) {
           manual_seed(kSeed);
           return multinomial(x[0], draws, {.replacement = replacement});
         },
         [=](const std::vector<Array>& x) { return drawn(x[0], draws, replacement); }});
  };
  const auto weights = [](const Shape& s) { return Input{s, 0.1, 2}; };
  add(weights({3, 5}), 4, true);
  add(weights({3, 5}), 3, false);
  add(weights({7}), 33, true);
  add(weights({7}), 7, false);
  add(weights({1}), 1, false);
  add(weights({2, 257}), 31, false);
  add(weights({2, 257}), 65, true);
  add(weights({0, 3}), 2, true);
  Input gaps = weights({2, 6});
  gaps.values = {0, 1, 0, 2, 0, 0, 3, 0, 0, 0, 1, 0};
  add(gaps, 2, false);
  add(gaps, 9, true);
  const auto of = [](std::initializer_list<Scalar> v, Device d) { return tensor(v).to(d); };
  c.errors = {
      undefined_operand("multinomial",
                        [](const Tensor& x, const Tensor&) { (void)multinomial(x, 1); }),
      error_input<UsageError>("negative", "[multinomial] p has an element that is negative",
                              [=](Device d) {
                                (void)multinomial(of({1.0, -1.0}, d), 1);
                              }),
      error_input<UsageError>("nan", "[multinomial] p has an element that is negative, infinite",
                              [=](Device d) {
                                (void)multinomial(of({1.0, NAN}, d), 1);
                              }),
      error_input<UsageError>("zeros", "[multinomial] row 1 of p has only zeros",
                              [](Device d) {
                                (void)multinomial(tensor({{1.0, 2.0}, {0.0, 0.0}}).to(d), 1);
                              }),
      error_input<UsageError>("too few", "[multinomial] row 0 of p has 1 places above zero",
                              [=](Device d) {
                                (void)multinomial(of({0.0, 1.0}, d), 2);
                              }),
      error_input<ShapeError>("draws", "[multinomial] 3 draws from 2 places",
                              [=](Device d) {
                                (void)multinomial(of({1.0, 1.0}, d), 3);
                              }),
      error_input<UsageError>("none", "[multinomial] draws must be positive, got 0",
                              [=](Device d) {
                                (void)multinomial(of({1.0, 1.0}, d), 0);
                              }),
      error_input<ShapeError>("rank", "[multinomial] p must be [places] or [rows, places]",
                              [](Device d) {
                                (void)multinomial(ones({2, 2, 2}, {.device = d}), 1);
                              }),
      error_input<DtypeError>("integers", "[multinomial] expected a floating dtype", [](Device d) {
        (void)multinomial(ones({2}, {.dtype = DType::i64, .device = d}), 1);
      })};
  rows.push_back(std::move(c));
}

void add_sort_cases(std::vector<OpCase>& rows) {
  add_sort(rows);
  add_topk(rows);
  add_bincount(rows);
  add_multinomial(rows);
}

const CaseFile file{add_sort_cases};

}  // namespace
}  // namespace wt_test
