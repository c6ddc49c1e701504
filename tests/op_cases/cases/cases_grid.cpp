// Rows of the operators on grids of places.
#include <algorithm>

#include "warptape/autograd/ops/grid.h"
#include "warptape/tests/op_cases/moves.h"

namespace wt_test {
namespace {

double pixel_place(i64 i, i64 n, bool corners) {
  if (!corners) return double(2 * i + 1) / double(n) - 1;
  return n > 1 ? 2 * double(i) / double(n - 1) - 1 : 0;
}

void add_affine_grid(std::vector<OpCase>& rows) {
  OpCase c{"affine_grid", {}, kFloats};
  struct Case {
    Shape size;
    bool corners = false;
  };
  for (const Case& k : {Case{{2, 1, 3, 4}}, Case{{3, 2, 2, 5}, true}, Case{{1, 1, 2, 3, 4}},
                        Case{{2, 1, 3, 1}, true}, Case{{2, 1, 4, 2, 3}, true}, Case{{0, 1, 3, 2}},
                        Case{{1, 0, 31, 7}}}) {
    const i64 axes = k.size.ndim() - 2;
    std::string sizes;
    for (const i64 n : k.size) sizes += str(n, ", ");
    c.samples.push_back(one_input(
        str("F.affine_grid(a, (", sizes, "), align_corners=", k.corners ? "True)" : "False)"),
        {k.size[0], axes, axes + 1},
        [k](const Tensor& t) { return affine_grid(t, k.size, {.align_corners = k.corners}); },
        [k, axes](const std::vector<Array>& in) {
          Array r;
          r.shape = {k.size[0]};
          for (i64 d = 0; d < axes; ++d) r.shape.push_back(k.size[int(d) + 2]);
          r.shape.push_back(axes);
          for (i64 e = 0; e < count(r.shape); ++e) {
            const Place i = unravel(e, r.shape);
            double v = at(in[0], {i[0], i.back(), axes}), m = std::fabs(v);
            for (i64 d = 0; d < axes; ++d) {
              const i64 axis = axes - d, n = k.size[int(axis) + 1];
              const double t = at(in[0], {i[0], i.back(), d});
              v += t * pixel_place(i[size_t(axis)], n, k.corners);
              m += 2 * std::fabs(t);
            }
            r.v.push_back(v), r.magnitude.push_back(m);
          }
          r.terms = kTermsOfFormula + 4 + (count(k.size) > 0 ? double(count(r.shape)) : 0);
          return r;
        }));
    if (count(k.size) == 0) c.samples.back().torch.clear();
  }
  const auto of = [](const Shape& size) {
    return [size](const Tensor& t) { return affine_grid(t, size); };
  };
  c.errors = {
      undefined_input("affine_grid", of({1, 1, 2, 2})),
      fails<ShapeError>("rank", "[affine_grid] the size must be {N, C, H, W} or {N, C, D, H, W}",
                        {1, 2, 3}, of({1, 2, 2})),
      fails<ShapeError>("theta", "[affine_grid] theta must be [2, 2, 3] for size [2, 1, 4, 4]",
                        {1, 2, 3}, of({2, 1, 4, 4})),
      fails<ShapeError>("negative", "[affine_grid] a negative size", {1, 2, 3}, of({1, 1, -1, 4})),
      fails<ShapeError>("empty", "[affine_grid] axis 3 of the size has no elements", {1, 2, 3},
                        of({1, 1, 4, 0})),
      fails<DtypeError>("integers",
                        "[affine_grid] expected a floating dtype that computes, got i64", {1, 2, 3},
                        [](const Tensor& t) {
                          return affine_grid(t.to(DType::i64), {1, 1, 2, 2});
                        })};
  rows.push_back(std::move(c));
}

// --- grid_sample ---

constexpr auto kBilinear = GridSampleMode::bilinear, kNearest = GridSampleMode::nearest,
               kBicubic = GridSampleMode::bicubic;
constexpr auto kZeros = GridSamplePadding::zeros, kBorder = GridSamplePadding::border,
               kReflection = GridSamplePadding::reflection;

// What of an axis is read: pixels, -1 for none, and what they weigh. `wide` is the weight, with
// what a rounding of the place changes of it.
struct Tap {
  i64 pixel;
  double weight, wide;
};
// Places beyond the first and the last pixel, as PyTorch moves them.
double inside(double u, i64 n, const GridSampleOptions& o) {
  if (o.padding_mode == kZeros) return u;
  if (o.padding_mode == kReflection) {
    const double low = o.align_corners ? 0 : -0.5;
    const double span = double(o.align_corners ? n - 1 : n);
    if (span == 0) return 0;
    const double from = std::fabs(u - low), rest = std::fmod(from, span);
    u = std::fmod(std::floor(from / span), 2) == 0 ? rest + low : span - rest + low;
  }
  return std::isnan(u) ? 0 : std::clamp(u, 0.0, double(n - 1));
}
double keys(double x) {
  x = std::fabs(x);
  constexpr double a = -0.75;
  if (x <= 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  return x >= 2 ? 0 : a * (x * x * x - 5 * x * x + 8 * x - 4);  // of NaN it is NaN
}
std::vector<Tap> taps_of(double g, i64 n, const GridSampleOptions& o) {
  const double size = double(n);
  const double far = o.align_corners ? (g + 1) / 2 * (size - 1) : ((g + 1) * size - 1) / 2;
  const bool cubic = o.mode == kBicubic;
  const double u = cubic ? far : inside(far, n, o);
  const auto pixel = [n](double k) { return k >= 0 && k < double(n) ? i64(k) : -1; };
  if (o.mode == kNearest) return {{pixel(std::nearbyint(u)), 1, 1}};
  const double k = std::floor(u), t = u - k, rounding = 2 + std::fabs(std::isnan(far) ? u : far);
  if (!cubic) return {{pixel(k), 1 - t, 1 + rounding}, {pixel(k + 1), t, 1 + rounding}};
  std::vector<Tap> taps;
  for (int d = -1; d < 3; ++d) {
    const double w = keys(t - d);  // its terms add up to 3.5 at most, as its derivative does
    taps.push_back({pixel(inside(k + d, n, o)), w, 3.5 * (1 + rounding)});
  }
  return taps;
}
Oracle sampled(const GridSampleOptions& o) {
  return [o](const std::vector<Array>& in) {
    const Array &x = in[0], &grid = in[1];
    const int axes = x.shape.ndim() - 2;
    Array r;
    r.shape = {x.shape[0], x.shape[1]};
    for (int k = 0; k < axes; ++k) r.shape.push_back(grid.shape[k + 1]);
    for (i64 e = 0; e < count(r.shape); ++e) {
      const Place i = unravel(e, r.shape);
      std::vector<std::vector<Tap>> taps;
      size_t combinations = 1;
      for (int k = 0; k < axes; ++k) {
        Place of{i[0]};
        of.insert(of.end(), i.begin() + 2, i.end());
        of.push_back(axes - 1 - k);
        taps.push_back(taps_of(at(grid, of), x.shape[k + 2], o));
        combinations *= taps.back().size();
      }
      double v = 0, m = 0;
      for (size_t c = 0; c < combinations; ++c) {
        Place from{i[0], i[1]};
        double weight = 1, wide = 1;
        size_t rest = c;
        for (int k = 0; k < axes; ++k) {
          const Tap& t = taps[size_t(k)][rest % taps[size_t(k)].size()];
          rest /= taps[size_t(k)].size();
          from.push_back(t.pixel);
          weight *= t.weight, wide *= t.wide;
        }
        const bool outside = *std::min_element(from.begin() + 2, from.end()) < 0;
        const double pixel = outside ? 0 : at(x, from);
        v += o.mode == kNearest ? pixel : weight * pixel;
        m += wide * std::fabs(pixel);
      }
      r.v.push_back(v), r.magnitude.push_back(m);
    }
    r.terms = o.mode == kNearest ? 0 : 2 * kTermsOfFormula + (o.mode == kBicubic ? 16 : 8);
    return r;
  };
}

// Where along an axis of n pixels the derivative or, of nearest, the value jumps.
void add_jumps(std::vector<double>& at, i64 n, const GridSampleOptions& o) {
  for (i64 k = -2 * n - 4; k <= 3 * n + 4; ++k) {
    const double u = double(k) + (o.mode == kNearest ? 0.5 : 0);
    if (!o.align_corners) at.push_back((2 * u + 1) / double(n) - 1);
    if (o.align_corners && n > 1) at.push_back(2 * u / double(n - 1) - 1);
  }
}

struct Sampling {
  Shape x, places;
  GridSampleOptions o{};
  double range = 1.4;  // of the grid's numbers
  std::vector<double> values{};
};
Sample sample_of(const Sampling& k) {
  const int axes = k.x.ndim() - 2;
  Input grid{{k.x[0]}, -k.range, k.range};
  for (const i64 n : k.places) grid.shape.push_back(n);
  grid.shape.push_back(axes);
  for (int d = 0; d < axes; ++d) add_jumps(grid.kinks, k.x[2 + d], k.o);
  grid.values = k.values;
  static const char* const kModes[] = {"bilinear", "nearest", "bicubic"};
  static const char* const kPaddings[] = {"zeros", "border", "reflection"};
  Sample s = two_inputs(
      str("F.grid_sample(a, b, mode='", kModes[int(k.o.mode)], "', padding_mode='",
          kPaddings[int(k.o.padding_mode)],
          "', align_corners=", k.o.align_corners ? "True)" : "False)"),
      {k.x}, grid, [o = k.o](const Tensor& x, const Tensor& g) { return grid_sample(x, g, o); },
      sampled(k.o));
  s.second_is_zero = k.o.mode == kNearest;
  s.gradients = k.values.empty();
  s.constant = !k.values.empty();
  return s;
}

void add_grid_sample(std::vector<OpCase>& rows) {
  OpCase c{"grid_sample", {"embedding_forward", "embedding_backward"}, kFloats};
  const auto add = [&c](const Sampling& k) { c.samples.push_back(sample_of(k)); };
  add({{1, 2, 3, 4}, {3, 2}});
  add({{1, 2, 4, 3}, {2, 3}, {kBicubic, kReflection}, 2.6});
  for (const GridSampleMode mode : {kBilinear, kNearest, kBicubic})
    for (const GridSamplePadding padding : {kZeros, kBorder, kReflection})
      for (const bool corners : {false, true}) {
        const double range = padding == kReflection ? 2.6 : 1.4;
        add({{1, 2, 3, 4}, {2, 3}, {mode, padding, corners}, range});
        if (mode != kBicubic) add({{1, 1, 2, 3, 4}, {1, 2, 3}, {mode, padding, corners}, range});
        // Three places that are NaN along one axis or both.
        const double nan = std::nan("");
        add({{1, 1, 3, 4}, {1, 3}, {mode, padding, corners}, 1, {nan, 0.2, -0.3, nan, nan, nan}});
      }
  for (const bool corners : {false, true})
    for (const GridSampleMode mode : {kBilinear, kBicubic}) {
      add({{1, 2, 5, 1}, {3, 1}, {mode, kReflection, corners}});  // an axis of one pixel
      add({{2, 1, 1, 3}, {2, 2}, {mode, kZeros, corners}});
    }
  add({{2, 3, 4, 5}, {7, 1}, {kBilinear, kBorder}});
  add({{3, 1, 2, 2}, {1, 5}, {kNearest, kBorder, true}});
  add({{2, 5, 3, 2, 4}, {1, 3, 2}, {kBilinear, kZeros, true}});
  add({{1, 1, 31, 33}, {17, 9}, {kBilinear, kBorder}});
  add({{2, 33, 7, 5}, {5, 3}, {kBicubic, kZeros}});
  add({{0, 2, 3, 4}, {2, 2}});
  add({{1, 0, 3, 4}, {2, 2}});
  add({{2, 2, 3, 4}, {0, 2}, {kBicubic, kBorder}});
  const auto of = [](const Shape& grid, const GridSampleOptions& o = {}) {
    return [grid, o](const Tensor& x) {
      return grid_sample(x, zeros(grid, {.dtype = x.dtype(), .device = x.device()}), o);
    };
  };
  const std::string op = "[grid_sample] ";
  c.errors = {
      undefined_operand("grid_sample",
                        [](const Tensor& a, const Tensor& b) { (void)grid_sample(a, b); }),
      two_devices("grid_sample", [](const Tensor& a, const Tensor& b) { (void)grid_sample(a, b); }),
      fails<ShapeError>("rank", op + "expected an image [N, C, H, W] or [N, C, D, H, W], got 3",
                        {2, 3, 4}, of({2, 2, 2})),
      fails<ShapeError>("bicubic", op + "bicubic takes 4 dimensions, got 5", {1, 1, 2, 2, 2},
                        of({1, 1, 1, 1, 3}, {kBicubic})),
      fails<ShapeError>("grid", op + "the grid must be [2, h, w, 2] for an image [2, 1, 3, 4]",
                        {2, 1, 3, 4}, of({2, 5, 5, 3})),
      fails<ShapeError>("images", op + "the grid must be [2, d, h, w, 3] for an image",
                        {2, 1, 3, 4, 2}, of({1, 5, 5, 5, 3})),
      fails<ShapeError>("grid's rank", op + "the grid must be [2, h, w, 2]", {2, 1, 3, 4},
                        of({2, 5, 2})),
      fails<ShapeError>("empty", op + "axis 3 of the image has no elements", {1, 1, 4, 0},
                        of({1, 2, 2, 2})),
      fails<DtypeError>(
          "dtypes", "[grid_sample] ", {1, 1, 2, 2},
          [](const Tensor& x) {
            return grid_sample(x, zeros({1, 2, 2, 2}, {.dtype = f64, .device = x.device()}));
          }),
      fails<DtypeError>("integers", op + "expected a floating dtype that computes, got i64",
                        {1, 1, 2, 2}, [of](const Tensor& x) {
                          return of({1, 2, 2, 2})(x.to(DType::i64));
                        })};
  rows.push_back(std::move(c));
}

void add_grid_cases(std::vector<OpCase>& rows) {
  add_affine_grid(rows);
  add_grid_sample(rows);
}

const CaseFile file{add_grid_cases};

}  // namespace
}  // namespace wt_test
