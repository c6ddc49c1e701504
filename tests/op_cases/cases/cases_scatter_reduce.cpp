// The row of scatter_reduce.
#include <algorithm>
#include <cmath>

#include "warptape/autograd/ops/scatter_reduce.h"
#include "warptape/tests/op_cases/moves.h"

namespace wt_test {
namespace {

struct Case {
  Shape x, index;
  i64 axis;
  Shape source{};  // empty: index's
  size_t along() const { return size_t(axis < 0 ? axis + x.ndim() : axis); }
};

// What comes to each place, x's own first if it counts, and what is made of it.
Array reduced_at(const Case& k, const std::vector<Array>& in, ScatterReduction r, bool self) {
  std::vector<std::vector<double>> at_place(in[0].v.size());
  std::vector<bool> named(in[0].v.size(), false);
  for (i64 e = 0; e < count(k.index); ++e) {
    Place i = unravel(e, k.index);
    const double v = at(in[2], i);
    if (!i.empty()) i[k.along()] = i64(in[1].v[size_t(e)]);
    const size_t to = size_t(ravel(i, k.x));
    named[to] = true;
    at_place[to].push_back(v);
  }
  Array y = in[0];
  y.magnitude = y.v;
  y.terms = kTermsOfFormula + double(count(k.index)) + 8;
  for (size_t p = 0; p < y.v.size(); ++p) {
    std::vector<double>& v = at_place[p];
    y.magnitude[p] = std::fabs(y.v[p]);
    if (!named[p]) continue;
    if (self) v.push_back(in[0].v[p]);
    double sum = 0, sizes = 0, product = 1;
    for (const double e : v) sum += e, sizes += std::fabs(e), product *= e;
    switch (r) {
      case ScatterReduction::sum:
        y.v[p] = sum, y.magnitude[p] = sizes;
        break;
      case ScatterReduction::mean:
        y.v[p] = sum / double(v.size()), y.magnitude[p] = sizes / double(v.size());
        break;
      case ScatterReduction::prod:
        y.v[p] = product, y.magnitude[p] = std::fabs(product);
        break;
      default:
        y.v[p] = r == ScatterReduction::amax ? *std::max_element(v.begin(), v.end())
                                             : *std::min_element(v.begin(), v.end());
        y.magnitude[p] = std::fabs(y.v[p]);
    }
  }
  return y;
}

void add_scatter_reduce_cases(std::vector<OpCase>& rows) {
  OpCase c{"scatter_reduce", {"scatter", "gather", "sort"}, kNumbers};
  static const char* const kNames[] = {"sum", "prod", "mean", "amax", "amin"};
  for (const ScatterReduction r :
       {ScatterReduction::sum, ScatterReduction::prod, ScatterReduction::mean,
        ScatterReduction::amax, ScatterReduction::amin})
    for (const bool self : {true, false})
      for (const Case& k : {Case{{3, 4}, {3, 6}, 1}, Case{{5, 3}, {4, 3}, 0},
                            Case{{2, 3, 4}, {2, 7, 3}, 1, {2, 8, 4}}, Case{{2, 3}, {2, 0}, 1},
                            Case{{}, {}, 0}, Case{{7}, {33}, -1}}) {
        Sample s{str(kNames[int(r)], self ? "" : " without self", " along ", k.axis),
                 {{k.x, -1.5, 1.5},
                  index_input(k.index, k.x.empty() ? 1 : k.x[int(k.along())]),
                  {k.source.empty() ? k.index : k.source, -1.5, 1.5}},
                 [=](std::span<const Tensor> x) {
                   return scatter_reduce(x[0], k.axis, x[1], x[2], r, {.include_self = self});
                 },
                 [=](const std::vector<Array>& x) { return reduced_at(k, x, r, self); }};
        // A product is linear where each place has one factor.
        s.second_is_zero = r != ScatterReduction::prod || (k.x.empty() && !self);
        s.integers = r != ScatterReduction::mean;
        s.torch = str("torch.scatter_reduce(a, ", k.axis, ", b, ",
                      k.source.empty() ? "c" : "c[tuple(slice(n) for n in b.shape)]", ", '",
                      kNames[int(r)], "', include_self=", self ? "True)" : "False)");
        // Integers that wrap are no matter of the oracle.
        if (r == ScatterReduction::prod && k.index.ndim() == 1) s.integers = false;
        c.samples.push_back(std::move(s));
      }
  const auto call = [](const Shape& index, i64 place, const Shape& source, DType t,
                       ScatterReduction r) {
    return [=](Device d) {
      const Tensor i = full(index, place, {.dtype = DType::i64, .device = d});
      (void)scatter_reduce(ones({3, 5}, {.dtype = t, .device = d}), 1, i,
                           ones(source, {.dtype = t, .device = d}), r)
          .to_vector<double>();
    };
  };
  using enum ScatterReduction;
  const std::string op = "[scatter_reduce] ";
  c.errors = {
      undefined_operand("scatter_reduce",
                        [](const Tensor& a, const Tensor& b) {
                          (void)scatter_reduce(a, 0, b, b, ScatterReduction::sum);
                        }),
      error_input<IndexError>("bad index", "index 5 at ", call({3, 2}, 5, {3, 2}, f32, amax)),
      error_input<ShapeError>("source", op + "the index has size 2 along axis 1, the source 1",
                              call({3, 2}, 0, {3, 1}, f32, prod)),
      error_input<ShapeError>("size", op + "the index has size 4 along axis 0, the tensor 3",
                              call({4, 2}, 0, {4, 2}, f32, sum)),
      error_input<ShapeError>("dims", op + "the index has 1 dimensions, the tensor 2",
                              call({3}, 0, {3}, f32, sum)),
      error_input<ShapeError>("source's dims", op + "the source has 1 dimensions, the tensor 2",
                              call({3, 2}, 0, {3}, f32, sum)),
      error_input<DtypeError>("mean", op + "the mean of i64 has no dtype of its own",
                              call({3, 2}, 0, {3, 2}, DType::i64, mean)),
      error_input<DtypeError>("bool", op + "reduces floats and integers, got bool",
                              call({3, 2}, 0, {3, 2}, DType::boolean, amax))};
  rows.push_back(std::move(c));
}

const CaseFile file{add_scatter_reduce_cases};

}  // namespace
}  // namespace wt_test
