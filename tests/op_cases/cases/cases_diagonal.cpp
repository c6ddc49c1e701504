// Rows of the operators on triangles and diagonals.
#include "warptape/autograd/ops/diagonal.h"
#include "warptape/tests/op_cases/moves.h"

namespace wt_test {
namespace {

OpCase triangle(const std::string& name, Tensor (*f)(const In&, i64), bool lower) {
  OpCase c{name, {"copy"}, kAll};
  for (const auto& [in, k] : {std::pair<Shape, i64>{{3, 5}, 0},
                              {{5, 3}, 1},
                              {{2, 4, 4}, -1},
                              {{3, 3}, 2},
                              {{2, 3}, -9},
                              {{0, 3}, 0},
                              {{2, 1}, 0},
                              {{31, 7}, -20},
                              {{2, 2, 3}, 9},
                              {{33, 33}, -5}}) {
    const int n = in.ndim();
    c.samples.push_back(one_input(
        str("torch.", name, "(a, ", k, ")"), in, [f, k = k](const Tensor& x) { return f(x, k); },
        elements(in, [k = k, lower, n](const std::vector<Array>& x, const Place& i) {
          const i64 above = i[size_t(n - 1)] - i[size_t(n - 2)];
          return (lower ? above <= k : above >= k) ? at(x[0], i) : 0.0;
        })));
    // All or nothing is left.
    c.samples.back().constant = k == -9 || k == 9;
  }
  c.errors = {undefined_input(name, [f](const Tensor& x) { return f(x, 0); }),
              fails<ShapeError>("rank", "[" + name + "] needs at least two dimensions", {3},
                                [f](const Tensor& x) { return f(x, 0); }),
              storage_dtype(name, "i16 is for storage only",
                            [f](const Tensor& x, const Tensor&) { (void)f(x, 0); })};
  return c;
}

struct Case {
  Shape matrices, diagonal;
  i64 offset, axis1, axis2;
  int axis(i64 a) const { return int(a < 0 ? a + matrices.ndim() : a); }
  // Where element i of the diagonal is in the matrices.
  Place place(Place i) const {
    const i64 k = i.back();
    i.pop_back();
    Place p;
    size_t next = 0;
    for (int d = 0; d < matrices.ndim(); ++d)
      p.push_back(d == axis(axis1)   ? k - std::min<i64>(offset, 0)
                  : d == axis(axis2) ? k + std::max<i64>(offset, 0)
                                     : i[next++]);
    return p;
  }
};
const std::vector<Case>& diagonals() {
  static const std::vector<Case> list{
      {{3, 5}, {3}, 0, 0, 1},         {{4, 3}, {2}, 1, 0, 1},        {{4, 3}, {2}, -2, 0, 1},
      {{2, 3, 4}, {2, 3}, 0, -2, -1}, {{2, 3, 4}, {3, 2}, 1, 0, 2},  {{3, 2, 3}, {2, 2}, -1, 2, 0},
      {{2, 3}, {0}, 7, 0, 1},         {{0, 3}, {0}, 0, 0, 1},        {{3, 1}, {1}, 0, 1, 0},
      {{31, 33}, {31}, 2, 0, 1},      {{5, 3}, {0}, INT64_MIN, 0, 1}};
  return list;
}

// Zeros with x on a diagonal.
Oracle spread(const Case& k) {
  return [k](const std::vector<Array>& in) {
    Array r{k.matrices, std::vector<double>(size_t(count(k.matrices)))};
    for (i64 e = 0; e < count(k.diagonal); ++e)
      r.v[size_t(ravel(k.place(unravel(e, k.diagonal)), k.matrices))] = in[0].v[size_t(e)];
    return r;
  };
}

void add_diagonal(std::vector<OpCase>& rows) {
  OpCase c{"diagonal", {"copy", "fill"}, kAll};
  OpCase b{"diagonal_backward", {"copy", "fill"}, kAll};
  for (const Case& k : diagonals()) {
    const bool far = k.offset == INT64_MIN;
    c.samples.push_back(one_input(
        far ? "" : str("torch.diagonal(a, ", k.offset, ", ", k.axis1, ", ", k.axis2, ")"),
        k.matrices, [k](const Tensor& x) { return diagonal(x, k.offset, k.axis1, k.axis2); },
        moved(k.diagonal, [k](const Place& i) { return k.place(i); })));
    b.samples.push_back(one_input(
        "", k.diagonal,
        [k](const Tensor& x) {
          return diagonal_backward(x, k.matrices, k.offset, k.axis1, k.axis2);
        },
        spread(k)));
    b.samples.back().constant = true;  // mostly the zeros beside the diagonal
  }
  const auto call = [](i64 a, i64 b) {
    return [=](const Tensor& x) { return diagonal(x, 0, a, b); };
  };
  c.errors = {
      undefined_input("diagonal", call(0, 1)),
      fails<ShapeError>("rank", "[diagonal] needs at least two dimensions", {3}, call(0, 1)),
      fails<ShapeError>("equal", "[diagonal] axis1 and axis2 must differ, both are axis 1", {3, 3},
                        call(1, -1)),
      fails<ShapeError>("axis", "[diagonal] axis 2", {3, 3}, call(0, 2))};
  b.errors = {
      undefined_input("diagonal_backward",
                      [](const Tensor& x) {
                        return diagonal_backward(x, {3, 3});
                      }),
      fails<ShapeError>("shape",
                        "[diagonal_backward] diagonal 1 of axes 0 and 1 of shape [3, 3] has "
                        "shape [2]",
                        {3},
                        [](const Tensor& x) {
                          return diagonal_backward(x, {3, 3}, 1);
                        }),
      fails<ShapeError>("rank", "[diagonal_backward] needs at least two dimensions", {3},
                        [](const Tensor& x) { return diagonal_backward(x, {3}); })};
  rows.push_back(std::move(c));
  rows.push_back(std::move(b));
}

void add_matrices(std::vector<OpCase>& rows) {
  OpCase e{"diag_embed", {"copy", "fill"}, kAll};
  for (const Case& k : {Case{{3, 3}, {3}, 0, -2, -1}, Case{{2, 4, 4}, {2, 3}, 1, -2, -1},
                        Case{{5, 2, 5}, {2, 3}, -2, 0, 2}, Case{{3, 4, 3}, {4, 3}, 0, 2, 0},
                        Case{{0, 0}, {0}, 0, 0, 1}, Case{{2, 2}, {0}, 2, 0, 1},
                        Case{{3, 7, 7}, {3, 7}, 0, 1, 2}, Case{{33, 33}, {31}, -2, 0, 1}}) {
    e.samples.push_back(one_input(
        str("torch.diag_embed(a, ", k.offset, ", ", k.axis1, ", ", k.axis2, ")"), k.diagonal,
        [k](const Tensor& x) { return diag_embed(x, k.offset, k.axis1, k.axis2); }, spread(k)));
    e.samples.back().constant = true;
  }
  e.errors = {
      undefined_input("diag_embed", [](const Tensor& x) { return diag_embed(x); }),
      fails<ShapeError>("0-d", "[diag_embed] needs at least one dimension", {},
                        [](const Tensor& x) { return diag_embed(x); }),
      fails<ShapeError>("dims", "[diag_embed] the result would have 9 dimensions",
                        {1, 1, 1, 1, 1, 1, 1, 1}, [](const Tensor& x) { return diag_embed(x); }),
      fails<ShapeError>("large", "the size of the matrix overflows 64 bits", {3},
                        [](const Tensor& x) { return diag_embed(x, INT64_MAX); }),
      fails<ShapeError>("equal", "[diag_embed] axis1 and axis2 must differ", {3},
                        [](const Tensor& x) { return diag_embed(x, 0, 1, 1); })};
  rows.push_back(std::move(e));

  OpCase d{"diag", {"copy", "fill"}, kAll};
  for (const Case& k : {Case{{3, 5}, {3}, 0, 0, 1}, Case{{4, 3}, {2}, 1, 0, 1},
                        Case{{33, 31}, {28}, -5, 0, 1}, Case{{2, 0}, {0}, 0, 0, 1}})
    d.samples.push_back(one_input(
        str("torch.diag(a, ", k.offset, ")"), k.matrices,
        [k](const Tensor& x) { return diag(x, k.offset); },
        moved(k.diagonal, [k](const Place& i) { return k.place(i); })));
  for (const Case& k : {Case{{3, 3}, {3}, 0, 0, 1}, Case{{5, 5}, {4}, 1, 0, 1},
                        Case{{4, 4}, {1}, -3, 0, 1}, Case{{0, 0}, {0}, 0, 0, 1}}) {
    d.samples.push_back(one_input(
        str("torch.diag(a, ", k.offset, ")"), k.diagonal,
        [k](const Tensor& x) { return diag(x, k.offset); }, spread(k)));
    d.samples.back().constant = true;
  }
  d.errors = {undefined_input("diag", [](const Tensor& x) { return diag(x); }),
              fails<ShapeError>("rank", "[diag] expected 1 or 2 dimensions, got 3", {2, 2, 2},
                                [](const Tensor& x) { return diag(x); }),
              fails<ShapeError>("0-d", "[diag] expected 1 or 2 dimensions, got 0", {},
                                [](const Tensor& x) { return diag(x); })};
  rows.push_back(std::move(d));
}

void add_trace(std::vector<OpCase>& rows) {
  OpCase c{"trace", {"sum"}, kAll, ResultType::sum};
  for (const Shape& shape : {Shape{3, 4}, {4, 3}, {1, 1}, {0, 3}, {33, 31}})
    c.samples.push_back(one_input(
        "torch.trace(a)", shape, [](const Tensor& x) { return trace(x); },
        [](const std::vector<Array>& x) {
          Array y{{}, {0}, kTermsOfFormula, {0}};
          for (i64 i = 0; i < std::min(x[0].shape[0], x[0].shape[1]); ++i) {
            const double v = at(x[0], {i, i});
            y.v[0] += v, y.magnitude[0] += std::fabs(v), ++y.terms;
          }
          return y;
        }));
  c.errors = {undefined_input("trace", [](const Tensor& x) { return trace(x); }),
              fails<ShapeError>("rank", "[trace] expected 2 dimensions, got 3", {2, 2, 2},
                                [](const Tensor& x) { return trace(x); }),
              storage_dtype("trace", "i16 is for storage only", [](const Tensor& x, const Tensor&) {
                (void)trace(x.view({1, -1}));
              })};
  rows.push_back(std::move(c));
}

void add_diagonal_cases(std::vector<OpCase>& rows) {
  rows.push_back(triangle("tril", tril, true));
  rows.push_back(triangle("triu", triu, false));
  add_diagonal(rows);
  add_matrices(rows);
  add_trace(rows);
}

const CaseFile file{add_diagonal_cases};

}  // namespace
}  // namespace wt_test
