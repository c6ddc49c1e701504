// Rows of the matrix products.
#include "warptape/autograd/ops/matmul.h"
#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {
namespace {

// Leading axes of s without its last two.
Shape batch_of(const Shape& s) { return Shape(s.data(), s.ndim() - 2); }

// c[.., i, j] = sum over l of a[.., i, l] b[.., l, j], written for 1-d operands too.
Array product(Array a, Array b) {
  const bool row = a.shape.ndim() == 1, column = b.shape.ndim() == 1;
  if (row) a.shape.insert(0, 1);
  if (column) b.shape.insert(1, 1);
  const i64 m = a.shape[a.shape.ndim() - 2], k = a.shape[a.shape.ndim() - 1];
  const i64 n = b.shape[b.shape.ndim() - 1];
  const Shape batch = broadcast(batch_of(a.shape), batch_of(b.shape));
  Shape full = batch, out = batch;
  full.push_back(m), full.push_back(n);
  if (!row) out.push_back(m);
  if (!column) out.push_back(n);
  Array r{out, {}, kTermsOfFormula + double(k)};
  for (i64 e = 0; e < count(full); ++e) {
    std::vector<i64> left = unravel(e, full), right = left;
    double sum = 0, magnitude = 0;
    for (i64 l = 0; l < k; ++l) {
      left.back() = l, right[right.size() - 2] = l;
      const double term = at(a, left) * at(b, right);
      sum += term, magnitude += std::fabs(term);
    }
    r.v.push_back(sum);
    r.magnitude.push_back(magnitude);
  }
  return r;
}

ErrorInput shapes(const std::string& text, const Shape& a, const Shape& b, const Apply& call) {
  return error_input<ShapeError>(
      "shapes", text, [=](Device d) { call(ones(a, {.device = d}), ones(b, {.device = d})); });
}

void add_matmul_cases(std::vector<OpCase>& rows) {
  const std::vector<DType> dtypes{f64, f32, f16, bf16, DType::i64, DType::i32};
  OpCase c{"matmul", {"matmul"}, dtypes};
  const std::pair<Shape, Shape> pairs[] = {{{3, 4}, {4, 5}},
                                           {{2, 3, 4}, {2, 4, 2}},
                                           {{2, 1, 2, 3}, {3, 3, 2}},
                                           {{3, 4}, {2, 4, 3}},
                                           {{5}, {5}},
                                           {{4}, {4, 3}},
                                           {{3, 4}, {4}},
                                           {{1, 1}, {1, 1}},
                                           {{0, 3}, {3, 2}},
                                           {{3, 0}, {0, 2}},
                                           {{33, 31}, {31, 17}},
                                           {{40, 32}, {32, 40}},
                                           {{16, 16}, {16, 16}},
                                           {{2, 9, 24}, {24, 7}},
                                           {{1, 40}, {40, 1}},
                                           {{65, 8}, {8, 136}},    // beyond tiles of 64 and 128
                                           {{3, 528}, {528, 8}}};  // k in two parts
  for (const auto& [a, b] : pairs)
    c.samples.push_back({"",
                         {{a}, {b}},
                         [](std::span<const Tensor> in) { return matmul(in[0], in[1]); },
                         [](const std::vector<Array>& in) { return product(in[0], in[1]); }});
  const Apply call = [](const Tensor& a, const Tensor& b) { (void)matmul(a, b); };
  c.errors = {
      undefined_operand("matmul", call), two_devices("matmul", call),
      shapes("[matmul] a's last dimension 3 \u2260 b's second to last dimension 2", {2, 3}, {2, 3},
             call),
      shapes("[matmul] batch dimensions do not broadcast: 2 \u2260 3", {2, 1, 1}, {3, 1, 1}, call),
      error_input<DtypeError>(
          "dtype", "[matmul] takes f64, f32, f16, bf16, i64 and i32, not bool", [](Device d) {
            const Tensor x = ones({2, 2}, {.dtype = DType::boolean, .device = d});
            (void)matmul(x, x);
          })};
  rows.push_back(c);

  OpCase l{"linear", {"matmul"}, dtypes};
  const auto linear_oracle = [](const std::vector<Array>& in) {
    Array w = in[1];
    std::swap(w.shape[0], w.shape[1]);
    for (i64 i = 0; i < count(w.shape); ++i) {
      const std::vector<i64> p = unravel(i, w.shape);
      w.v[size_t(i)] = at(in[1], {p[1], p[0]});
    }
    Array y = product(in[0], w);
    if (in.size() < 3) return y;
    for (size_t i = 0; i < y.v.size(); ++i) {
      const double bias = in[2].v[i % in[2].v.size()];
      y.v[i] += bias, y.magnitude[i] += std::fabs(bias);
    }
    return y;
  };
  for (const auto& [x, w] : {std::pair<Shape, Shape>{{3, 4}, {5, 4}},
                             {{2, 3, 4}, {2, 4}},
                             {{4}, {3, 4}},
                             {{0, 3}, {2, 3}},
                             {{3, 0}, {2, 0}},
                             {{33, 31}, {17, 31}},
                             {{16, 32}, {40, 32}},
                             {{520, 8}, {8, 8}}}) {  // weight gradient: k in two parts
    l.samples.push_back({"no bias",
                         {{x}, {w}},
                         [](std::span<const Tensor> in) { return linear(in[0], in[1]); },
                         linear_oracle});
    l.samples.push_back({"bias",
                         {{x}, {w}, {{w[0]}}},
                         [](std::span<const Tensor> in) { return linear(in[0], in[1], in[2]); },
                         linear_oracle});
  }
  const Apply linear_call = [](const Tensor& x, const Tensor& w) { (void)linear(x, w); };
  l.errors = {
      undefined_operand("linear", linear_call), two_devices("linear", linear_call),
      shapes("[linear] input features 3 \u2260 weight in_features 4", {2, 3}, {5, 4}, linear_call),
      shapes("[linear] weight has 1 dimensions, 2 are needed", {2, 3}, {3}, linear_call)};
  rows.push_back(l);
}

const CaseFile file{add_matmul_cases};

}  // namespace
}  // namespace wt_test
