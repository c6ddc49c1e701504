// Rows of the indexing operators.
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

void add_index_cases(std::vector<OpCase>& rows) {
  add_embedding(rows);
  add_embedding_backward(rows);
}

const CaseFile file{add_index_cases};

}  // namespace
}  // namespace wt_test
