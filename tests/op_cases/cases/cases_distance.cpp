// Rows of the distances and of the losses that compare them. What comes out of a loss is its mean.
#include "warptape/autograd/ops/distance.h"
#include "warptape/tests/op_cases/cases/loss_case.h"

namespace wt_test {
namespace {

using Part = LossPart;
// The elements of x, broadcast to `shape`, along `axis` through index i.
std::vector<double> line(const Array& x, const Shape& shape, std::vector<i64> i, int axis) {
  std::vector<double> v;
  for (i[size_t(axis)] = 0; i[size_t(axis)] < shape[axis]; ++i[size_t(axis)]) v.push_back(at(x, i));
  return v;
}

// --- cosine ---

// `least`: of the lengths; `added`: to their squares.
Part cosine(const std::vector<double>& a, const std::vector<double>& b, double least,
            double added) {
  double dot = 0, size = 0, aa = added, bb = added;
  for (size_t i = 0; i < a.size(); ++i) {
    dot += a[i] * b[i], size += std::fabs(a[i] * b[i]);
    aa += a[i] * a[i], bb += b[i] * b[i];
  }
  const double lengths = std::fmax(std::sqrt(aa), least) * std::fmax(std::sqrt(bb), least);
  return {dot / lengths, size / lengths};
}

void add_cosine_similarity(std::vector<OpCase>& rows) {
  OpCase c{"cosine_similarity", {}, kFloats};
  c.cancels = true;
  struct Case {
    Shape a, b;
    i64 dim;
    double eps;
    const char* torch;
  };
  const Case cases[] = {
      {{3, 5}, {3, 5}, 1, 1e-8, "F.cosine_similarity(a, b)"},
      {{3, 5, 2}, {3, 5, 2}, 0, 1e-8, "F.cosine_similarity(a, b, dim=0)"},
      {{2, 3, 4}, {3, 1}, -1, 1e-8, "F.cosine_similarity(a, b, dim=-1)"},
      // PyTorch's own gradient passes through a norm below eps, which is not
      // the derivative of its formula: the formula itself.
      {{3, 4},
       {3, 4},
       1,
       3,
       "(a * b).sum(1) / (a.norm(dim=1).clamp(min=3) * b.norm(dim=1).clamp(min=3))"},
      {{7}, {7}, 0, 1e-8, ""},
      {{5, 1}, {5, 1}, 0, 1e-8, ""},
      {{3, 257}, {257}, 1, 1e-8, ""},
      {{0, 3}, {0, 3}, 1, 1e-8, ""},
      {{33, 7}, {33, 7}, 1, 1e-8, ""}};
  for (const Case& k : cases) {
    c.samples.push_back({str("dim ", k.dim, ", eps ", k.eps),
                         {{k.a}, {k.b}},
                         [=](std::span<const Tensor> in) {
                           return cosine_similarity(in[0], in[1], {.dim = k.dim, .eps = k.eps});
                         },
                         [=](const std::vector<Array>& in) {
                           const Shape s = broadcast(in[0].shape, in[1].shape);
                           const int axis = int(k.dim < 0 ? k.dim + s.ndim() : k.dim);
                           Array r{s, {}, kTermsOfFormula + 2 * double(s[axis])};
                           r.shape.erase(axis);
                           for (i64 e = 0; e < count(r.shape); ++e) {
                             std::vector<i64> i = unravel(e, r.shape);
                             i.insert(i.begin() + axis, 0);
                             const Part p =
                                 cosine(line(in[0], s, i, axis), line(in[1], s, i, axis), k.eps, 0);
                             r.v.push_back(p.value), r.magnitude.push_back(p.magnitude);
                           }
                           return r;
                         }});
    c.samples.back().torch = k.torch;
  }
  const Apply call = [](const Tensor& a, const Tensor& b) { (void)cosine_similarity(a, b); };
  c.errors = {
      undefined_operand("cosine_similarity", call), two_devices("cosine_similarity", call),
      error_input<ShapeError>("axis", "[cosine_similarity] axis 1",
                              [](Device d) {
                                const Tensor x = ones({3}, {.device = d});
                                (void)cosine_similarity(x, x);
                              }),
      error_input<ShapeError>(
          "shapes", "[cosine_similarity]",
          [](Device d) {
            (void)cosine_similarity(ones({2, 3}, {.device = d}), ones({2, 4}, {.device = d}));
          }),
      error_input<UsageError>("eps", "[cosine_similarity] eps must be at least 0, got -1",
                              [](Device d) {
                                const Tensor x = ones({2, 3}, {.device = d});
                                (void)cosine_similarity(x, x, {.eps = -1});
                              })};
  rows.push_back(std::move(c));
}

void add_cosine_embedding(std::vector<OpCase>& rows) {
  OpCase c{"cosine_embedding_loss", {}, kFloats, ResultType::loss};
  c.cancels = true;
  struct Case {
    Shape shape;
    double margin;
    std::vector<double> target;
    const char* torch;
    bool each = false;
  };
  const Case cases[] = {
      {{4, 3}, 0, {1, -1, -1, 1}, "F.cosine_embedding_loss(a, b, c)"},
      {{5, 4}, -0.5, {1, -1, 1, -1, -1}, "F.cosine_embedding_loss(a, b, c, margin=-0.5)"},
      {{7}, 0.25, {1}, "F.cosine_embedding_loss(a, b, c, margin=0.25)"},
      {{3, 1}, 0.1, {1, -1, -1}, ""},
      {{3, 257}, 0, {-1, 1, 1}, ""},
      {{3, 5}, -0.9, {-1, 0, 1}, ""},
      {{4, 3},
       -0.5,
       {1, -1, -1, 1},
       "F.cosine_embedding_loss(a, b, c, margin=-0.5, reduction='none')",
       true},
      {{7}, 0.25, {1}, "", true},
      {{31, 9}, -0.5, std::vector<double>(31, -1), "", true}};
  for (const Case& k : cases) {
    Shape pairs = k.shape;
    pairs.erase(k.shape.ndim() - 1);
    Input target = index_input(pairs, 2);
    target.values = k.target;
    c.samples.push_back(
        {str("margin ", k.margin),
         {{k.shape}, {k.shape}, target},
         [=](std::span<const Tensor> in) {
           const CosineEmbeddingOptions o{.margin = k.margin};
           if (k.each) return cosine_embedding_loss(in[0], in[1], in[2], unreduced, o);
           return cosine_embedding_loss(in[0], in[1], in[2], o).mean();
         },
         [=](const std::vector<Array>& in) {
           const Shape s = in[0].shape;
           const int axis = s.ndim() - 1;
           Array r{in[2].shape, {}, kTermsOfFormula + 2 * double(s[axis])};
           for (size_t e = 0; e < in[2].v.size(); ++e) {
             std::vector<i64> i = unravel(i64(e), in[2].shape);
             i.push_back(0);
             const Part p = cosine(line(in[0], s, i, axis), line(in[1], s, i, axis), 0, 1e-12);
             const double y = in[2].v[e];
             r.v.push_back(y == 1 ? 1 - p.value : y == -1 ? std::fmax(0, p.value - k.margin) : 0);
             r.magnitude.push_back(1 + p.magnitude + std::fabs(k.margin));
           }
           return k.each ? r : mean_of_losses(r);
         }});
    c.samples.back().torch = k.torch;
    if (k.shape == Shape{3, 1}) c.samples.back().gradients = false;  // 1 or -1 whatever the numbers
  }
  const auto call = [](const Shape& a, const Shape& b, const Shape& y, DType t) {
    return [=](Device d) {
      const Tensor x = ones(a, {.dtype = t, .device = d});
      (void)cosine_embedding_loss(x, ones(b, {.device = d}), ones(y, {.device = d}));
    };
  };
  const std::string tag = "[cosine_embedding_loss] ";
  c.errors = {undefined_operand(
                  "cosine_embedding_loss",
                  [](const Tensor& a, const Tensor& b) { (void)cosine_embedding_loss(a, b, b); }),
              error_input<ShapeError>("pairs", tag + "a and b must have one shape",
                                      call({2, 3}, {1, 3}, {2}, f32)),
              error_input<ShapeError>("target", tag + "target must have the shape of a without",
                                      call({2, 3}, {2, 3}, {3}, f32)),
              error_input<ShapeError>("rank", tag + "a must be [N, D] or [D], got [2, 3, 4]",
                                      call({2, 3, 4}, {2, 3, 4}, {2, 3}, f32)),
              error_input<DtypeError>("dtype", tag + "expected a floating dtype",
                                      call({2, 3}, {2, 3}, {2}, DType::i64))};
  rows.push_back(std::move(c));
}

// --- p-norms ---

// The p-norm of a - b + eps. An error of a difference counts with the norm's slope.
Part distance(const std::vector<double>& a, const std::vector<double>& b, double p, double eps) {
  std::vector<double> d, size;
  for (size_t i = 0; i < a.size(); ++i) {
    d.push_back(std::fabs(a[i] - b[i] + eps));
    size.push_back(std::fabs(a[i]) + std::fabs(b[i]) + eps);
  }
  double norm = 0;
  for (double v : d)
    norm = std::isinf(p) ? std::fmax(norm, v) : norm + (p == 0 ? v != 0 : std::pow(v, p));
  if (p != 0 && !std::isinf(p)) norm = std::pow(norm, 1 / p);
  double magnitude = norm;
  for (size_t i = 0; i < d.size(); ++i)
    magnitude += p == 0          ? 0
                 : std::isinf(p) ? (d[i] == norm) * size[i]
                                 : std::pow(d[i] / norm, p - 1) * size[i];
  return {norm, magnitude};
}

void add_pairwise_distance(std::vector<OpCase>& rows) {
  OpCase c{"pairwise_distance", {}, kFloats};
  struct Case {
    Shape a, b;
    PairwiseDistanceOptions o;
    const char* torch;
  };
  const Case cases[] = {
      {{3, 5}, {3, 5}, {}, "F.pairwise_distance(a, b)"},
      {{2, 3, 4},
       {3, 4},
       {.p = 3, .keep_dim = true},
       "F.pairwise_distance(a, b, p=3.0, keepdim=True)"},
      {{3, 5}, {3, 5}, {.p = 1}, "F.pairwise_distance(a, b, p=1.0)"},
      {{3, 5}, {3, 5}, {.p = HUGE_VAL}, "F.pairwise_distance(a, b, p=float('inf'))"},
      {{3, 5}, {3, 5}, {.p = 0}, ""},
      {{3, 5}, {3, 5}, {.p = 0.5}, "F.pairwise_distance(a, b, p=0.5)"},
      {{7}, {7}, {.eps = 0.5}, "F.pairwise_distance(a, b, eps=0.5)"},
      {{5, 1}, {5, 1}, {}, ""},
      {{3, 257}, {257}, {}, ""},
      {{0, 3}, {0, 3}, {}, ""},
      {{31, 7}, {31, 7}, {.p = 1.5}, ""}};
  for (const Case& k : cases) {
    c.samples.push_back(
        {str("p ", k.o.p, ", eps ", k.o.eps),
         {{k.a}, {k.b}},
         [o = k.o](std::span<const Tensor> in) { return pairwise_distance(in[0], in[1], o); },
         [o = k.o](const std::vector<Array>& in) {
           const Shape s = broadcast(in[0].shape, in[1].shape);
           const int axis = s.ndim() - 1;
           Array r{s, {}, kTermsOfFormula + 2 * double(s[axis])};
           r.shape[axis] = 1;
           for (i64 e = 0; e < count(r.shape); ++e) {
             const std::vector<i64> i = unravel(e, r.shape);
             const Part p = distance(line(in[0], s, i, axis), line(in[1], s, i, axis), o.p, o.eps);
             r.v.push_back(p.value), r.magnitude.push_back(p.magnitude);
           }
           if (!o.keep_dim) r.shape.erase(axis);
           return r;
         }});
    Sample& s = c.samples.back();
    s.torch = k.torch;
    s.second_is_zero = k.o.p == 1 || std::isinf(k.o.p);
    if (k.o.p == 0) s.gradients = false, s.constant = true;
  }
  const Apply call = [](const Tensor& a, const Tensor& b) { (void)pairwise_distance(a, b); };
  c.errors = {undefined_operand("pairwise_distance", call), two_devices("pairwise_distance", call),
              error_input<ShapeError>("rank", "[pairwise_distance] needs at least one axis",
                                      [](Device d) {
                                        const Tensor x = ones({}, {.device = d});
                                        (void)pairwise_distance(x, x);
                                      }),
              error_input<UsageError>("p", "[pairwise_distance] p must be at least 0, got -1",
                                      [](Device d) {
                                        const Tensor x = ones({2}, {.device = d});
                                        (void)pairwise_distance(x, x, {.p = -1});
                                      })};
  rows.push_back(std::move(c));
}

void add_triplet_margin(std::vector<OpCase>& rows) {
  OpCase c{"triplet_margin_loss", {}, kFloats, ResultType::loss};
  c.cancels = true;
  struct Case {
    Shape shape;
    TripletMarginOptions o;
    const char* torch;
    bool each = false;
  };
  const Case cases[] = {
      {{4, 3}, {}, "F.triplet_margin_loss(a, b, c)"},
      {{3, 5},
       {.margin = 2.5, .p = 3, .swap = true},
       "F.triplet_margin_loss(a, b, c, margin=2.5, p=3.0, swap=True)"},
      {{2, 3, 2}, {.margin = 0.5, .p = 1}, "F.triplet_margin_loss(a, b, c, margin=0.5, p=1.0)"},
      {{7}, {.margin = 4}, ""},
      {{5, 1}, {.margin = 3}, ""},
      {{7, 31}, {.swap = true}, ""},
      {{4, 3}, {.margin = 3}, "F.triplet_margin_loss(a, b, c, margin=3.0, reduction='none')", true},
      {{2, 3, 2}, {.margin = 4, .swap = true}, "", true},
      {{7, 31}, {.margin = 4}, "", true}};
  for (const Case& k : cases) {
    c.samples.push_back({str("margin ", k.o.margin, ", p ", k.o.p, k.o.swap ? ", swap" : ""),
                         {{k.shape}, {k.shape}, {k.shape}},
                         [o = k.o, each = k.each](std::span<const Tensor> in) {
                           if (each) return triplet_margin_loss(in[0], in[1], in[2], unreduced, o);
                           return triplet_margin_loss(in[0], in[1], in[2], o).mean();
                         },
                         [o = k.o, each = k.each](const std::vector<Array>& in) {
                           const Shape s = in[0].shape;
                           const int axis = s.ndim() - 1;
                           const i64 n = count(s) / s[axis];
                           Array r{s, {}, kTermsOfFormula + 2 * double(s[axis])};
                           r.shape.erase(axis);
                           for (i64 e = 0; e < n; ++e) {
                             const std::vector<i64> i = unravel(e * s[axis], s);
                             const auto between = [&](int u, int v) {
                               return distance(line(in[size_t(u)], s, i, axis),
                                               line(in[size_t(v)], s, i, axis), o.p, o.eps);
                             };
                             const Part near = between(0, 1), other = between(1, 2);
                             Part far = between(0, 2);
                             if (o.swap && other.value < far.value) far = other;
                             r.v.push_back(std::fmax(0, near.value - far.value + o.margin));
                             r.magnitude.push_back(near.magnitude + far.magnitude + o.margin);
                           }
                           return each ? r : mean_of_losses(r);
                         }});
    c.samples.back().torch = k.torch;
    c.samples.back().second_is_zero = k.o.p == 1;
  }
  const auto call = [](const Shape& a, const Shape& b, const Shape& n, TripletMarginOptions o) {
    return [=](Device d) {
      (void)triplet_margin_loss(ones(a, {.device = d}), ones(b, {.device = d}),
                                ones(n, {.device = d}), o);
    };
  };
  const std::string tag = "[triplet_margin_loss] ";
  c.errors = {
      undefined_operand(
          "triplet_margin_loss",
          [](const Tensor& a, const Tensor& b) { (void)triplet_margin_loss(a, b, b); }),
      error_input<ShapeError>("negative", tag + "anchor and negative must have one shape",
                              call({2, 3}, {2, 3}, {1, 3}, {})),
      error_input<ShapeError>("rank", tag + "needs at least one axis", call({}, {}, {}, {})),
      error_input<UsageError>("margin", tag + "margin must be greater than 0, got 0",
                              call({2, 3}, {2, 3}, {2, 3}, {.margin = 0})),
      error_input<UsageError>("p", tag + "p must be at least 0, got -2",
                              call({2, 3}, {2, 3}, {2, 3}, {.p = -2}))};
  rows.push_back(std::move(c));
}

// x / max(|x|, eps). Its derivative is a difference of terms as large as the incoming gradient.
double norm_of(const std::vector<double>& v, double p) {
  double sum = 0, most = 0;
  for (const double x : v) {
    sum += p == 0 ? double(x != 0) : std::pow(std::fabs(x), p);
    most = std::fmax(most, std::fabs(x));
  }
  return std::isinf(p) ? most : p == 0 ? sum : std::pow(sum, 1 / p);
}

void add_normalize(std::vector<OpCase>& rows) {
  OpCase c{"normalize", {}, kFloats};
  c.cancels = true;
  struct Case {
    Shape x;
    NormalizeOptions o;
    const char* torch;
  };
  const Case cases[] = {{{3, 5}, {}, "F.normalize(a)"},
                        {{3, 4, 2}, {.p = 1, .dim = 0}, "F.normalize(a, p=1.0, dim=0)"},
                        {{2, 3, 4}, {.p = 3, .dim = -1}, "F.normalize(a, p=3.0, dim=-1)"},
                        {{4, 5}, {.p = HUGE_VAL}, "F.normalize(a, p=float('inf'))"},
                        {{4, 5}, {.p = 0.5}, "F.normalize(a, p=0.5)"},
                        {{4, 5}, {.p = 0}, ""},
                        {{3, 4}, {.eps = 50}, "F.normalize(a, eps=50.0)"},
                        {{7}, {.dim = 0}, "F.normalize(a, dim=0)"},
                        {{3, 257}, {}, ""},
                        {{33, 7}, {.dim = 0}, ""},
                        {{0, 3}, {}, ""},
                        {{3, 0}, {.p = HUGE_VAL}, ""}};
  for (const Case& k : cases) {
    c.samples.push_back({str("p ", k.o.p, ", dim ", k.o.dim, ", eps ", k.o.eps),
                         {{k.x}},
                         [o = k.o](std::span<const Tensor> in) { return normalize(in[0], o); },
                         [o = k.o](const std::vector<Array>& in) {
                           const Shape s = in[0].shape;
                           const int axis = int(o.dim < 0 ? o.dim + s.ndim() : o.dim);
                           Array r{s, {}, kTermsOfFormula + 2 * double(s[axis])};
                           for (i64 e = 0; e < count(s); ++e) {
                             const double n = norm_of(line(in[0], s, unravel(e, s), axis), o.p);
                             r.v.push_back(in[0].v[size_t(e)] / std::fmax(n, o.eps));
                           }
                           return r;
                         }});
    c.samples.back().torch = k.torch;
    c.samples.back().second_is_zero = k.o.eps > 1 || k.o.p == 0;
  }
  const auto of = [](NormalizeOptions o) {
    return [o](Device d) { (void)normalize(ones({3}, {.device = d}), o); };
  };
  c.errors = {
      undefined_operand("normalize", [](const Tensor& a, const Tensor&) { (void)normalize(a); }),
      error_input<ShapeError>("axis", "[normalize] axis 1", of({})),
      error_input<ShapeError>(
          "0-d", "[normalize] needs at least one axis",
          [](Device d) { (void)normalize(ones({}, {.device = d}), {.dim = 0}); }),
      error_input<UsageError>("p", "[normalize] p must be at least 0, got -1",
                              of({.p = -1, .dim = 0})),
      error_input<UsageError>("eps", "[normalize] eps must be at least 0, got -1",
                              of({.dim = 0, .eps = -1})),
      error_input<DtypeError>("integers", "[normalize] expected a floating dtype that computes",
                              [](Device d) {
                                (void)normalize(ones({2, 3}, {.dtype = DType::i64, .device = d}));
                              })};
  rows.push_back(std::move(c));
}

void add_distance_cases(std::vector<OpCase>& rows) {
  add_cosine_similarity(rows);
  add_cosine_embedding(rows);
  add_pairwise_distance(rows);
  add_triplet_margin(rows);
  add_normalize(rows);
}

const CaseFile file{add_distance_cases};

}  // namespace
}  // namespace wt_test
