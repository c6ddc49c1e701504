// Rows of products by name, distances and einsum.
#include <algorithm>
#include <functional>
#include <limits>
#include <map>

#include "warptape/autograd/ops/einsum.h"
#include "warptape/autograd/ops/linalg.h"
#include "warptape/tests/op_cases/products.h"

namespace wt_test {
namespace {

// --- bmm, addmm, outer, dot ---
void add_bmm(std::vector<OpCase>& rows) {
  OpCase c{"bmm", {}, kProducts};
  for (const auto& [a, b] : {std::pair<Shape, Shape>{{2, 3, 4}, {2, 4, 2}},
                             {{3, 2, 3}, {3, 3, 3}},
                             {{1, 1, 1}, {1, 1, 1}},
                             {{0, 2, 3}, {0, 3, 2}},
                             {{2, 0, 3}, {2, 3, 2}},
                             {{2, 3, 0}, {2, 0, 2}},
                             {{3, 5, 31}, {3, 31, 7}},
                             {{2, 33, 17}, {2, 17, 5}}}) {
    Sample s{
        "",
        {{a}, {b}},
        [](std::span<const Tensor> x) { return bmm(x[0], x[1]); },
        [](const std::vector<Array>& x) {
          const Shape &p = x[0].shape, &q = x[1].shape;
          return added_up({{p[0], p[1], q[2]}, {p[2]}, [&](auto i, auto k) {
                             return at(x[0], {i[0], i[1], k[0]}) * at(x[1], {i[0], k[0], i[2]});
                           }});
        }};
    s.constant = a[2] == 0;
    s.torch = "torch.bmm(a, b)";
    c.samples.push_back(std::move(s));
  }
  const Apply apply = [](const Tensor& a, const Tensor& b) { (void)bmm(a, b); };
  const auto call = [](const std::vector<Tensor>& x) { (void)bmm(x[0], x[1]); };
  c.errors = {
      undefined_operand("bmm", apply), two_devices("bmm", apply),
      bad_shapes("[bmm] b must have 3 dimensions, got shape [2, 2]", {{1, 2, 2}, {2, 2}}, call),
      bad_shapes("[bmm] the batches of a and b differ: 1 and 2", {{1, 2, 2}, {2, 2, 2}}, call),
      bad_shapes("the columns of a and the rows of b differ: 2 and 3", {{1, 2, 2}, {1, 3, 2}},
                 call)};
  rows.push_back(std::move(c));
}

void add_addmm(std::vector<OpCase>& rows) {
  OpCase c{"addmm", {}, kProducts};
  using Case = std::tuple<Shape, Shape, Shape, int, int>;
  for (const auto& [x, a, b, beta, alpha] : {Case{{3, 2}, {3, 4}, {4, 2}, 1, 1},
                                             {{2}, {3, 4}, {4, 2}, 2, -3},
                                             {{3, 1}, {3, 4}, {4, 2}, 1, 2},
                                             {{}, {2, 3}, {3, 5}, -1, 1},
                                             {{3, 2}, {3, 4}, {4, 2}, 0, 2},
                                             {{2, 2}, {2, 0}, {0, 2}, 3, 1},
                                             {{0, 2}, {0, 3}, {3, 2}, 1, 1},
                                             {{33, 7}, {33, 31}, {31, 7}, 1, 1}}) {
    const AddmmOptions o{.beta = beta, .alpha = alpha};
    Sample s{str("beta ", beta, " alpha ", alpha),
             {{x}, {a}, {b}},
             [o](std::span<const Tensor> t) { return addmm(t[0], t[1], t[2], o); },
             [o](const std::vector<Array>& t) {
               Array y =
                   added_up({{t[1].shape[0], t[2].shape[1]}, {t[1].shape[1]}, [&](auto i, auto k) {
                               return at(t[1], {i[0], k[0]}) * at(t[2], {k[0], i[1]});
                             }});
               for (i64 i = 0; i < count(y.shape); ++i) {
                 const double plus = o.beta.to_double() * at(t[0], unravel(i, y.shape));
                 y.v[size_t(i)] = o.alpha.to_double() * y.v[size_t(i)] + plus;
                 y.magnitude[size_t(i)] =
                     std::fabs(o.alpha.to_double()) * y.magnitude[size_t(i)] + std::fabs(plus);
               }
               return y;
             }};
    s.torch = str("torch.addmm(a, b, c, beta=", beta, ", alpha=", alpha, ")");
    c.samples.push_back(std::move(s));
  }
  const auto call = [](const std::vector<Tensor>& x) { (void)addmm(x[0], x[1], x[2]); };
  const Apply apply = [](const Tensor& a, const Tensor& b) { (void)addmm(a, b, b); };
  c.errors = {undefined_operand("addmm", apply),
              bad_shapes("[addmm] x [3] does not broadcast to [2, 2]", {{3}, {2, 2}, {2, 2}}, call),
              bad_shapes("[addmm] a must have 2 dimensions", {{2}, {1, 2, 2}, {2, 2}}, call),
              bad_shapes("the columns of a and the rows of b differ: 2 and 3",
                         {{2}, {2, 2}, {3, 2}}, call)};
  rows.push_back(std::move(c));
}

void add_vectors(std::vector<OpCase>& rows) {
  OpCase o{"outer", {}, kProducts}, d{"dot", {}, kProducts};
  for (const auto& [m, n] :
       {std::pair<i64, i64>{3, 5}, {7, 4}, {1, 3}, {1, 1}, {0, 3}, {33, 31}, {257, 2}, {5, 0}}) {
    Sample s{"",
             {{Shape{m}}, {Shape{n}}},
             [](std::span<const Tensor> x) { return outer(x[0], x[1]); },
             [](const std::vector<Array>& x) {
               return filled({x[0].shape[0], x[1].shape[0]},
                             [&](auto i) { return x[0].v[size_t(i[0])] * x[1].v[size_t(i[1])]; });
             }};
    s.torch = "torch.outer(a, b)";
    o.samples.push_back(std::move(s));
  }
  for (const i64 n : {5, 3, 1, 0, 7, 31, 33, 257}) {
    Sample s{"",
             {{Shape{n}}, {Shape{n}}},
             [](std::span<const Tensor> x) { return dot(x[0], x[1]); },
             [](const std::vector<Array>& x) {
               return added_up({{}, x[0].shape, [&](auto, auto k) {
                                  return x[0].v[size_t(k[0])] * x[1].v[size_t(k[0])];
                                }});
             }};
    s.torch = "torch.dot(a, b)";
    d.samples.push_back(std::move(s));
  }
  for (OpCase* c : {&o, &d}) {
    const bool inner = c == &d;
    const Apply apply = [inner](const Tensor& a, const Tensor& b) {
      (void)(inner ? dot(a, b) : outer(a, b));
    };
    const auto call = [apply](const std::vector<Tensor>& x) { apply(x[0], x[1]); };
    c->errors = {
        undefined_operand(c->name, apply), two_devices(c->name, apply),
        bad_shapes("[" + c->name + "] a must have 1 dimension, got shape [2, 1]", {{2, 1}, {2}},
                   call),
        bad_shapes("[" + c->name + "] b must have 1 dimension, got shape []", {{2}, {}}, call)};
  }
  d.errors.push_back(bad_shapes("[dot] the sizes of a and b differ: 2 and 3", {{2}, {3}},
                                [](const std::vector<Tensor>& x) { (void)dot(x[0], x[1]); }));
  rows.push_back(std::move(o));
  rows.push_back(std::move(d));
}

// --- cdist ---
Array distances(const Array& a, const Array& b, double p) {
  const int n = a.shape.ndim(), m = b.shape.ndim();
  const Shape batch = broadcast(Shape(a.shape.data(), n - 2), Shape(b.shape.data(), m - 2));
  Shape result = batch;
  result.push_back(a.shape[n - 2]), result.push_back(b.shape[m - 2]);
  Array y{result, {}};
  const i64 d = a.shape[n - 1];
  y.terms = kTermsOfFormula * 2 + double(d);
  for (i64 i = 0; i < count(result); ++i) {
    std::vector<i64> left = unravel(i, result), right = left;
    left.back() = 0;
    left[left.size() - 2] = unravel(i, result)[left.size() - 2];
    right[right.size() - 2] = right.back();
    double total = 0, largest = 0, size = 0;
    for (i64 k = 0; k < d; ++k) {
      left.back() = right.back() = k;
      const double u = at(a, left), v = at(b, right), e = std::fabs(u - v);
      total += p == 0 ? double(e != 0) : std::pow(e, p);
      largest = std::max(largest, e);
      size = std::max(size, std::fabs(u) + std::fabs(v));
    }
    y.v.push_back(std::isinf(p) ? largest : p == 0 ? total : std::pow(total, 1 / p));
    y.magnitude.push_back(y.v.back() + size * double(d));
  }
  return y;
}

void add_cdist(std::vector<OpCase>& rows) {
  OpCase c{"cdist", {"cdist_forward", "cdist_backward"}, kFloats};
  c.composed_elsewhere = true;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  struct Case {
    Shape a, b;
    double p;
    double scale = 1;  // of b, so that powers of large differences count
  };
  for (const auto& [a, b, p, scale] : {Case{{3, 4}, {5, 4}, 2},
                                       {{2, 3, 2}, {2, 2, 2}, 2},
                                       {{3, 2}, {2, 2, 2}, 2},
                                       {{3, 4}, {2, 4}, 1},
                                       {{3, 4}, {2, 4}, kInfinity},
                                       {{3, 4}, {2, 4}, 3},
                                       {{2, 3}, {2, 3}, 1.5},
                                       {{2, 3}, {2, 3}, 0.5},
                                       {{1, 1}, {1, 1}, 2},
                                       {{0, 3}, {2, 3}, 2},
                                       {{2, 0}, {3, 0}, 2},
                                       {{2, 0}, {3, 0}, kInfinity},
                                       {{17, 31}, {33, 31}, 2},
                                       {{19, 5}, {3, 5}, 1},  // the panels are made of a
                                       {{2, 17, 9}, {20, 9}, kInfinity},
                                       {{13, 37}, {21, 37}, 2.5, 3},
                                       {{3, 1, 7, 3}, {2, 5, 3}, 2},
                                       {{50, 18}, {260, 18}, 1},  // several blocks of pairs
                                       {{260, 3}, {50, 3}, 2},
                                       {{3, 7}, {5, 7}, 0}}) {
    Sample s{str("p ", p),
             {{a}, {b, -2 * scale, 2 * scale}},
             [p = p](std::span<const Tensor> x) { return cdist(x[0], x[1], p); },
             [p = p](const std::vector<Array>& x) { return distances(x[0], x[1], p); }};
    s.second_is_zero = p == 1 || std::isinf(p);
    s.gradients = p != 0;
    s.constant = p == 0 || a[a.ndim() - 1] == 0;
    s.torch = str("torch.cdist(a, b, p=", std::isinf(p) ? "float('inf')" : str(p), ")");
    c.samples.push_back(std::move(s));
  }
  const Apply apply = [](const Tensor& a, const Tensor& b) { (void)cdist(a, b); };
  const auto call = [](const std::vector<Tensor>& x) { (void)cdist(x[0], x[1]); };
  c.errors = {undefined_operand("cdist", apply), two_devices("cdist", apply),
              bad_shapes("[cdist] the columns of a and b differ: 2 and 3", {{2, 2}, {2, 3}}, call),
              bad_shapes("[cdist] a and b need at least two dimensions", {{2}, {2, 2}}, call),
              error_input<UsageError>("p", "[cdist] p must not be negative, got -1", [](Device d) {
                const Tensor x = ones({2, 2}, {.device = d});
                (void)cdist(x, x, -1);
              })};
  rows.push_back(std::move(c));
}

// --- einsum ---
// By the definition: labels are counted through all their values. `text` is written out: one letter
// an axis, "->" and no dots.
Array summed(const std::string& text, const std::vector<Array>& in) {
  const size_t arrow = text.find("->");
  std::vector<std::string> parts(1);
  for (const char c : text.substr(0, arrow))
    c == ',' ? parts.push_back({}) : parts.back().push_back(c);
  const std::string result = text.substr(arrow + 2);
  std::map<char, i64> sizes;
  for (size_t k = 0; k < parts.size(); ++k)
    for (size_t d = 0; d < parts[k].size(); ++d) {
      i64& n = sizes[parts[k][d]];
      n = std::max(n, in[k].shape[int(d)]);
      if (in[k].shape[int(d)] == 0) n = 0;
    }
  std::string inner;
  Shape outside, inside;
  for (const char c : result) outside.push_back(sizes[c]);
  for (const auto& [c, n] : sizes)
    if (result.find(c) == std::string::npos) inner += c, inside.push_back(n);
  return added_up({outside, inside, [&](auto i, auto j) {
                     double v = 1;
                     for (size_t k = 0; k < parts.size(); ++k) {
                       std::vector<i64> place;
                       for (const char c : parts[k]) {
                         const size_t o = result.find(c);
                         place.push_back(o != std::string::npos ? i[o] : j[inner.find(c)]);
                       }
                       v *= at(in[k], place);
                     }
                     return v;
                   }});
}

void add_einsum(std::vector<OpCase>& rows) {
  OpCase c{"einsum", {}, kProducts};
  struct Case {
    std::string text, meaning;  // meaning: written out for the oracle
    std::vector<Shape> shapes;
  };
  const Case cases[] = {
      {"ij,jk->ik", "", {{3, 4}, {4, 2}}},
      {"bij,bjk->bik", "", {{2, 3, 4}, {2, 4, 2}}},
      {"ij,kj", "ij,kj->ik", {{3, 4}, {2, 4}}},
      {"ij->ji", "", {{3, 5}}},
      {"ij", "ij->ij", {{3, 5}}},
      {"ba", "ba->ab", {{3, 5}}},
      {"ii->i", "", {{4, 4}}},
      {"ii", "ii->", {{4, 4}}},
      {"iji->j", "", {{3, 2, 3}}},
      {"ij->", "", {{3, 5}}},
      {"i,j->ij", "", {{3}, {4}}},
      {"ij,ij->ij", "", {{3, 4}, {3, 4}}},
      {"i,i->", "", {{7}, {7}}},
      {"...ij,...jk->...ik", "bij,bjk->bik", {{2, 2, 3}, {2, 3, 2}}},
      {"...ij,jk->...ik", "bcij,jk->bcik", {{2, 1, 2, 3}, {3, 2}}},
      {"...i,...i", "bi,bi->b", {{2, 5}, {2, 5}}},
      {"a...b->b...", "acdb->bcd", {{2, 3, 2, 2}}},
      {"ij,jk,kl->il", "", {{2, 3}, {3, 2}, {2, 4}}},
      {"bi,bj,bij->b", "", {{2, 3}, {2, 3}, {2, 3, 3}}},
      {"i,j,k->kji", "", {{2}, {3}, {2}}},
      {" b h q d , b h k d -> b h q k ", "bhqd,bhkd->bhqk", {{2, 3, 5, 7}, {2, 3, 31, 7}}},
      {"ijk,kji->i", "", {{2, 3, 4}, {4, 3, 2}}},
      {"ij,jk->ik", "", {{3, 1}, {4, 2}}},
      {"ik,jk->ij", "", {{33, 31}, {17, 31}}},
      {"ij,jk->ik", "", {{3, 0}, {0, 2}}},
      {"ij,jk->ik", "", {{0, 3}, {3, 2}}},
      {",i->i", "", {{}, {5}}},
      {"ii,ij->j", "", {{3, 3}, {3, 4}}},
      {"aB,Bc->ca", "", {{2, 3}, {3, 4}}},
      {"ij,k->ik", "ij,k->ik", {{3, 4}, {2}}},
      {"ij,k->k", "", {{3, 4}, {5}}},
  };
  for (const Case& e : cases) {
    Sample s{e.text,
             {},
             [text = e.text](std::span<const Tensor> x) { return einsum(text, x); },
             [meaning = e.meaning.empty() ? e.text : e.meaning](const std::vector<Array>& x) {
               return summed(meaning, x);
             }};
    const char* torch = "abc";
    s.torch = "torch.einsum('" + e.text + "'";
    for (size_t k = 0; k < e.shapes.size(); ++k) {
      s.inputs.push_back({e.shapes[k]});
      s.torch += str(", ", torch[k]);
    }
    s.torch += ")";
    s.second_is_zero = e.shapes.size() == 1;
    for (const Shape& shape : e.shapes) s.constant |= count(shape) == 0;
    c.samples.push_back(std::move(s));
  }
  const auto call = [](std::string text) {
    return [text](const std::vector<Tensor>& x) { (void)einsum(text, x); };
  };
  const auto bad_text = [](const std::string& text, const std::string& says) {
    return error_input<UsageError>(text, "[einsum] " + says, [text](Device d) {
      const Tensor x = ones({2, 2}, {.device = d});
      (void)einsum(text, {x, x});
    });
  };
  c.errors = {
      undefined_operand("einsum", [](const Tensor& a, const Tensor&) { (void)einsum("ij", {a}); }),
      bad_shapes("label 'j' has size 4 in operand 1 and 3 before", {{2, 3}, {4, 2}}, call("ij,jk")),
      bad_shapes("operand 1 has 2 axes, but \"ijk\" names 3", {{2, 2}, {2, 2}}, call("ij,ijk")),
      bad_shapes("operand 0 has 3 axes, but \"ij\" names 2", {{2, 2, 2}}, call("ij")),
      bad_shapes("operand 0 has 1 axes, but \"i...j\" names 2", {{2}}, call("i...j")),
      bad_shapes("label 'i' has the sizes 2 and 3 in operand 0", {{2, 3}}, call("ii")),
      bad_shapes("label '...' (axis -1) has size 3 in operand 1 and 2 before", {{2, 2}, {3, 2}},
                 call("...i,...i")),
      bad_text("ij,jk->il", "label 'l' of the result is in no operand"),
      bad_text("ij,jk->ii", "label 'i' is twice in the result"),
      bad_text("ij", "\"ij\" has 1 operands, 2 are given"),
      bad_text("ij,j?->i", "'?' at place 4 of \"ij,j?->i\" is no label"),
      bad_text("ij,jk->i->k", "'-' at place 8"),
      bad_text("ij,jk-i", "'-' at place 5"),
      bad_text("ij,..k", "'.' at place 3"),
      bad_text("...i...,jk", "'.' at place 4 of \"...i...,jk\" is a second"),
      bad_text("ij,jk->i,k", "',' at place 8"),
      error_input<DtypeError>("bool", "[einsum] has no products of bool", [](Device d) {
        (void)einsum("i->", {ones({2}, {.dtype = DType::boolean, .device = d})});
      })};
  rows.push_back(std::move(c));
}

void add_linalg_cases(std::vector<OpCase>& rows) {
  add_bmm(rows);
  add_addmm(rows);
  add_vectors(rows);
  add_cdist(rows);
  add_einsum(rows);
}

const CaseFile file{add_linalg_cases};

}  // namespace
}  // namespace wt_test
