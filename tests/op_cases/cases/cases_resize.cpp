// Rows of the operators that resize.
#include <algorithm>

#include "warptape/autograd/ops/resize.h"
#include "warptape/tests/op_cases/moves.h"

namespace wt_test {
namespace {

// Elements of the old axis and their weights in element i of the new one.
struct Part {
  i64 from;
  double weight;
  double terms = 0;  // of a weight that is a sum: that of their absolute values
};
struct Axis {
  i64 n, m;  // old and new size
  bool linear = false, corners = false;
  double scale = 0;
  bool cubic = false, antialias = false, exact = false;
};
// What is added up in it.
double terms_at(double x, bool cubic, double a) {
  x = std::fabs(x);
  if (!cubic) return 1 + x;
  if (x <= 1) return (a + 2) * x * x * x + (a + 3) * x * x + 1;
  return x < 2 ? -a * (x * x * x + 5 * x * x + 8 * x + 4) : 0;
}
// Keys' kernel and the triangle at a distance.
double filter_at(double x, bool cubic, double a) {
  x = std::fabs(x);
  if (!cubic) return std::fmax(0, 1 - x);
  if (x <= 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  return x < 2 ? a * (x * x * x - 5 * x * x + 8 * x - 4) : 0;
}
std::vector<Part> filter_parts(const Axis& a, i64 i) {
  const double step = a.corners     ? (a.m > 1 ? double(a.n - 1) / double(a.m - 1) : 0)
                      : a.scale > 0 ? 1 / a.scale
                                    : double(a.n) / double(a.m);
  std::vector<Part> all;
  if (!a.antialias) {
    const double at = a.corners ? double(i) * step : (double(i) + 0.5) * step - 0.5;
    for (i64 k = i64(std::floor(at)) - 1; k < i64(std::floor(at)) + 3; ++k)
      all.push_back({std::clamp<i64>(k, 0, a.n - 1), filter_at(at - double(k), true, -0.75),
                     terms_at(at - double(k), true, -0.75)});
    return all;
  }
  const double width = std::fmax(step, 1), center = (double(i) + 0.5) * step;
  const double support = (a.cubic ? 2 : 1) * width;
  double total = 0;
  for (i64 k = std::max<i64>(0, i64(center - support + 0.5));
       k < std::min<i64>(a.n, i64(center + support + 0.5)); ++k) {
    const double x = (double(k) - center + 0.5) / width;
    all.push_back({k, filter_at(x, a.cubic, -0.5), terms_at(x, a.cubic, -0.5)});
    total += all.back().weight;
  }
  for (Part& p : all) p.weight /= total, p.terms /= total;
  return all;
}
std::vector<Part> parts(const Axis& a, i64 i) {
  if (a.cubic || a.antialias) return filter_parts(a, i);
  if (a.exact) {
    const i64 k = a.scale > 0 ? i64((double(i) + 0.5) / a.scale) : (2 * i + 1) * a.n / (2 * a.m);
    return {{std::min(k, a.n - 1), 1.0}};
  }
  if (!a.linear) {
    const i64 k =
        a.scale > 0 && a.n != a.m && a.m != 2 * a.n ? i64(double(i) / a.scale) : i * a.n / a.m;
    return {{std::min(k, a.n - 1), 1.0}};
  }
  double at = 0;
  if (a.n == a.m)
    at = double(i);
  else if (a.corners)
    at = a.m == 1 ? 0 : double(i) * double(a.n - 1) / double(a.m - 1);
  else
    at = (double(i) + 0.5) * (a.scale > 0 ? 1 / a.scale : double(a.n) / double(a.m)) - 0.5;
  at = std::clamp(at, 0.0, double(a.n - 1));
  const i64 k = std::min(i64(at), a.n - 1);
  if (k == a.n - 1) return {{k, 1.0}};
  return {{k, 1 - (at - double(k))}, {k + 1, at - double(k)}};
}

// Resizes axis d of x.
Array resize(const Array& x, int d, const Axis& a) {
  Array r;
  r.shape = x.shape;
  r.shape[d] = a.m;
  for (i64 e = 0; e < count(r.shape); ++e) {
    Place i = unravel(e, r.shape);
    double v = 0, m = 0;
    for (const Part& p : parts(a, i[size_t(d)])) {
      Place from = i;
      from[size_t(d)] = p.from;
      const size_t at = size_t(ravel(from, x.shape));
      v += p.weight * x.v[at];
      m += std::fmax(std::fabs(p.weight), p.terms) *
           (x.magnitude.empty() ? std::fabs(x.v[at]) : x.magnitude[at]);
    }
    r.v.push_back(v);
    r.magnitude.push_back(m);
  }
  r.terms = x.terms + kTermsOfFormula +
            (a.cubic || a.antialias ? 4 + 8.0 * double(a.n) / double(a.m) : 0);
  return r;
}
// From the gradient of the resized tensor to that of the old one.
Array spread(const Array& g, int d, const Axis& a) {
  Array r;
  r.shape = g.shape;
  r.shape[d] = a.n;
  r.v.resize(size_t(count(r.shape)));
  r.magnitude = r.v;
  for (i64 e = 0; e < i64(g.v.size()); ++e) {
    Place i = unravel(e, g.shape);
    const Place whole = i;
    for (const Part& p : parts(a, whole[size_t(d)])) {
      i[size_t(d)] = p.from;
      r.v[size_t(ravel(i, r.shape))] += p.weight * g.v[size_t(e)];
      r.magnitude[size_t(ravel(i, r.shape))] += p.weight * std::fabs(g.v[size_t(e)]);
    }
  }
  r.terms = kTermsOfFormula + 2.0 * double(a.m) / double(std::max<i64>(a.n, 1)) + 2;
  return r;
}

void add_axis(std::vector<OpCase>& rows) {
  OpCase c{"resize_axis", {"resize", "resize_backward"}, kFloats};
  OpCase b{"resize_axis_backward", {"resize", "resize_backward"}, kFloats};
  struct Case {
    Shape x;
    i64 axis;
    Axis a;
  };
  for (const Case& k :
       {Case{{3, 5}, 1, {5, 8, true}}, Case{{5, 3}, 0, {5, 3}}, Case{{4, 3}, 0, {4, 7, true, true}},
        Case{{2, 3, 4}, -2, {3, 8}}, Case{{7}, 0, {7, 3, true}}, Case{{7}, 0, {7, 1, true, true}},
        Case{{1, 4}, 0, {1, 5, true}}, Case{{2, 5}, 1, {5, 7, true, false, 1.5}},
        Case{{2, 4}, 1, {4, 10, false, false, 2.6}}, Case{{0, 3}, 1, {3, 5, true}},
        Case{{3, 31}, 1, {31, 62}}, Case{{33, 7}, 0, {33, 11, true}},
        Case{{2, 257}, 1, {257, 129, true, true}}, Case{{5, 1, 3}, 2, {3, 3, true}}}) {
    const int d = int(k.axis < 0 ? k.axis + k.x.ndim() : k.axis);
    const ResizeOptions o{k.a.linear ? ResizeMode::linear : ResizeMode::nearest, k.a.corners,
                          k.a.scale};
    const std::string label = str(k.a.linear ? "linear " : "nearest ", k.a.n, " to ", k.a.m,
                                  k.a.corners ? ", corners" : "", k.a.scale > 0 ? ", scale" : "");
    Shape out = k.x;
    out[d] = k.a.m;
    c.samples.push_back(one_input(
        "", k.x, [k, o](const Tensor& x) { return resize_axis(x, k.axis, k.a.m, o); },
        [k, d](const std::vector<Array>& in) { return resize(in[0], d, k.a); }));
    b.samples.push_back(one_input(
        "", out, [k, o](const Tensor& x) { return resize_axis_backward(x, k.axis, k.a.n, o); },
        [k, d](const std::vector<Array>& in) { return spread(in[0], d, k.a); }));
    c.samples.back().label = b.samples.back().label = label;
  }
  const auto errors = [](OpCase& row, Tensor (*f)(const In&, i64, i64, const ResizeOptions&)) {
    const std::string op = "[" + row.name + "] ";
    row.errors = {
        undefined_input(row.name, [f](const Tensor& x) { return f(x, 0, 2, {}); }),
        fails<ShapeError>("size", op + "the size must be at least 1, got 0", {3},
                          [f](const Tensor& x) { return f(x, 0, 0, {}); }),
        fails<ShapeError>("empty", op + "axis 1 has no elements", {3, 0},
                          [f](const Tensor& x) { return f(x, 1, 2, {}); }),
        fails<ShapeError>("0-d", op + "needs at least one dimension", {},
                          [f](const Tensor& x) { return f(x, 0, 2, {}); }),
        fails<ShapeError>("scale", op + "the scale must be above 0, got -1", {3},
                          [f](const Tensor& x) { return f(x, 0, 2, {.scale = -1}); }),
        error_input<DtypeError>(
            "integers", op + "expected a floating dtype that computes, got i64",
            [f](Device d) { (void)f(zeros({3}, {.dtype = DType::i64, .device = d}), 0, 2, {}); })};
  };
  errors(c, resize_axis);
  errors(b, resize_axis_backward);
  rows.push_back(std::move(c));
  rows.push_back(std::move(b));
}

struct Image {
  Shape x;
  std::vector<i64> size{};
  std::vector<double> scale{};
  UpsampleMode mode = UpsampleMode::nearest;
  bool corners = false;
  bool antialias = false;
};
bool picks_one(UpsampleMode m) {
  return m == UpsampleMode::nearest || m == UpsampleMode::nearest_exact;
}
std::string torch_of(const Image& k) {
  const char* names[] = {"nearest", "linear", "bilinear", "trilinear", "nearest-exact", "bicubic"};
  std::string list;
  for (const i64 s : k.size) list += str(s, ", ");
  for (const double s : k.scale) list += str(s, ", ");
  std::string text = str("F.interpolate(a, ", k.size.empty() ? "scale_factor=(" : "size=(", list,
                         "), mode='", names[int(k.mode)], "'");
  if (!picks_one(k.mode)) text += str(", align_corners=", k.corners ? "True" : "False");
  if (k.antialias) text += ", antialias=True";
  return text + ")";
}

void add_upsample(std::vector<OpCase>& rows) {
  OpCase c{"upsample", {"resize", "resize_backward"}, kFloats};
  const auto nearest = UpsampleMode::nearest, linear = UpsampleMode::linear,
             bilinear = UpsampleMode::bilinear, trilinear = UpsampleMode::trilinear,
             exact = UpsampleMode::nearest_exact, bicubic = UpsampleMode::bicubic;
  for (const Image& k : {Image{{1, 2, 4, 5}, {6, 3}, {}, bicubic},
                         Image{{1, 2, 3, 4}, {5, 7}, {}, bilinear},
                         Image{{2, 1, 4, 3}, {}, {2, 2}, nearest},
                         Image{{1, 2, 3, 4}, {6, 8}, {}, bilinear, true},
                         Image{{2, 3, 5}, {8}, {}, linear},
                         Image{{2, 2, 7}, {3}, {}, linear, true},
                         Image{{1, 2, 5}, {}, {1.5}, nearest},
                         Image{{1, 1, 2, 3, 2}, {3, 4, 5}, {}, trilinear},
                         Image{{1, 2, 2, 2, 3}, {}, {2, 1.5, 1}, trilinear, true},
                         Image{{1, 1, 3, 2, 4}, {2, 5, 4}, {}, nearest},
                         Image{{2, 1, 5, 4}, {}, {1.3, 0.6}, bilinear},
                         Image{{1, 3, 3, 5}, {3, 5}, {}, bilinear},
                         Image{{0, 2, 3, 4}, {6, 2}, {}, bilinear},
                         Image{{1, 1, 31, 33}, {17, 65}, {}, bilinear},
                         Image{{1, 2, 33, 7}, {99, 7}, {}, nearest},
                         Image{{2, 1, 5, 4}, {3, 7}, {}, exact},
                         Image{{1, 2, 7}, {4}, {}, exact},
                         Image{{1, 1, 5, 3}, {}, {1.7, 0.6}, exact},
                         Image{{1, 2, 4, 5}, {7, 3}, {}, bicubic, true},
                         Image{{1, 1, 5, 4}, {}, {1.3, 0.6}, bicubic},
                         Image{{1, 2, 3, 1}, {1, 4}, {}, bicubic},
                         Image{{1, 2, 4, 3}, {1, 3}, {}, bicubic, true},
                         Image{{1, 1, 31, 5}, {13, 5}, {}, bicubic},
                         Image{{1, 2, 7, 4}, {3, 6}, {}, bilinear, false, true},
                         Image{{1, 2, 7, 4}, {3, 6}, {}, bicubic, false, true},
                         Image{{1, 1, 7, 6}, {3, 4}, {}, bilinear, true, true},
                         Image{{1, 1, 7, 6}, {}, {0.4, 0.7}, bicubic, false, true},
                         Image{{1, 1, 9, 5}, {1, 5}, {}, bilinear, false, true},
                         Image{{1, 1, 65, 7}, {9, 7}, {}, bicubic, false, true}}) {
    const int axes = k.x.ndim() - 2;
    const bool is_linear = !picks_one(k.mode);
    c.samples.push_back(one_input(
        torch_of(k), k.x,
        [k](const Tensor& x) {
          return upsample(x, {Shape(k.size), k.scale, k.mode, k.corners, k.antialias});
        },
        [k, axes, is_linear](const std::vector<Array>& in) {
          Array r = in[0];
          for (int a = 0; a < axes; ++a) {
            const i64 n = k.x[a + 2];
            const double scale = k.scale.empty() ? 0 : k.scale[k.scale.size() == 1 ? 0 : size_t(a)];
            const i64 m = k.scale.empty() ? k.size[size_t(a)] : i64(double(n) * scale);
            if (n == m) continue;
            r = resize(r, a + 2,
                       {n, m, is_linear, k.corners, scale, k.mode == UpsampleMode::bicubic,
                        k.antialias, k.mode == UpsampleMode::nearest_exact});
          }
          return r;
        }));
  }
  const auto of = [](const UpsampleOptions& o) {
    return [o](const Tensor& x) { return upsample(x, o); };
  };
  const Shape image{1, 1, 2, 2};
  c.errors = {
      undefined_input("upsample", of({.size = {4}})),
      fails<ShapeError>("rank", "[upsample] expected [N, C, L], [N, C, H, W] or [N, C, D, H, W]",
                        {2, 2}, of({.size = {4}})),
      fails<UsageError>("neither", "[upsample] one of size and scale must be given", image, of({})),
      fails<UsageError>("both", "[upsample] one of size and scale must be given", image,
                        of({.size = {4}, .scale = {2}})),
      fails<ShapeError>("lists", "[upsample] 3 sizes or scales for 2 axes", image,
                        of({.size = {4, 4, 4}})),
      fails<UsageError>("corners", "[upsample] align_corners is for the linear modes and bicubic",
                        image, of({.size = {4}, .align_corners = true})),
      fails<UsageError>("exact corners", "[upsample] align_corners is for", image,
                        of({.size = {4}, .mode = exact, .align_corners = true})),
      fails<UsageError>("antialias", "[upsample] antialias is for bilinear and bicubic", image,
                        of({.size = {4}, .antialias = true})),
      fails<ShapeError>("bicubic", "[upsample] bicubic takes 4 dimensions, got 3", {1, 1, 2},
                        of({.size = {4}, .mode = bicubic})),
      fails<ShapeError>("mode", "[upsample] trilinear takes 5 dimensions, got 4", image,
                        of({.size = {4}, .mode = trilinear})),
      fails<ShapeError>("size", "[upsample] axis 3 would have 0 elements", image,
                        of({.size = {4, 0}})),
      fails<ShapeError>("scale", "[upsample] a scale must be above 0", image,
                        of({.scale = {-2.0}})),
      fails<ShapeError>("NaN", "[upsample] a scale must be above 0", image, of({.scale = {NAN}})),
      fails<ShapeError>("large", "[upsample] a scale must be above 0 and the size fit 64 bits",
                        image, of({.scale = {1e300}})),
      fails<ShapeError>("empty", "[upsample] axis 2 has no elements", {1, 1, 0, 2},
                        of({.size = {4}})),
      fails<DtypeError>("dtype", "[upsample] expected a floating dtype that computes, got i64",
                        image,
                        [](const Tensor& x) { return upsample(x.to(DType::i64), {.size = {4}}); })};
  rows.push_back(std::move(c));
}

void add_resize_cases(std::vector<OpCase>& rows) {
  add_axis(rows);
  add_upsample(rows);
}

const CaseFile file{add_resize_cases};

}  // namespace
}  // namespace wt_test
