// Rows of the indexing operators.
#include "warptape/autograd/ops/index.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {
namespace {

void add_embedding(std::vector<OpCase>& rows) {
  OpCase c{"embedding", {"embedding_forward", "embedding_backward"}, kFloats};
  struct Case {
    Shape indices;
    i64 count, width;
    std::optional<i64> padding;
  };
  for (const Case& k :
       {Case{{5}, 4, 3, {}}, Case{{2, 3}, 6, 2, 1}, Case{{}, 3, 4, {}}, Case{{0}, 3, 4, {}},
        Case{{33}, 7, 1, {}}, Case{{4, 9}, 11, 65, -2}, Case{{6}, 1, 5, {}}}) {
    EmbeddingOptions o;
    o.padding_idx = k.padding;
    c.samples.push_back({k.padding ? "padding" : "",
                         {index_input(k.indices, k.count), {{k.count, k.width}}},
                         [o](std::span<const Tensor> in) { return embedding(in[0], in[1], o); },
                         [](const std::vector<Array>& in) {
                           Shape s = in[0].shape;
                           s.push_back(in[1].shape[1]);
                           return filled(s, [&](const std::vector<i64>& i) {
                             const std::vector<i64> place(i.begin(), i.end() - 1);
                             return at(in[1], {i64(at(in[0], place)), i.back()});
                           });
                         }});
    c.samples.back().torch =
        k.padding ? str("F.embedding(a, b, padding_idx=", *k.padding, ")") : "F.embedding(a, b)";
  }
  const auto call = [](DType t, double index, const Shape& table) {
    return [=](Device d) {
      (void)embedding(full({2}, index, {.dtype = t, .device = d}), ones(table, {.device = d}))
          .to_vector<float>();
    };
  };
  c.errors = {undefined_operand("embedding",
                                [](const Tensor& a, const Tensor& b) { (void)embedding(a, b); }),
              error_input<DtypeError>("indices", "[embedding] indices must be i64 or i32, got f32",
                                      call(f32, 0, {3, 2})),
              error_input<ShapeError>(
                  "table", "[embedding] the table must be [rows, width], got 1 dimensions",
                  call(DType::i64, 0, {3})),
              error_input<IndexError>("index", "token id 3", call(DType::i64, 3, {3, 2}))};
  rows.push_back(std::move(c));
}

void add_embedding_backward(std::vector<OpCase>& rows) {
  OpCase c{"embedding_backward", {"embedding_backward", "embedding_forward"}, kFloats};
  struct Case {
    Shape indices;
    i64 count, width;
    std::optional<i64> padding;
  };
  for (const Case& k : {Case{{5}, 4, 3, {}}, Case{{2, 3}, 6, 2, 1}, Case{{0}, 3, 4, {}},
                        Case{{33}, 7, 1, {}}, Case{{4, 9}, 11, 33, {}}}) {
    EmbeddingOptions o;
    o.padding_idx = k.padding;
    Shape gout = k.indices;
    gout.push_back(k.width);
    c.samples.push_back({k.padding ? "padding" : "",
                         {{gout}, index_input(k.indices, k.count)},
                         [o, n = k.count](std::span<const Tensor> in) {
                           return embedding_backward(in[0], in[1], n, o);
                         },
                         [o, n = k.count](const std::vector<Array>& in) {
                           const i64 width = in[0].shape[in[0].shape.ndim() - 1];
                           Array r{{n, width}, std::vector<double>(size_t(n * width)), 0};
                           r.magnitude = r.v;
                           for (size_t e = 0; e < in[1].v.size(); ++e) {
                             const i64 row = i64(in[1].v[e]);
                             if (row == o.padding_idx) continue;
                             for (i64 j = 0; j < width; ++j) {
                               const double g = in[0].v[e * size_t(width) + size_t(j)];
                               r.v[size_t(row * width + j)] += g;
                               r.magnitude[size_t(row * width + j)] += std::fabs(g);
                             }
                           }
                           r.terms = kTermsOfFormula + double(in[1].v.size());
                           return r;
                         }});
  }
  c.errors = {undefined_operand(
                  "embedding_backward",
                  [](const Tensor& a, const Tensor& b) { (void)embedding_backward(a, b, 2); }),
              error_input<ShapeError>(
                  "shapes", "[embedding_backward] the gradient must have the shape of the indices",
                  [](Device d) {
                    (void)embedding_backward(ones({3, 2}, {.device = d}),
                                             zeros({2}, {.dtype = DType::i64, .device = d}), 4);
                  })};
  rows.push_back(std::move(c));
}

// A call that picks, and where element i of its result comes from.
void pick(
    OpCase& c, const std::string& torch, std::vector<Input> inputs, const Shape& out,
    CheckedFunction call,
    const std::function<double(const std::vector<Array>&, const std::vector<i64>&)>& element) {
  c.samples.push_back(
      {torch, std::move(inputs), std::move(call), [out, element](const std::vector<Array>& in) {
         return filled(out, [&](const std::vector<i64>& i) { return element(in, i); });
       }});
  c.samples.back().torch = torch;
}

// Slices and integers among the tensors, and indices that count from the end.
void add_mixed_lists(OpCase& c) {
  const auto entry = [](const Array& list, i64 i) { return i64(list.v[size_t(i)]); };
  pick(
      c, "a[1:3, b]", {{{4, 5}}, index_input({3}, 5)}, {2, 3},
      [](std::span<const Tensor> in) {
        return index(in[0], {Slice{1, 3}, in[1]});
      },
      [entry](const std::vector<Array>& in, const std::vector<i64>& i) {
        return at(in[0], {i[0] + 1, entry(in[1], i[1])});
      });
  pick(
      c, "a[b, 0:4:2, c]", {{{3, 4, 2}}, index_input({3}, 3), index_input({3}, 2)}, {3, 2},
      [](std::span<const Tensor> in) {
        return index(in[0], {in[1], Slice{0, 4, 2}, in[2]});
      },
      [entry](const std::vector<Array>& in, const std::vector<i64>& i) {
        return at(in[0], {entry(in[1], i[0]), 2 * i[1], entry(in[2], i[0])});
      });
  pick(
      c, "a[:, 1, b]", {{{3, 2, 7}}, index_input({4}, 7)}, {3, 4},
      [](std::span<const Tensor> in) {
        return index(in[0], {Slice{}, 1, in[1]});
      },
      [entry](const std::vector<Array>& in, const std::vector<i64>& i) {
        return at(in[0], {i[0], 1, entry(in[1], i[1])});
      });
  Input negative = index_input({6}, 5);
  negative.low = -5;
  pick(
      c, "a[b]", {{{5, 3}}, negative}, {6, 3},
      [](std::span<const Tensor> in) { return index(in[0], {in[1]}); },
      [entry](const std::vector<Array>& in, const std::vector<i64>& i) {
        return at(in[0], {(entry(in[1], i[0]) + 5) % 5, i[1]});
      });
  pick(
      c, "a[b, c]", {{{4, 3, 33}}, index_input({5, 1}, 4), index_input({1, 7}, 3)}, {5, 7, 33},
      [](std::span<const Tensor> in) {
        return index(in[0], {in[1], in[2]});
      },
      [entry](const std::vector<Array>& in, const std::vector<i64>& i) {
        return at(in[0], {entry(in[1], i[0]), entry(in[2], i[1]), i[2]});
      });
}

// Rows of x [n, width] after its first axes are one: those that the mask names.
Oracle masked_rows(i64 width, const Shape& rest) {
  return [width, rest](const std::vector<Array>& in) {
    Array r;
    i64 rows = 0;
    for (i64 e = 0; e < i64(in[1].v.size()); ++e) {
      if (in[1].v[size_t(e)] == 0) continue;
      ++rows;
      for (i64 j = 0; j < width; ++j) r.v.push_back(in[0].v[size_t(e * width + j)]);
    }
    r.shape = {rows};
    for (const i64 size : rest) r.shape.push_back(size);
    return r;
  };
}
void add_masks(OpCase& c) {
  for (const auto& [x, mask, rest] : {std::tuple<Shape, Shape, Shape>{{5, 3}, {5}, {3}},
                                      {{3, 4}, {3, 4}, {}},
                                      {{2, 3, 4}, {2, 3}, {4}},
                                      {{33, 7}, {33}, {7}},
                                      {{0, 3}, {0}, {3}}}) {
    c.samples.push_back({"a mask",
                         {{x}, truth_input(mask)},
                         [](std::span<const Tensor> in) { return index(in[0], {in[1]}); },
                         masked_rows(count(rest), rest)});
    c.samples.back().torch = "a[b]";
  }
  c.samples.push_back({"a mask along the last axis",
                       {{{3, 7}}, truth_input({7})},
                       [](std::span<const Tensor> in) {
                         return index(in[0], {Slice{}, in[1]});
                       },
                       [](const std::vector<Array>& in) {
                         std::vector<i64> kept;
                         for (i64 j = 0; j < 7; ++j)
                           if (in[1].v[size_t(j)] != 0) kept.push_back(j);
                         return filled({3, kept.size()}, [&](const std::vector<i64>& i) {
                           return at(in[0], {i[0], kept[size_t(i[1])]});
                         });
                       }});
  c.samples.back().torch = "a[:, b]";
}

// x[i] and x[:, i, j] of x [a, b, c]; i and j broadcast.
void add_index(std::vector<OpCase>& rows) {
  OpCase c{"index", {"index_rows", "embedding_forward", "embedding_backward"}, kNumbers};
  for (const auto& [list, shape] : {std::pair<Shape, Shape>{{5}, {4, 3}},
                                    {{2, 3}, {6, 2, 5}},
                                    {{}, {3, 4}},
                                    {{0}, {3, 2}},
                                    {{40}, {7, 33}}}) {
    c.samples.push_back({"rows",
                         {{shape}, index_input(list, shape[0])},
                         [](std::span<const Tensor> in) { return index(in[0], {in[1]}); },
                         [n = list.ndim()](const std::vector<Array>& in) {
                           Shape s = in[1].shape;
                           for (int d = 1; d < in[0].shape.ndim(); ++d) s.push_back(in[0].shape[d]);
                           return filled(s, [&](const std::vector<i64>& i) {
                             std::vector<i64> from{i64(at(in[1], {i.begin(), i.begin() + n}))};
                             from.insert(from.end(), i.begin() + n, i.end());
                             return at(in[0], from);
                           });
                         }});
    c.samples.back().torch = "a[b]";
  }
  c.samples.push_back(
      {"two axes",
       {{{3, 4, 5}}, index_input({2, 1}, 4), index_input({6}, 5)},
       [](std::span<const Tensor> in) {
         return index(in[0], {Slice{}, in[1], in[2]});
       },
       [](const std::vector<Array>& in) {
         return filled({3, 2, 6}, [&](const std::vector<i64>& i) {
           return at(in[0], {i[0], i64(at(in[1], {i[1], 0})), i64(at(in[2], {i[2]}))});
         });
       }});
  c.samples.back().torch = "a[:, b, c]";
  add_mixed_lists(c);
  add_masks(c);
  c.errors = {undefined_tensor([](const Tensor& a, const Tensor&) { (void)index(a, {0}); }),
              error_input<DtypeError>("dtype", "[index] indices must be i64, i32 or bool, got f32",
                                      [](Device d) {
                                        const Tensor x = ones({3}, {.device = d});
                                        (void)index(x, {x});
                                      }),
              error_input<IndexError>("index", "[index] index 3", [](Device d) {
                const Tensor i = full({2}, 3, {.dtype = DType::i64, .device = d});
                (void)index(ones({3, 2}, {.device = d}), {i}).to_vector<float>();
              })};
  rows.push_back(std::move(c));
}

void add_index_cases(std::vector<OpCase>& rows) {
  add_index(rows);
  add_embedding(rows);
  add_embedding_backward(rows);
}

const CaseFile file{add_index_cases};

}  // namespace
}  // namespace wt_test
