// Rows of extremes with places, medians, quantiles, distinct elements and places in sorted lists.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "warptape/autograd/ops/order.h"
#include "warptape/tests/op_cases/lines.h"
#include "warptape/tests/op_cases/moves.h"
#include "warptape/tests/op_cases/reduced.h"

namespace wt_test {
namespace {

const std::vector<std::string> kSorted{"sort"};

// The place of the k-th of a line in ascending order.
size_t kth_place(const Values& v, size_t k, bool descending = false) {
  std::vector<size_t> order(v.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return descending ? v[a] > v[b] : v[a] < v[b]; });
  return order[k];
}

const std::pair<Shape, int> kAlong[] = {{{3, 5}, 1}, {{3, 4}, 0},   {{2, 3, 4}, 1},
                                        {{33}, -1},  {{}, 0},       {{1, 4}, 0},
                                        {{0, 3}, 1}, {{3, 257}, 1}, {{31, 7}, 0}};

// An operator that picks an element of each line: values, and its place.
using Picks = std::function<PlacedResult(const Tensor&, int axis, SumOptions)>;
using PlaceIn = std::function<size_t(const Values&)>;
void add_picks(OpCase& c, const Picks& f, const PlaceIn& place,
               const std::function<std::string(int)>& torch) {
  for (const bool keep : {false, true})
    for (const auto& [shape, axis] : kAlong) {
      const std::vector<int> axes = shape.ndim()
                                        ? std::vector<int>{axis < 0 ? axis + shape.ndim() : axis}
                                        : std::vector<int>{};
      const auto add = [&, axis = axis, shape = shape](bool places, const Input& in) {
        Sample s{str("axis ", axis, keep ? " kept" : "", places ? " places" : ""),
                 {in},
                 [=](std::span<const Tensor> x) {
                   PlacedResult r = f(x[0], axis, {.keep_dim = keep});
                   return places ? r.indices : r.values;
                 },
                 [=](const std::vector<Array>& x) {
                   return reduce(x[0], axes, keep, [=](const Values& g) {
                     const size_t at = place(g);
                     const double v = places ? double(at) : g[at];
                     return Reduced{v, std::fabs(v)};
                   });
                 }};
        if (places) s.result = DType::i64, s.gradients = false;
        const std::string t = torch(axis);
        if (!t.empty() && !places) s.torch = t + (keep ? ", keepdim=True)" : ")") + ".values";
        c.samples.push_back(std::move(s));
      };
      add(false, {shape});
      if (keep) continue;
      Input ties{shape, 0, 3};
      ties.whole = true;
      add(true, ties);
      c.samples.back().constant = shape.ndim() == 0 || shape[0] == 1;
    }
  const std::string name = c.name;
  c.errors.push_back(
      undefined_operand(name, [f](const Tensor& x, const Tensor&) { (void)f(x, 0, {}); }));
  c.errors.push_back(fails<ShapeError>("axis", "[" + name + "] axis 2 is outside [-2, 1]", {2, 3},
                                       [f](const Tensor& x) { return f(x, 2, {}).values; }));
  c.errors.push_back(
      fails<ShapeError>("empty", "[" + name + "] no element to choose from along axis 1", {2, 0},
                        [f](const Tensor& x) { return f(x, 1, {}).values; }));
  c.errors.push_back(storage_dtype(name, "i16 is for storage only",
                                   [f](const Tensor& x, const Tensor&) { (void)f(x, 0, {}); }));
}

void add_extremes(std::vector<OpCase>& rows) {
  for (const bool least : {false, true}) {
    OpCase c{least ? "min_with_indices" : "max_with_indices", {"argmax"}, kAll};
    add_picks(
        c,
        [least](const Tensor& x, int axis, SumOptions o) {
          return least ? min_with_indices(x, axis, o) : max_with_indices(x, axis, o);
        },
        [least](const Values& v) { return kth_place(v, 0, !least); },
        [least](int axis) { return str("torch.", least ? "min" : "max", "(a, dim=", axis); });
    rows.push_back(std::move(c));
  }
}

// --- medians ---
size_t middle(const Values& v) { return (v.size() - 1) / 2; }
void add_medians(std::vector<OpCase>& rows) {
  for (const bool skip : {false, true}) {
    OpCase c{skip ? "nanmedian" : "median", {"sort"}, kAll};
    const std::string torch = skip ? "torch.nanmedian(a, dim=" : "torch.median(a, dim=";
    add_picks(
        c,
        [skip](const Tensor& x, int axis, SumOptions o) {
          return skip ? nanmedian(x, axis, o) : median(x, axis, o);
        },
        [](const Values& v) { return kth_place(v, middle(v)); },
        [torch](int axis) { return str(torch, axis); });
    if (!skip)
      for (const Shape& shape : {Shape{3, 4}, {7}, {}, {2, 3, 5}}) {
        Sample s{"all",
                 {{shape}},
                 [](std::span<const Tensor> x) { return median(x[0]); },
                 [](const std::vector<Array>& x) {
                   return Array{{}, {x[0].v[kth_place(x[0].v, middle(x[0].v))]}};
                 }};
        s.torch = "torch.median(a)";
        c.samples.push_back(std::move(s));
      }
    rows.push_back(std::move(c));
  }
}

void add_kthvalue(std::vector<OpCase>& rows) {
  OpCase c{"kthvalue", kSorted, kAll};
  const auto k_of = [](i64 n) { return std::max<i64>(1, 2 * n / 3); };
  add_picks(
      c,
      [k_of](const Tensor& x, int axis, SumOptions o) {
        return kthvalue(x, x.defined() && x.ndim() && axis < x.ndim() ? k_of(x.size(axis)) : 1,
                        axis, o);
      },
      [k_of](const Values& v) { return kth_place(v, size_t(k_of(i64(v.size())) - 1)); },
      [](int) { return std::string(); });
  for (const i64 k : {0, 4})
    c.errors.push_back(
        fails<ShapeError>(str("k ", k), str("[kthvalue] k = ", k, " of 3 elements along axis 1"),
                          {2, 3}, [k](const Tensor& x) { return kthvalue(x, k).values; }));
  rows.push_back(std::move(c));
}

// --- quantiles ---
double quantile_of(Values v, double q, Interpolation how) {
  std::sort(v.begin(), v.end());
  const double rank = q * double(v.size() - 1), low = std::floor(rank), high = std::ceil(rank);
  const double a = v[size_t(low)], b = v[size_t(high)];
  switch (how) {
    case Interpolation::lower:
      return a;
    case Interpolation::higher:
      return b;
    case Interpolation::nearest:
      return v[size_t(std::nearbyint(rank))];
    case Interpolation::midpoint:
      return (a + b) / 2;
    default:
      return a + (rank - low) * (b - a);
  }
}

void add_quantile(std::vector<OpCase>& rows) {
  OpCase c{"quantile", kSorted, kFloats};
  const auto add = [&](const Shape& shape, int axis, double q, Interpolation how, bool keep) {
    static const char* const kNames[] = {"linear", "lower", "higher", "midpoint", "nearest"};
    const std::vector<int> axes = shape.ndim() ? std::vector<int>{axis} : std::vector<int>{};
    Sample s{str(q, " ", kNames[int(how)], " along ", axis),
             {{shape}},
             [=](std::span<const Tensor> x) {
               return quantile(x[0], q, axis, {.keep_dim = keep, .interpolation = how});
             },
             [=](const std::vector<Array>& x) {
               return reduce(x[0], axes, keep, [=](const Values& g) {
                 double most = 0;
                 for (const double v : g) most = std::max(most, std::fabs(v));
                 // A rank of many elements is rounded too.
                 return Reduced{quantile_of(g, q, how), most * double(1 + g.size())};
               });
             }};
    s.torch = str("torch.quantile(a, ", q, ", dim=", axis, ", interpolation='", kNames[int(how)],
                  keep ? "', keepdim=True)" : "')");
    if (count(shape) == 0) s.torch = {};  // which PyTorch refuses
    s.second_is_zero = true;
    c.samples.push_back(std::move(s));
  };
  using enum Interpolation;
  add({3, 5}, 1, 0.375, linear, false);
  add({4, 3}, 0, 0.8125, linear, false);
  for (const Interpolation how : {lower, higher, midpoint, nearest}) {
    add({3, 5}, 1, 0.3125, how, false);
    add({2, 6, 3}, 1, 0.6875, how, true);
  }
  for (const double q : {0.0, 0.5, 1.0}) add({2, 7}, 1, q, linear, q == 0.5);
  add({}, 0, 0.25, linear, false);
  add({0, 3}, 1, 0.5, linear, false);
  add({33, 2}, 0, 0.125, linear, false);
  const auto of_list = [&](const Shape& shape, int axis, const Shape& list, bool keep) {
    Input q{list, 0, 1};
    q.values = {0.3125, 0.875, 0.5625};
    if (list.ndim() == 0) q.values = {0.3125};
    Sample s{
        str("of ", list, " along ", axis),
        {{shape}, q},
        [=](std::span<const Tensor> x) { return quantile(x[0], x[1], axis, {.keep_dim = keep}); },
        [=](const std::vector<Array>& x) {
          Array y;
          for (size_t i = 0; i < x[1].v.size(); ++i) {
            const Array one = reduce(x[0], {axis}, keep, [&](const Values& g) {
              return Reduced{quantile_of(g, x[1].v[i], linear), 2.0 * double(1 + g.size())};
            });
            y.v.insert(y.v.end(), one.v.begin(), one.v.end());
            y.magnitude.insert(y.magnitude.end(), one.magnitude.begin(), one.magnitude.end());
            y.terms = one.terms;
            y.shape = one.shape;
          }
          if (list.ndim() == 0) return y;
          Shape all;
          all.push_back(list[0]);
          for (int d = 0; d < y.shape.ndim(); ++d) all.push_back(y.shape[d]);
          y.shape = all;
          return y;
        }};
    s.torch = str("torch.quantile(a, b, dim=", axis, keep ? ", keepdim=True)" : ")");
    s.layouts = false;
    c.samples.push_back(std::move(s));
  };
  of_list({3, 5}, 1, {3}, false);
  of_list({4, 3, 2}, 0, {3}, true);
  of_list({2, 3, 4}, 1, {3}, false);
  of_list({3, 5}, 0, {}, false);
  const auto on = [](double q) { return [q](const Tensor& x) { return quantile(x, q, 0); }; };
  c.errors = {
      undefined_operand("quantile",
                        [](const Tensor& x, const Tensor&) { (void)quantile(x, 0.5, 0); }),
      fails<UsageError>("q", "[quantile] q must lie in [0, 1], got 1.5", {3}, on(1.5)),
      fails<ShapeError>("axis", "[quantile] axis 2 is outside [-2, 1]", {2, 3},
                        [](const Tensor& x) { return quantile(x, 0.5, 2); }),
      fails<ShapeError>("empty", "[quantile] no element to choose from along axis 0", {0}, on(0.5)),
      fails<DtypeError>("q's dtype", "[quantile] q is f64, x is f32", {3},
                        [](const Tensor& x) { return quantile(x, x.to(f64), 0); }),
      fails<ShapeError>("q's rank", "[quantile] q must be 0-d or 1-d, got shape [1, 1]", {1, 1},
                        [](const Tensor& x) { return quantile(x, x, 0); }),
      fails<DtypeError>("integers", "[quantile] expected a floating dtype", {3},
                        [](const Tensor& x) { return quantile(x.to(DType::i64), 0.5, 0); })};
  rows.push_back(std::move(c));
}

void add_count_nonzero(std::vector<OpCase>& rows) {
  OpCase c{"count_nonzero", {}, kAll, ResultType::i64};
  using Case = std::tuple<Shape, std::vector<int>, bool>;
  for (const auto& [shape, axes, all] : {Case{{3, 5}, {1}, false},
                                         {{2, 3, 4}, {0, 2}, false},
                                         {{33}, {}, true},
                                         {{}, {}, true},
                                         {{0, 3}, {0}, false},
                                         {{2, 31}, {1}, false}}) {
    Input in{shape, -2, 2};
    in.whole = true;
    std::vector<int> of = axes;
    if (all)
      for (int d = 0; d < shape.ndim(); ++d) of.push_back(d);
    Sample s{str("over ", axes.size()),
             {in},
             [axes = axes, all = all](std::span<const Tensor> x) {
               return count_nonzero(x[0], all ? Dims::all() : Dims(axes));
             },
             [of](const std::vector<Array>& x) {
               return reduce(x[0], of, false, [](const Values& g) {
                 const double n = double(g.size() - size_t(std::count(g.begin(), g.end(), 0.0)));
                 return Reduced{n, n};
               });
             }};
    s.torch = "torch.count_nonzero(a" + torch_dim(axes, all, false) + ")";
    s.gradients = false;
    s.constant = true;
    c.samples.push_back(std::move(s));
  }
  c.errors = {undefined_operand("count_nonzero",
                                [](const Tensor& x, const Tensor&) { (void)count_nonzero(x); }),
              fails<ShapeError>("axis", "[count_nonzero] axis 2 is outside [-2, 1]", {2, 3},
                                [](const Tensor& x) { return count_nonzero(x, 2); })};
  rows.push_back(std::move(c));
}

// --- unique ---
void add_unique(std::vector<OpCase>& rows) {
  OpCase c{"unique", kSorted, kAll};
  for (const Shape& shape : {Shape{7}, {3, 5}, {33}, {}, {0, 3}, {257}})
    for (int part = 0; part < 3; ++part) {
      Input in{shape, -2, 2};
      in.whole = true;
      Sample s{part == 0   ? "values"
               : part == 1 ? "inverse"
                           : "counts",
               {in},
               [part](std::span<const Tensor> x) {
                 UniqueResult r = unique(x[0]);
                 return part == 0 ? r.values : part == 1 ? r.inverse : r.counts;
               },
               [part](const std::vector<Array>& x) {
                 Values v = x[0].v;
                 std::sort(v.begin(), v.end());
                 v.erase(std::unique(v.begin(), v.end()), v.end());
                 if (part == 0) return Array{{i64(v.size())}, v};
                 Array y{part == 1 ? x[0].shape : Shape{i64(v.size())}, {}};
                 if (part == 2)
                   for (const double u : v)
                     y.v.push_back(double(std::count(x[0].v.begin(), x[0].v.end(), u)));
                 if (part == 1)
                   for (const double u : x[0].v)
                     y.v.push_back(double(std::find(v.begin(), v.end(), u) - v.begin()));
                 return y;
               }};
      s.torch = str("torch.unique(a, return_inverse=True, return_counts=True)[", part, "]");
      s.gradients = false;
      s.constant = true;
      if (part) s.result = DType::i64;
      c.samples.push_back(std::move(s));
    }
  c.errors = {undefined_operand("unique", [](const Tensor& x, const Tensor&) { (void)unique(x); }),
              storage_dtype("unique", "i16 is for storage only",
                            [](const Tensor& x, const Tensor&) { (void)unique(x); })};
  rows.push_back(std::move(c));
}

// --- searchsorted ---
void add_searches(std::vector<OpCase>& rows) {
  OpCase c{"searchsorted", kSorted, kNumbers, ResultType::i64};
  OpCase b{"bucketize", kSorted, kNumbers, ResultType::i64};
  const auto ascending = [](const Shape& shape) {
    Input in{shape, 0, 9};
    const i64 n = shape[shape.ndim() - 1];
    for (i64 i = 0; i < count(shape); ++i) in.values.push_back(double(i % n * 9 / n));
    in.wants_grad = false;
    return in;
  };
  for (const bool right : {false, true})
    for (const auto& [list, values] : {std::pair<Shape, Shape>{{5}, {3, 4}},
                                       {{3, 4}, {3, 5}},
                                       {{7}, {}},
                                       {{2, 2, 3}, {2, 2, 7}},
                                       {{33}, {257}},
                                       {{4}, {0, 3}},
                                       {{1}, {5}},
                                       {{2, 31}, {2, 9}}}) {
      Input of{values, -1, 10};
      of.whole = true;
      of.wants_grad = false;
      Sample s{
          right ? "right" : "left",
          {ascending(list), of},
          [right](std::span<const Tensor> x) { return searchsorted(x[0], x[1], {.right = right}); },
          [right](const std::vector<Array>& x) {
            const Array &l = x[0], &v = x[1];
            const i64 n = l.shape[l.shape.ndim() - 1];
            const i64 m = v.shape.ndim() ? v.shape[v.shape.ndim() - 1] : 1;
            Array y{v.shape, {}};
            for (i64 i = 0; i < count(v.shape); ++i) {
              const auto from = l.v.begin() + (l.shape.ndim() > 1 ? i / m * n : 0);
              const double q = v.v[size_t(i)];
              const auto at =
                  right ? std::upper_bound(from, from + n, q) : std::lower_bound(from, from + n, q);
              y.v.push_back(double(at - from));
            }
            return y;
          }};
      s.layouts = false;
      s.gradients = false;
      s.constant = true;
      s.torch = str("torch.searchsorted(a, b, right=", right ? "True)" : "False)");
      c.samples.push_back(s);
      if (list.ndim() > 1) continue;
      std::swap(s.inputs[0], s.inputs[1]);
      s.call = [right](std::span<const Tensor> x) {
        return bucketize(x[0], x[1], {.right = right});
      };
      s.oracle = [f = s.oracle](const std::vector<Array>& x) { return f({x[1], x[0]}); };
      s.torch = str("torch.bucketize(a, b, right=", right ? "True)" : "False)");
      b.samples.push_back(std::move(s));
    }
  c.errors = {
      undefined_operand("searchsorted",
                        [](const Tensor& x, const Tensor& y) { (void)searchsorted(x, y); }),
      two_devices("searchsorted",
                  [](const Tensor& x, const Tensor& y) { (void)searchsorted(x, y); }),
      fails<DtypeError>("dtypes", "[searchsorted] the list is f32, the values are f64", {3},
                        [](const Tensor& x) { return searchsorted(x, x.to(f64)); }),
      fails<ShapeError>("0-d", "[searchsorted] the list must have at least one dimension", {},
                        [](const Tensor& x) { return searchsorted(x, x); }),
      fails<ShapeError>("leading",
                        "[searchsorted] lists [2, 3] and values [3] must have the same leading",
                        {2, 3}, [](const Tensor& x) { return searchsorted(x, x.select(0, 0)); })};
  b.errors = {undefined_operand("bucketize",
                                [](const Tensor& x, const Tensor& y) { (void)bucketize(x, y); }),
              fails<ShapeError>("rank", "[bucketize] boundaries must be 1-d, got shape [2, 3]",
                                {2, 3}, [](const Tensor& x) { return bucketize(x, x); }),
              fails<DtypeError>("dtypes", "[bucketize] the list is f64, the values are f32", {3},
                                [](const Tensor& x) { return bucketize(x, x.to(f64)); })};
  rows.push_back(std::move(c));
  rows.push_back(std::move(b));
}

void add_order_cases(std::vector<OpCase>& rows) {
  add_extremes(rows);
  add_medians(rows);
  add_kthvalue(rows);
  add_quantile(rows);
  add_count_nonzero(rows);
  add_unique(rows);
  add_searches(rows);
}

const CaseFile file{add_order_cases};

}  // namespace
}  // namespace wt_test
