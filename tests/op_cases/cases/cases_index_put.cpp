// Rows of writing by tensors as indices: index_put makes a new tensor, index_put_ writes into x.
#include "warptape/autograd/ops/index.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {
namespace {

using Entries = std::initializer_list<Index>;
// x with value at the entries, by one operator or the other.
using Put = Tensor (*)(const Tensor& x, Entries at, const Tensor& value, IndexPutOptions options);

Tensor as_new(const Tensor& x, Entries at, const Tensor& value, IndexPutOptions options) {
  return index_put(x, at, value, options);
}
Tensor in_place(const Tensor& x, Entries at, const Tensor& value, IndexPutOptions options) {
  Tensor y = clone(x);
  y.index_put_(at, value, options);
  return y;
}

// Rows and columns by number; of equal indices the last one counts.
void add_numbers(OpCase& c, Put put) {
  for (const i64 n : {0, 1, 9})
    for (const bool columns : {false, true}) {
      const Shape given = columns ? Shape{4, n} : Shape{n, 3};
      c.samples.push_back({columns ? "columns" : "rows",
                           {{{4, 3}}, index_input({n}, columns ? 3 : 4), {given}},
                           [columns, put](std::span<const Tensor> in) {
                             return columns ? put(in[0], {Slice{}, in[1]}, in[2], {})
                                            : put(in[0], {in[1]}, in[2], {});
                           },
                           [columns, n](const std::vector<Array>& in) {
                             Array r = in[0];
                             for (i64 k = 0; k < n; ++k)
                               for (i64 j = 0; j < (columns ? 4 : 3); ++j) {
                                 const i64 i = i64(in[1].v[size_t(k)]);
                                 const std::vector<i64> to{columns ? j : i, columns ? i : j};
                                 const std::vector<i64> from{columns ? j : k, columns ? k : j};
                                 r.v[size_t(ravel(to, r.shape))] = at(in[2], from);
                               }
                             return r;
                           }});
    }
}

// Every element that is named is added, as often as it is named.
void add_accumulation(OpCase& c, Put put) {
  for (const auto& [x, n] :
       {std::pair<Shape, i64>{{4, 3}, 9}, {{3, 5}, 2}, {{1, 33}, 5}, {{5}, 31}}) {
    Shape given = x;
    given[0] = n;
    Sample s{"accumulate",
             {{x}, index_input({n}, x[0]), {given}},
             [put](std::span<const Tensor> in) {
               return put(in[0], {in[1]}, in[2], {.accumulate = true});
             },
             [width = count(x) / x[0]](const std::vector<Array>& in) {
               Array r = in[0];
               r.magnitude = r.v;
               for (double& m : r.magnitude) m = std::fabs(m);
               for (i64 e = 0; e < i64(in[2].v.size()); ++e) {
                 const size_t to = size_t(i64(in[1].v[size_t(e / width)]) * width + e % width);
                 r.v[to] += in[2].v[size_t(e)];
                 r.magnitude[to] += std::fabs(in[2].v[size_t(e)]);
               }
               r.terms = kTermsOfFormula + double(in[1].v.size());
               return r;
             }};
    s.integers = false;
    s.torch = "a.index_put((b,), c, accumulate=True)";
    c.samples.push_back(std::move(s));
  }
}

// A value that broadcasts, masks, slices and integers, with and without tensors among them.
void add_mixed(OpCase& c, Put put) {
  const auto add = [&](const std::string& label, std::vector<Input> inputs,
                       std::function<Tensor(std::span<const Tensor>)> call, Oracle oracle) {
    c.samples.push_back({label, std::move(inputs), std::move(call), std::move(oracle)});
  };
  add(
      "a mask", {{{5, 3}}, truth_input({5, 3}), {{}}},
      [put](std::span<const Tensor> in) { return put(in[0], {in[1]}, in[2], {}); },
      [](const std::vector<Array>& in) {
        Array r = in[0];
        for (size_t e = 0; e < r.v.size(); ++e)
          if (in[1].v[e] != 0) r.v[e] = in[2].v[0];
        return r;
      });
  c.samples.back().torch = "a.index_put((b,), c)";
  add(
      "a mask of rows", {{{31, 2}}, truth_input({31}), {{2}}},
      [put](std::span<const Tensor> in) { return put(in[0], {in[1]}, in[2], {}); },
      [](const std::vector<Array>& in) {
        Array r = in[0];
        for (size_t e = 0; e < r.v.size(); ++e)
          if (in[1].v[e / 2] != 0) r.v[e] = in[2].v[e % 2];
        return r;
      });
  c.samples.back().torch = "a.index_put((b,), c)";
  add(
      "slices and a tensor", {{{3, 4, 5}}, index_input({2}, 5), {{2, 1}}},
      [put](std::span<const Tensor> in) {
        return put(in[0], {Slice{1, 3}, 2, in[1]}, in[2], {});
      },
      [](const std::vector<Array>& in) {
        Array r = in[0];
        for (i64 i = 1; i < 3; ++i)
          for (i64 k = 0; k < 2; ++k)
            r.v[size_t(ravel({i, 2, i64(in[1].v[size_t(k)])}, r.shape))] = in[2].v[size_t(i - 1)];
        return r;
      });
  add(
      "views only", {{{4, 6}}, {{2}}},
      [put](std::span<const Tensor> in) {
        return put(in[0], {-1, Slice{1, 5, 2}}, in[1], {});
      },
      [](const std::vector<Array>& in) {
        Array r = in[0];
        for (i64 k = 0; k < 2; ++k) r.v[size_t(3 * 6 + 1 + 2 * k)] = in[1].v[size_t(k)];
        return r;
      });
  add(
      "added to a view", {{{3, 5}}, {{3, 1}}},
      [put](std::span<const Tensor> in) {
        return put(in[0], {Slice{}, Slice{2, 4}}, in[1], {.accumulate = true});
      },
      [](const std::vector<Array>& in) {
        Array r = in[0];
        for (i64 i = 0; i < 3; ++i)
          for (i64 k = 2; k < 4; ++k) r.v[size_t(i * 5 + k)] += in[1].v[size_t(i)];
        return r;
      });
  add(
      "all of it", {{{7}}, {{1}}},
      [put](std::span<const Tensor> in) { return put(in[0], {Slice{}}, in[1], {}); },
      [](const std::vector<Array>& in) {
        Array r = in[0];
        for (double& v : r.v) v = in[1].v[0];
        return r;
      });
}

void add_index_put_cases(std::vector<OpCase>& rows) {
  for (const bool into : {false, true}) {
    const std::string name = into ? "index_put_" : "index_put";
    const Put put = into ? in_place : as_new;
    OpCase c{
        name, {"index_rows", "index_put", "embedding_forward", "embedding_backward"}, kNumbers};
    add_numbers(c, put);
    add_accumulation(c, put);
    add_mixed(c, put);
    c.errors = {error_input<IndexError>(
                    "index", "[" + name + "] index -5",
                    [put](Device d) {
                      const Tensor x = ones({4, 2}, {.device = d});
                      const Tensor i = full({1}, -5, {.dtype = DType::i64, .device = d});
                      (void)put(x, {i}, ones({1, 2}, {.device = d}), {}).to_vector<float>();
                    }),
                error_input<ShapeError>(
                    "value", "[" + name + "] the value's shape [3] does not broadcast to [1]",
                    [put](Device d) {
                      const Tensor i = zeros({1}, {.dtype = DType::i64, .device = d});
                      (void)put(ones({4}, {.device = d}), {i}, ones({3}, {.device = d}), {});
                    })};
    if (into)
      c.errors.push_back(error_input<InplaceError>(
          "leaf", "[index_put_] in-place operation on a leaf", [](Device d) {
            Tensor x = ones({4}, {.device = d, .requires_grad = true});
            const Tensor i = zeros({1}, {.dtype = DType::i64, .device = d});
            x.index_put_({i}, ones({1}, {.device = d}));
          }));
    else
      c.errors.push_back(
          undefined_tensor([](const Tensor& a, const Tensor& b) { (void)index_put(a, {0}, b); }));
    rows.push_back(std::move(c));
  }
}

const CaseFile file{add_index_put_cases};

}  // namespace
}  // namespace wt_test
