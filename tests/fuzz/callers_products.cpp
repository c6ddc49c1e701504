// Products and factorisations.
#include "warptape/tests/fuzz/operators.h"

namespace wt_test {
void add_product_callers(Callers& to) {
  to["matmul"] = [](Draw& d) {
    const i64 k = d.size();
    Shape a = d.shape(0, 3), b = d.narrower(a);
    if (a.ndim() > 3) a = {};
    const i64 m = d.size(), n = d.size();
    if (d.chance(0.9)) a.push_back(m);
    a.push_back(k);
    b.push_back(k);
    if (d.chance(0.9)) b.push_back(n);
    const Tensor x = d.tensor(d.bent(a)), y = d.tensor(d.bent(b));
    return matmul(x, y);
  };
  to["bmm"] = [](Draw& d) {
    const i64 n = d.size(), k = d.size();
    const Tensor a = d.tensor(d.bent({n, d.size(), k})), b = d.tensor(d.bent({n, k, d.size()}));
    return bmm(a, b);
  };
  to["linear"] = [](Draw& d) {
    d.floats();
    const i64 in = d.size(), out = d.size();
    Shape s = d.shape(0, 3);
    s.push_back(in);
    const Tensor x = d.tensor(d.bent(s)), w = d.tensor(d.bent({out, in}));
    if (d.flag()) return linear(x, w);
    const Tensor b = d.tensor(d.bent({out}));
    return linear(x, w, b);
  };
  to["fused_linear"] = [](Draw& d) {
    d.floats();
    const i64 in = d.size(), out = d.size();
    Shape s = d.shape(0, 3), y = s;
    s.push_back(in), y.push_back(out);
    const Tensor x = d.tensor(d.bent(s)), w = d.tensor(d.bent({out, in}));
    FusedLinearOptions o{.activation = kAllActivations[d.pick(7)]};
    if (d.flag()) o.bias = d.tensor(d.bent({out}));
    if (d.flag()) o.residual = d.tensor(d.bent(y));
    return fused_linear(x, w, o);
  };
  to["feed_forward"] = [](Draw& d) {
    d.floats();
    const i64 in = d.size(), hidden = d.size(), out = d.size();
    Shape s = d.shape(0, 3), y = s;
    s.push_back(in), y.push_back(out);
    const Tensor x = d.tensor(d.bent(s));
    const Tensor w1 = d.tensor(d.bent({hidden, in})), w2 = d.tensor(d.bent({out, hidden}));
    FeedForwardOptions o{.activation = kAllActivations[d.pick(7)]};
    if (d.flag()) o.bias1 = d.tensor(d.bent({hidden}));
    if (d.flag()) o.bias2 = d.tensor(d.bent({out}));
    if (d.flag()) o.residual = d.tensor(d.bent(y));
    return feed_forward(x, w1, w2, o);
  };
  to["addmm"] = [](Draw& d) {
    const i64 m = d.size(), k = d.size(), n = d.size();
    const Tensor a = d.tensor(d.bent({m, k})), b = d.tensor(d.bent({k, n}));
    const Tensor x = d.tensor(d.narrower({m, n}));
    return addmm(x, a, b, {.beta = d.scalar(), .alpha = d.scalar()});
  };
  to["outer"] = [](Draw& d) {
    const Tensor a = d.tensor(d.bent({d.size()})), b = d.tensor(d.bent({d.size()}));
    return outer(a, b);
  };
  to["dot"] = [](Draw& d) {
    const i64 n = d.size();
    const Tensor a = d.tensor(d.bent({n})), b = d.tensor(d.bent({n}));
    return dot(a, b);
  };
  to["tensordot"] = [](Draw& d) {
    const Shape a = d.shape(1, 3);
    if (d.flag()) {
      Shape b;  // a's last axes, and some of its own
      const i64 n = d.pick(a.ndim() + 1);
      for (int i = a.ndim() - int(n); i < a.ndim(); ++i) b.push_back(a[i]);
      for (i64 i = d.pick(3); i > 0; --i) b.push_back(d.size());
      const Tensor x = d.tensor(a), y = d.tensor(d.bent(b));
      return tensordot(x, y, d.number(n, n));
    }
    const Tensor x = d.tensor(a), y = d.tensor(d.bent(a));
    const Dims dims = d.axes(a.ndim());
    return tensordot(x, y, dims, dims);
  };
  to["kron"] = [](Draw& d) {
    const Tensor a = d.tensor(d.shape(0, 3)), b = d.tensor(d.shape(0, 3));
    return kron(a, b);
  };
  to["cdist"] = [](Draw& d) {
    d.floats();
    const Shape lead = d.shape(0, 2);
    const i64 n = d.size();
    Shape a = lead, b = d.narrower(lead);
    a.push_back(d.size()), a.push_back(n), b.push_back(d.size()), b.push_back(n);
    const Tensor x = d.tensor(d.bent(a)), y = d.tensor(d.bent(b));
    return cdist(x, y, d.flag() ? double(d.number(0, 3)) : d.real(0.5, 3));
  };
  to["einsum"] = [](Draw& d) {
    const i64 i = d.size(), j = d.size(), k = d.size();
    const Tensor a = d.tensor(d.bent({i, j})), b = d.tensor(d.bent({j, k}));
    constexpr const char* kTwo[] = {"ij,jk->ik",      "ij,jk",    "ij,jk->",  "ij,jk->ijk",
                                    "ij,jk->kji",     "ab,bc->b", "ij,jk->q", "ij,j->i",
                                    "i...,...k->...", ",->"};
    constexpr const char* kOne[] = {"ij->ji", "ij->", "ii->i", "ij->j", "...j->j...", "ij->ii"};
    if (d.flag()) return einsum(kTwo[d.pick(10)], {a, b});
    return einsum(kOne[d.pick(6)], {a});
  };
  to["cholesky"] = [](Draw& d) {
    d.floats();
    const i64 n = 1 + d.pick(4);
    // NaN, but nothing infinite: infinity times 0 is 0 to a part of OpenBLAS.
    const Tensor a = clamp(d.tensor(d.bent({2, n, n}), 1, 3), 1, 3);
    // Far from definite: whether a nearly singular one is, a rounding decides.
    if (d.chance(0.2)) return cholesky(a - mul(eye(n), 100.0).to(a.dtype()));
    const Tensor square = matmul(a, a.transpose(-2, -1));
    const i64 rows = square.size(-1);  // n, or what the shape was bent to
    return cholesky(square + mul(eye(rows), double(rows)).to(a.dtype()));
  };
  to["solve_triangular"] = [](Draw& d) {
    d.floats();
    const i64 n = 1 + d.pick(4);
    const Tensor a = d.tensor(d.bent({n, n}), 1, 3), b = d.tensor(d.bent({n, d.size()}));
    return solve_triangular(a, b,
                            {.upper = d.flag(), .transposed = d.flag(), .unitriangular = d.flag()});
  };
  // Far from singular, and nothing infinite.
  const auto regular = [](Draw& d, i64 n) {
    const Tensor a = clamp(d.tensor(d.bent({n, n}), -1, 1), -1, 1);
    return where(eq(a, a), a, zeros_like(a)) +
           diag_embed(full({n}, 9, {.dtype = a.dtype(), .device = a.device()}));
  };
  to["solve"] = [=](Draw& d) {
    d.floats();
    const i64 n = 1 + d.pick(4);
    const Tensor a = regular(d, n);
    return solve(a, d.tensor(d.bent({n, d.size()})));
  };
  to["inverse"] = [=](Draw& d) {
    d.floats();
    return inverse(regular(d, d.size()));
  };
  to["det"] = [=](Draw& d) {
    d.floats();
    return det(regular(d, d.size()));
  };
  to["slogdet"] = [=](Draw& d) {
    d.floats();
    const auto [sign, logabsdet] = slogdet(regular(d, d.size()));
    return std::vector<Tensor>{sign, logabsdet};
  };
  // Singular values that keep apart, and nothing infinite: elsewhere gradients are not unique. Over
  // another shape the diagonal broadcasts, and keeps nothing apart.
  const auto apart = [](Draw& d, i64 n) {
    const Tensor a = clamp(d.tensor(d.bent({n, n}), -1, 1), -1, 1);
    const Tensor values = arange(2, 2 * n + 2, 2).to(a.dtype()).to(a.device());
    const Tensor m = mul(where(eq(a, a), a, zeros_like(a)), 0.1) + diag_embed(values);
    return a.shape() == Shape{n, n} ? m : detach(m);
  };
  to["svd"] = [=](Draw& d) {  // the signs of the vectors are free
    d.floats();
    Tensor a = clamp(d.tensor(d.bent({d.size(), d.size()})), -3, 3);
    a = d.flag() ? apart(d, d.size()) : detach(where(eq(a, a), a, zeros_like(a)));
    const auto [u, s, vh] = svd(a, {.full_matrices = d.flag()});
    const i64 k = s.size(-1);
    return matmul(mul(slice(u, -1, {0, k}), (s * s).unsqueeze(-2)), slice(vh, -2, {0, k}));
  };
  to["svdvals"] = [=](Draw& d) {
    d.floats();
    return svdvals(apart(d, d.size()));
  };
  to["pinv"] = [=](Draw& d) {
    d.floats();
    return pinv(regular(d, d.size()), {.rtol = d.real(0, 0.1)});
  };
  to["matrix_rank"] = [=](Draw& d) {
    d.floats();
    return matrix_rank(regular(d, d.size()), {.atol = d.real(0, 0.1)});
  };
  to["qr"] = [](Draw& d) {
    d.floats();
    const auto [q, r] = qr(d.tensor(d.bent({d.size(), d.size()})));
    return matmul(q, r);  // the signs of both are free
  };
  to["eigh"] = [](Draw& d) {
    d.floats();
    const i64 n = d.size();
    // Nothing infinite, and no NaN: whether the iteration converges then, the way to it decides. Of
    // vectors the signs are free.
    const Tensor a = clamp(d.tensor(d.bent({n, n})), -3, 3);
    return eigh(where(eq(a, a), a, zeros_like(a))).values;
  };
}

}  // namespace wt_test
