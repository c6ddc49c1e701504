// Rows of variance, norms and logsumexp.
#include <algorithm>
#include <functional>

#include "warptape/autograd/ops/stats.h"
#include "warptape/tests/op_cases/op_case.h"
#include "warptape/tests/op_cases/reduced.h"

namespace wt_test {
namespace {

constexpr double kInfinity = INFINITY;

double mean_of(const Values& g) {
  double sum = 0;
  for (const double x : g) sum += x;
  return sum / double(g.size());
}
// In two passes.
Reduced var_of(const Values& g, double correction) {
  const double mean = mean_of(g), freedom = std::max(0.0, double(g.size()) - correction);
  double squares = 0;
  for (const double x : g) squares += (x - mean) * (x - mean);
  const double v = squares / freedom;
  return {v, v + std::fabs(mean) * std::sqrt(v)};  // the mean is rounded, too
}
Reduced std_of(const Values& g, double correction) {
  const double s = std::sqrt(var_of(g, correction).value);
  return {s, s + std::fabs(mean_of(g))};
}
Reduced norm_of(const Values& g, double p) {
  double total = 0, largest = 0, least = kInfinity;
  for (const double x : g) {
    total += p == 0 ? double(x != 0) : std::pow(std::fabs(x), p);
    largest = std::max(largest, std::fabs(x));
    least = std::min(least, std::fabs(x));
  }
  const double y = p == kInfinity    ? largest
                   : p == -kInfinity ? least
                   : p == 0          ? total
                                     : std::pow(total, 1 / p);
  return {y, y};
}
Reduced logsumexp_of(const Values& g) {
  double m = -kInfinity, sum = 0;
  for (const double x : g) m = std::max(m, x);
  for (const double x : g) sum += std::exp(x - m);
  if (g.empty()) return {-kInfinity, 0};
  return {m + std::log(sum), std::fabs(m) + std::fabs(std::log(sum)) + 1};
}

// One way to call: over `axes` (all: every one), in PyTorch "name(a" + extra + axes + ")".
using Call = std::function<Tensor(const Tensor&, const Dims&, bool)>;
struct Way {
  Call call;
  std::function<Reduced(const Values&)> f;
  std::string torch;  // "torch.var(a, correction=1"
};
Sample sample(const Way& w, const std::string& label, const Input& in, std::vector<int> axes,
              bool all, bool keep) {
  Sample s{label,
           {in},
           [call = w.call, axes, all, keep](std::span<const Tensor> x) {
             return call(x[0], all ? Dims::all() : Dims(axes), keep);
           },
           {}};
  if (!w.torch.empty() && (all || !axes.empty()) && !(all && keep))
    s.torch = w.torch + torch_dim(axes, all, keep) + ")";
  if (all)
    for (int d = 0; d < in.shape.ndim(); ++d) axes.push_back(d);
  s.oracle = [f = w.f, axes, keep](const std::vector<Array>& x) {
    return reduce(x[0], axes, keep, f);
  };
  return s;
}
void add_shapes(OpCase& c, const Way& w, double low = -2) {
  const auto in = [low](const Shape& s) { return Input{s, low, 2}; };
  c.samples.push_back(sample(w, "0", in({3, 5}), {0}, false, false));
  c.samples.push_back(sample(w, "1", in({3, 5}), {1}, false, false));
  c.samples.push_back(sample(w, "all", in({2, 3, 4}), {}, true, false));
  c.samples.push_back(sample(w, "-2 keep", in({2, 3, 4}), {-2}, false, true));
  c.samples.push_back(sample(w, "0, 2", in({2, 3, 4}), {0, 2}, false, false));
  c.samples.push_back(sample(w, "all keep", in({7}), {}, true, true));
  c.samples.push_back(sample(w, "1", in({3, 257}), {1}, false, false));
  c.samples.push_back(sample(w, "0", in({33, 31}), {0}, false, false));
  c.samples.push_back(sample(w, "1", in({0, 3}), {1}, false, false));
  c.samples.push_back(sample(w, "1", in({2, 1030}), {1}, false, false));
}
void add_errors(OpCase& c, const Call& call) {
  const std::string name = c.name;
  c.errors = {undefined_operand(name, [call](const Tensor& x,
                                             const Tensor&) { (void)call(x, Dims::all(), false); }),
              error_input<ShapeError>("axis", "[" + name + "] axis 2 is outside [-2, 1]",
                                      [call](Device d) {
                                        (void)call(ones({2, 3}, {.device = d}), 2, false);
                                      }),
              error_input<DtypeError>(
                  "integers", "[" + name + "] expected a floating dtype", [call](Device d) {
                    (void)call(ones({2}, {.dtype = DType::i64, .device = d}), Dims::all(), false);
                  })};
}

void add_spread(std::vector<OpCase>& rows) {
  for (const bool root : {false, true}) {
    OpCase c{root ? "std" : "var", {"variance"}, kFloats};
    const auto way = [root](double correction) {
      return Way{[root, correction](const Tensor& x, const Dims& dims, bool keep) {
                   const VarOptions o{.correction = correction, .keep_dim = keep};
                   return root ? wt::std(x, dims, o) : var(x, dims, o);
                 },
                 [root, correction](const Values& g) {
                   return root ? std_of(g, correction) : var_of(g, correction);
                 },
                 str(root ? "torch.std" : "torch.var", "(a, correction=", correction)};
    };
    add_shapes(c, way(1));
    c.samples.push_back(sample(way(0), "correction 0", {{3, 5}}, {1}, false, false));
    c.samples.push_back(sample(way(1.5), "correction 1.5", {{2, 9}}, {1}, false, true));
    c.samples.push_back(sample(way(0), "none", {{2, 3}}, {}, false, false));
    c.samples.back().gradients = false;  // the root of a constant 0
    c.samples.back().constant = true;
    // Squares would cancel: f32 has nothing left of 1000^2 + 1.
    Input far{{3, 40}, 1000, 1002};
    c.samples.push_back(sample(way(1), "offset", far, {1}, false, false));
    c.samples.back().gradients = false;  // x - mean has what rounding leaves of it
    c.cancels = true;
    add_errors(c, way(1).call);
    rows.push_back(c);
  }
}

void add_norm(std::vector<OpCase>& rows) {
  OpCase c{"norm", {"norm", "sum", "max"}, kFloats};
  const auto way = [](double p) {
    std::string text = str("torch.linalg.vector_norm(a, ord=");
    text += std::isinf(p) ? (p > 0 ? "float('inf')" : "-float('inf')") : str(p);
    return Way{[p](const Tensor& x, const Dims& dims, bool keep) {
                 return norm(x, p, dims, {.keep_dim = keep});
               },
               [p](const Values& g) { return norm_of(g, p); }, text};
  };
  add_shapes(c, way(2));
  c.samples.push_back(sample(way(2), "none", {{2, 3}, 0.5, 2}, {}, false, false));
  for (const double p : {1.0, 3.0, 1.5, kInfinity, -kInfinity, -1.0, 0.5}) {
    const Input away{{3, 5}, -2, 2, Role::value, {0}};
    c.samples.push_back(sample(way(p), str("p ", p), away, {1}, false, false));
    c.samples.back().second_is_zero = p == 1 || std::isinf(p);
    c.samples.push_back(sample(way(p), str("p ", p, " all"), {{7, 3}, 0.5, 2}, {}, true, false));
    c.samples.back().second_is_zero = p == 1 || std::isinf(p);
  }
  Input some{{2, 4}};
  some.values = {0, 1, 0, -2, 3, 0, 0, 0};
  c.samples.push_back(sample(way(0), "p 0", some, {1}, false, false));
  c.samples.back().gradients = false;
  add_errors(c, way(2).call);
  c.errors.push_back(error_input<UsageError>(
      "nan", "[norm] p is NaN", [](Device d) { (void)norm(ones({2}, {.device = d}), NAN); }));
  c.errors.push_back(
      error_input<ShapeError>("empty", "[norm] no element to choose from",
                              [](Device d) { (void)norm(ones({0}, {.device = d}), kInfinity); }));
  rows.push_back(c);
}

void add_logsumexp(std::vector<OpCase>& rows) {
  OpCase c{"logsumexp", {"logsumexp"}, kFloats};
  const Way w{[](const Tensor& x, const Dims& dims, bool keep) {
                return logsumexp(x, dims, {.keep_dim = keep});
              },
              logsumexp_of, ""};
  add_shapes(c, w);
  for (Sample& s : c.samples)  // PyTorch wants its axes
    if (s.label == "0" || s.label == "1") s.torch = "torch.logsumexp(a, dim=" + s.label + ")";
  c.samples.push_back(sample(w, "large", {{3, 9}, 600, 700}, {1}, false, false));
  c.samples.back().gradients = false;  // 16-bit roundings of 650 are too coarse for a share
  c.samples.push_back(sample(w, "nothing", {{3, 0}}, {1}, false, false));
  c.samples.back().constant = true;
  add_errors(c, w.call);
  rows.push_back(c);
}

void add_stats_cases(std::vector<OpCase>& rows) {
  add_spread(rows);
  add_norm(rows);
  add_logsumexp(rows);
}

const CaseFile file{add_stats_cases};

}  // namespace
}  // namespace wt_test
