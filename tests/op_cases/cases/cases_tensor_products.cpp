// Rows of products of tensors of any number of axes.
#include <algorithm>

#include "warptape/autograd/ops/linalg.h"
#include "warptape/tests/op_cases/products.h"

namespace wt_test {
namespace {

using Place = std::vector<i64>;

std::string list_of(const std::vector<int>& v) {
  std::string s;
  for (const int x : v) s += str(s.empty() ? "" : ", ", x);
  return "[" + s + "]";
}

void add_tensordot(std::vector<OpCase>& rows) {
  OpCase c{"tensordot", {}, kProducts};
  struct Case {
    Shape a, b;
    std::vector<int> a_dims, b_dims;
    i64 number = -1;  // called with their number
  };
  for (const Case& k :
       {Case{{3, 4}, {4, 2}, {1}, {0}}, Case{{2, 3, 4}, {4, 3, 2}, {1, 2}, {1, 0}},
        Case{{2, 3, 4}, {3, 4, 5}, {1, 2}, {0, 1}, 2}, Case{{3, 4}, {4, 2}, {1}, {0}, 1},
        Case{{2, 3}, {2}, {}, {}, 0}, Case{{2, 3}, {2, 3}, {0, 1}, {0, 1}, 2},
        Case{{3, 2, 2}, {2, 5}, {-1}, {-2}}, Case{{}, {3}, {}, {}}, Case{{3, 0}, {0, 2}, {1}, {0}},
        Case{{0, 3}, {3, 2}, {1}, {0}}, Case{{4, 2, 1, 3}, {3, 5, 4}, {3, 0}, {0, 2}},
        Case{{31, 3, 5}, {5, 7, 3}, {2, 1}, {0, 2}}}) {
    const auto normal = [](std::vector<int> dims, const Shape& s) {
      for (int& d : dims) d += d < 0 ? s.ndim() : 0;
      return dims;
    };
    const std::vector<int> p = normal(k.a_dims, k.a), q = normal(k.b_dims, k.b);
    // Which axes of the result are whose.
    std::vector<int> left, right;
    Shape out, inner;
    for (int d = 0; d < k.a.ndim(); ++d)
      if (!std::count(p.begin(), p.end(), d)) left.push_back(d), out.push_back(k.a[d]);
    for (int d = 0; d < k.b.ndim(); ++d)
      if (!std::count(q.begin(), q.end(), d)) right.push_back(d), out.push_back(k.b[d]);
    for (const int d : p) inner.push_back(k.a[d]);
    Sample s{"",
             {{k.a}, {k.b}},
             [k](std::span<const Tensor> x) {
               return k.number < 0 ? tensordot(x[0], x[1], k.a_dims, k.b_dims)
                                   : tensordot(x[0], x[1], k.number);
             },
             [=](const std::vector<Array>& x) {
               return added_up({out, inner, [&](const Place& i, const Place& j) {
                                  Place at_a(size_t(k.a.ndim())), at_b(size_t(k.b.ndim()));
                                  for (size_t d = 0; d < p.size(); ++d)
                                    at_a[size_t(p[d])] = at_b[size_t(q[d])] = j[d];
                                  for (size_t d = 0; d < left.size(); ++d)
                                    at_a[size_t(left[d])] = i[d];
                                  for (size_t d = 0; d < right.size(); ++d)
                                    at_b[size_t(right[d])] = i[left.size() + d];
                                  return at(x[0], at_a) * at(x[1], at_b);
                                }});
             }};
    s.constant = count(inner) == 0;
    s.torch = k.number < 0
                  ? "torch.tensordot(a, b, (" + list_of(k.a_dims) + ", " + list_of(k.b_dims) + "))"
                  : str("torch.tensordot(a, b, ", k.number, ")");
    s.label = s.torch;
    c.samples.push_back(std::move(s));
  }
  const Apply apply = [](const Tensor& a, const Tensor& b) { (void)tensordot(a, b, 1); };
  const auto call = [](const std::vector<Tensor>& x) { (void)tensordot(x[0], x[1], {1}, {0}); };
  c.errors = {
      undefined_operand("tensordot", apply),
      two_devices("tensordot", apply),
      bad_shapes("[tensordot] axis 1 of a and axis 0 of b differ: 3 and 4", {{2, 3}, {4, 2}}, call),
      bad_shapes("[tensordot] axis 1", {{2}, {2}}, call),
      bad_shapes("[tensordot] dims must be in [0, 1], the axes of both, got 2", {{2, 3}, {2}},
                 [](const std::vector<Tensor>& x) { (void)tensordot(x[0], x[1]); }),
      bad_shapes("[tensordot] the numbers of axes of a and b differ: 2 and 1", {{2, 3}, {2, 3}},
                 [](const std::vector<Tensor>& x) {
                   (void)tensordot(x[0], x[1], {0, 1}, {0});
                 }),
      bad_shapes("[tensordot] axis -1 is named twice", {{2, 3}, {2, 3}},
                 [](const std::vector<Tensor>& x) {
                   (void)tensordot(x[0], x[1], {1, -1}, {0, 1});
                 }),
      bad_shapes("[tensordot] the result would have 10 dimensions, at most 8",
                 {{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}},
                 [](const std::vector<Tensor>& x) { (void)tensordot(x[0], x[1], 0); })};
  rows.push_back(std::move(c));
}

void add_kron(std::vector<OpCase>& rows) {
  OpCase c{"kron", {"mul", "copy"}, kAll};
  for (const auto& [a, b] : {std::pair<Shape, Shape>{{2, 3}, {3, 2}},
                             {{3}, {4}},
                             {{2}, {3, 2}},
                             {{2, 1, 3}, {2, 2}},
                             {{}, {3, 2}},
                             {{}, {}},
                             {{2, 0}, {3, 2}},
                             {{2, 1, 1, 2}, {1, 2, 3, 1}},
                             {{3, 5}, {17, 3}}}) {
    const int n = std::max(a.ndim(), b.ndim());
    Shape big = a, small = b, out;
    while (big.ndim() < n) big.insert(0, 1);
    while (small.ndim() < n) small.insert(0, 1);
    for (int d = 0; d < n; ++d) out.push_back(big[d] * small[d]);
    Sample s{"",
             {{a}, {b}},
             [](std::span<const Tensor> x) { return kron(x[0], x[1]); },
             [=](const std::vector<Array>& x) {
               return filled(out, [&](const Place& i) {
                 Place outer = i, inner = i;
                 for (int d = 0; d < n; ++d) {
                   outer[size_t(d)] /= small[d];
                   inner[size_t(d)] %= small[d];
                 }
                 return at(x[0], outer) * at(x[1], inner);
               });
             }};
    s.torch = "torch.kron(a, b)";
    c.samples.push_back(std::move(s));
  }
  const Apply apply = [](const Tensor& a, const Tensor& b) { (void)kron(a, b); };
  c.errors = {undefined_operand("kron", apply), two_devices("kron", apply),
              bad_shapes("[kron] takes at most 4 dimensions, got 5", {{1, 1, 1, 1, 1}, {2}},
                         [](const std::vector<Tensor>& x) { (void)kron(x[0], x[1]); })};
  rows.push_back(std::move(c));
}

void add_tensor_product_cases(std::vector<OpCase>& rows) {
  add_tensordot(rows);
  add_kron(rows);
}

const CaseFile file{add_tensor_product_cases};

}  // namespace
}  // namespace wt_test
