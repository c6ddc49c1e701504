// Rows of the losses of one number beside another. What comes out of a loss is its mean.
#include <functional>

#include "warptape/autograd/ops/elementwise_loss.h"
#include "warptape/tests/op_cases/cases/loss_case.h"

namespace wt_test {
namespace {

using Part = LossPart;
using Formula = std::function<Part(double x, double t, const std::vector<double>& weights)>;

// The sum over elements over `weight(shape)`. Inputs after the first two are weights that
// broadcast.
Oracle mean_oracle(Formula f, bool by_first_axis = false) {
  return [=](const std::vector<Array>& in) {
    double sum = 0, magnitude = 0;
    for (i64 e = 0; e < count(in[0].shape); ++e) {
      std::vector<double> weights;
      for (size_t k = 2; k < in.size(); ++k) weights.push_back(at(in[k], unravel(e, in[0].shape)));
      const Part p = f(in[0].v[size_t(e)], in[1].v[size_t(e)], weights);
      sum += p.value, magnitude += p.magnitude;
    }
    const double elements = double(in[0].v.size());
    const double n = !by_first_axis            ? elements
                     : in[0].shape.ndim() == 0 ? 1
                                               : double(in[0].shape[0]);
    return Array{{}, {sum / n}, kTermsOfFormula + elements, {magnitude / n}};
  };
}

// Each element's loss, one by one.
Oracle each_oracle(Formula f) {
  return [=](const std::vector<Array>& in) {
    Array r{in[0].shape, {}, kTermsOfFormula};
    for (i64 e = 0; e < count(in[0].shape); ++e) {
      std::vector<double> weights;
      for (size_t k = 2; k < in.size(); ++k) weights.push_back(at(in[k], unravel(e, in[0].shape)));
      const Part p = f(in[0].v[size_t(e)], in[1].v[size_t(e)], weights);
      r.v.push_back(p.value), r.magnitude.push_back(p.magnitude);
    }
    return r;
  };
}

struct Range {
  double low, high;
};
struct Options {
  std::string label, torch;
  CheckedFunction call, each;  // the mean, and the losses one by one
  Formula formula;
};

const Shape kShapes[] = {{3, 5}, {2, 3, 4}, {}, {1}, {7, 1, 3}, {3, 257}, {0, 3}};

// Every way of calling it with the first shapes, the first way with all.
void add_samples(OpCase& c, Range x, Range t, const std::vector<Options>& ways,
                 bool by_first_axis = false) {
  for (size_t k = 0; k < std::size(kShapes); ++k)
    for (size_t w = 0; w < ways.size(); ++w) {
      if (k > 1 && w > 0 && kShapes[k] != Shape{7, 1, 3}) continue;
      c.samples.push_back({ways[w].label,
                           {{kShapes[k], x.low, x.high}, {kShapes[k], t.low, t.high}},
                           ways[w].call,
                           mean_oracle(ways[w].formula, by_first_axis)});
      Sample& s = c.samples.back();
      if (k < 2) s.torch = ways[w].torch;
      if (count(kShapes[k]) > 1 || count(kShapes[k]) == 0) continue;
      s.inputs[0].values = {x.low + 0.45 * (x.high - x.low)};  // where it is curved
      s.inputs[1].values = {t.low + 0.6 * (t.high - t.low)};
    }
  for (const Options& way : ways)
    for (const Shape& shape : {Shape{3, 4}, Shape{2, 3, 2}, Shape{0, 3}, Shape{5, 33}}) {
      c.samples.push_back({way.label + " unreduced",
                           {{shape, x.low, x.high}, {shape, t.low, t.high}},
                           way.each,
                           each_oracle(way.formula)});
      if (shape == Shape{3, 4}) c.samples.back().torch = without_reduction(way.torch);
    }
}
template <class F>
void add_errors(OpCase& c, F loss) {
  const Apply call = [loss](const Tensor& a, const Tensor& b) { (void)loss(a, b); };
  const std::string tag = "[" + c.name + "] ";
  c.errors = {
      undefined_operand(c.name, call), two_devices(c.name, call),
      error_input<ShapeError>("shapes",
                              tag + "input and target must have one shape: [2, 1] and [2]",
                              [loss](Device d) {
                                (void)loss(ones({2, 1}, {.device = d}), ones({2}, {.device = d}));
                              }),
      error_input<DtypeError>("dtype", tag + "expected a floating dtype that computes, got i64",
                              [loss](Device d) {
                                const Tensor x = ones({2}, {.dtype = DType::i64, .device = d});
                                (void)loss(x, x);
                              })};
}

// --- distances ---

void add_l1(std::vector<OpCase>& rows) {
  OpCase c{"l1_loss", {}, kFloats, ResultType::loss};
  const auto loss = [](const Tensor& a, const Tensor& b) { return l1_loss(a, b); };
  const Formula f = [](double x, double t, auto&) {
    return Part{std::fabs(x - t), std::fabs(x) + std::fabs(t)};
  };
  add_samples(c, {-2, 2}, {-2, 2},
              {{"", "F.l1_loss(a, b)",
                [=](std::span<const Tensor> in) { return loss(in[0], in[1]).mean(); },
                [](std::span<const Tensor> in) { return l1_loss(in[0], in[1], unreduced); }, f}});

  add_errors(c, loss);
  rows.push_back(std::move(c));
}

// Both are 0.5 d^2 / below for |d| < width and slope (|d| - 0.5 width) beyond.
Formula rounded(double width, double below, double slope) {
  return [=](double x, double t, auto&) {
    const double d = std::fabs(x - t), size = std::fabs(x) + std::fabs(t);
    if (d < width) return Part{0.5 * d * d / below, d * size / below + slope * d};
    return Part{slope * (d - 0.5 * width), slope * (size + width)};
  };
}

void add_smooth_l1(std::vector<OpCase>& rows) {
  OpCase c{"smooth_l1_loss", {}, kFloats, ResultType::loss};
  const auto way = [](double beta) {
    return Options{str("beta ", beta), str("F.smooth_l1_loss(a, b, beta=", beta, ")"),
                   [=](std::span<const Tensor> in) {
                     return smooth_l1_loss(in[0], in[1], {.beta = beta}).mean();
                   },
                   [=](std::span<const Tensor> in) {
                     return smooth_l1_loss(in[0], in[1], unreduced, {.beta = beta});
                   },
                   rounded(beta, beta, 1)};
  };
  add_samples(c, {-2, 2}, {-2, 2}, {way(1), way(0.5), way(3)});
  c.samples.push_back(
      {"beta 0",
       {{{3, 5}}, {{3, 5}}},
       [](std::span<const Tensor> in) { return smooth_l1_loss(in[0], in[1], {.beta = 0}).mean(); },
       mean_oracle([](double x, double t, auto&) {
         return Part{std::fabs(x - t), std::fabs(x) + std::fabs(t)};
       })});
  c.samples.back().torch = "F.smooth_l1_loss(a, b, beta=0.0)";
  c.samples.back().second_is_zero = true;
  add_errors(c, [](const Tensor& a, const Tensor& b) { return smooth_l1_loss(a, b); });
  c.errors.push_back(error_input<UsageError>(
      "beta", "[smooth_l1_loss] beta must be at least 0, got -1", [](Device d) {
        (void)smooth_l1_loss(ones({2}, {.device = d}), ones({2}, {.device = d}), {.beta = -1});
      }));
  rows.push_back(std::move(c));
}

void add_huber(std::vector<OpCase>& rows) {
  OpCase c{"huber_loss", {}, kFloats, ResultType::loss};
  const auto way = [](double delta) {
    return Options{str("delta ", delta), str("F.huber_loss(a, b, delta=", delta, ")"),
                   [=](std::span<const Tensor> in) {
                     return huber_loss(in[0], in[1], {.delta = delta}).mean();
                   },
                   [=](std::span<const Tensor> in) {
                     return huber_loss(in[0], in[1], unreduced, {.delta = delta});
                   },
                   rounded(delta, 1, delta)};
  };
  add_samples(c, {-2, 2}, {-2, 2}, {way(1), way(0.75), way(2.5)});
  add_errors(c, [](const Tensor& a, const Tensor& b) { return huber_loss(a, b); });
  c.errors.push_back(error_input<UsageError>(
      "delta", "[huber_loss] delta must be greater than 0, got 0", [](Device d) {
        (void)huber_loss(ones({2}, {.device = d}), ones({2}, {.device = d}), {.delta = 0});
      }));
  rows.push_back(std::move(c));
}

// --- binary cross-entropy ---

Part binary(double x, double t, const std::vector<double>& w) {
  const double weight = w.empty() ? 1 : w[0];
  const double loss = -weight * (t * std::log(x) + (1 - t) * std::log1p(-x));
  return {loss, loss + weight};
}
// weights: of the element, then of the positive answers.
Part with_logits(double x, double t, double weight, double positive) {
  const double rest = std::log1p(std::exp(-std::fabs(x))) + std::fmax(-x, 0);
  const double factor = 1 + (positive - 1) * t;
  return {weight * ((1 - t) * x + factor * rest),
          weight * ((1 - t) * std::fabs(x) + factor * rest + 1)};
}
// A sample with weights of the given shapes.
Sample weighted(const std::string& label, const Shape& shape, const std::vector<Shape>& weights,
                Input x, CheckedFunction call, Formula f, const char* torch) {
  x.shape = shape;
  Sample s{label, {x, {shape, 0.02, 0.98}}, std::move(call), mean_oracle(std::move(f))};
  for (const Shape& w : weights) {
    s.inputs.push_back({w, 0.25, 2});
    s.inputs.back().wants_grad = false;
  }
  s.torch = torch;
  return s;
}

void add_binary(std::vector<OpCase>& rows) {
  OpCase c{"binary_cross_entropy", {}, kFloats, ResultType::loss};
  const auto loss = [](const Tensor& a, const Tensor& b) { return binary_cross_entropy(a, b); };
  add_samples(
      c, {0.02, 0.98}, {0, 1},
      {{"", "F.binary_cross_entropy(a, b)",
        [=](std::span<const Tensor> in) { return loss(in[0], in[1]).mean(); },
        [](std::span<const Tensor> in) { return binary_cross_entropy(in[0], in[1], unreduced); },
        binary}});
  const CheckedFunction call = [](std::span<const Tensor> in) {
    return binary_cross_entropy(in[0], in[1], {.weight = in[2]}).mean();
  };
  const Input x{{}, 0.02, 0.98};
  for (const Shape& w : {Shape{4, 3}, Shape{3}, Shape{4, 1}})
    c.samples.push_back(
        weighted("weight", {4, 3}, {w}, x, call, binary, "F.binary_cross_entropy(a, b, weight=c)"));
  c.samples.push_back(weighted(
      "weight, unreduced", {4, 3}, {{3}}, x,
      [](std::span<const Tensor> in) {
        return binary_cross_entropy(in[0], in[1], unreduced, {.weight = in[2]});
      },
      binary, "F.binary_cross_entropy(a, b, weight=c, reduction='none')"));
  c.samples.back().oracle = each_oracle(binary);
  add_errors(c, loss);
  const std::string tag = "[binary_cross_entropy] ";
  c.errors.push_back(error_input<ShapeError>(
      "weight", tag + "weight [2] does not broadcast to the input's shape [3]", [](Device d) {
        const Tensor p = full({3}, 0.5, {.device = d});
        (void)binary_cross_entropy(p, p, {.weight = ones({2}, {.device = d})});
      }));
  rows.push_back(std::move(c));
}

void add_with_logits(std::vector<OpCase>& rows) {
  OpCase c{"binary_cross_entropy_with_logits", {}, kFloats, ResultType::loss};
  c.cancels = true;  // sigmoid(x) - t
  const auto loss = [](const Tensor& a, const Tensor& b) {
    return binary_cross_entropy_with_logits(a, b);
  };
  const std::string name = "F.binary_cross_entropy_with_logits(a, b";
  add_samples(
      c, {-6, 6}, {0, 1},
      {{"", name + ")", [=](std::span<const Tensor> in) { return loss(in[0], in[1]).mean(); },
        [](std::span<const Tensor> in) {
          return binary_cross_entropy_with_logits(in[0], in[1], unreduced);
        },
        [](double x, double t, auto&) { return with_logits(x, t, 1, 1); }}});
  const Input x{{}, -6, 6};
  c.samples.push_back(weighted(
      "weight", {4, 3}, {{4, 1}}, x,
      [](std::span<const Tensor> in) {
        return binary_cross_entropy_with_logits(in[0], in[1], {.weight = in[2]}).mean();
      },
      [](double v, double t, auto& w) { return with_logits(v, t, w[0], 1); },
      "F.binary_cross_entropy_with_logits(a, b, weight=c)"));
  c.samples.push_back(weighted(
      "pos_weight", {4, 3}, {{3}}, x,
      [](std::span<const Tensor> in) {
        return binary_cross_entropy_with_logits(in[0], in[1], {.pos_weight = in[2]}).mean();
      },
      [](double v, double t, auto& w) { return with_logits(v, t, 1, w[0]); },
      "F.binary_cross_entropy_with_logits(a, b, pos_weight=c)"));
  c.samples.push_back(weighted(
      "both", {5, 3}, {{5, 3}, {3}}, x,
      [](std::span<const Tensor> in) {
        const BinaryCrossEntropyWithLogitsOptions o{.weight = in[2], .pos_weight = in[3]};
        return binary_cross_entropy_with_logits(in[0], in[1], o).mean();
      },
      [](double v, double t, auto& w) { return with_logits(v, t, w[0], w[1]); },
      "F.binary_cross_entropy_with_logits(a, b, weight=c, pos_weight=d)"));
  const Formula both = [](double v, double t, auto& w) { return with_logits(v, t, w[0], w[1]); };
  c.samples.push_back(weighted(
      "both, unreduced", {4, 3}, {{4, 1}, {3}}, x,
      [](std::span<const Tensor> in) {
        const BinaryCrossEntropyWithLogitsOptions o{.weight = in[2], .pos_weight = in[3]};
        return binary_cross_entropy_with_logits(in[0], in[1], unreduced, o);
      },
      both, "F.binary_cross_entropy_with_logits(a, b, weight=c, pos_weight=d, reduction='none')"));
  c.samples.back().oracle = each_oracle(both);
  add_errors(c, loss);
  c.errors.push_back(error_input<ShapeError>(
      "pos_weight",
      "[binary_cross_entropy_with_logits] pos_weight [2] does not broadcast to the input's shape",
      [](Device d) {
        const Tensor v = ones({3}, {.device = d});
        (void)binary_cross_entropy_with_logits(v, v, {.pos_weight = ones({2}, {.device = d})});
      }));
  rows.push_back(std::move(c));
}

// --- Kullback-Leibler ---

void add_kl_div(std::vector<OpCase>& rows) {
  OpCase c{"kl_div", {}, kFloats, ResultType::loss};
  const auto way = [](bool log_target) {
    return Options{
        log_target ? "log_target" : "",
        str("F.kl_div(a, b, reduction='batchmean', log_target=", log_target ? "True" : "False",
            ")"),
        [=](std::span<const Tensor> in) {
          return kl_div(in[0], in[1], {.log_target = log_target}).mean();
        },
        [=](std::span<const Tensor> in) {
          return kl_div(in[0], in[1], unreduced, {.log_target = log_target});
        },
        [=](double x, double t, auto&) {
          if (log_target)
            return Part{std::exp(t) * (t - x),
                        std::exp(t) * (1 + std::fabs(t)) * (std::fabs(t) + std::fabs(x))};
          const double entropy = t == 0 ? 0 : t * std::log(t);
          return Part{entropy - t * x, std::fabs(entropy) + std::fabs(t * x) + t};
        }};
  };
  add_samples(c, {-4, 0}, {0.05, 1}, {way(false), way(true)}, true);
  add_errors(c, [](const Tensor& a, const Tensor& b) { return kl_div(a, b); });
  rows.push_back(std::move(c));
}

void add_elementwise_loss_cases(std::vector<OpCase>& rows) {
  add_l1(rows);
  add_smooth_l1(rows);
  add_huber(rows);
  add_binary(rows);
  add_with_logits(rows);
  add_kl_div(rows);
}

const CaseFile file{add_elementwise_loss_cases};

}  // namespace
}  // namespace wt_test
