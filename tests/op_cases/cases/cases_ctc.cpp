// The row of ctc_loss.
#include <algorithm>

#include "warptape/autograd/ops/ctc.h"
#include "warptape/autograd/ops/softmax.h"
#include "warptape/tests/op_cases/cases/loss_case.h"

namespace wt_test {
namespace {

// The labels that a path stands for: repetitions joined, blanks removed.
std::vector<i64> collapsed(const std::vector<i64>& path, i64 blank) {
  std::vector<i64> r;
  for (size_t t = 0; t < path.size(); ++t)
    if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) r.push_back(path[t]);
  return r;
}

// The probability of `labels`: of few paths by listing all of them, else by the forward recursion
// over probabilities. y[t][c]: log-probabilities.
double probability(const std::vector<std::vector<double>>& y, const std::vector<i64>& labels,
                   i64 blank) {
  const size_t steps = y.size(), classes = steps ? y[0].size() : 1;
  if (std::pow(double(classes), double(steps)) <= 5000) {
    double total = 0;
    std::vector<i64> path(steps, 0);
    for (;;) {
      if (collapsed(path, blank) == labels) {
        double p = 0;
        for (size_t t = 0; t < steps; ++t) p += y[t][size_t(path[t])];
        total += std::exp(p);
      }
      size_t t = 0;
      while (t < steps && ++path[t] == i64(classes)) path[t++] = 0;
      if (t == steps) return total;
    }
  }
  std::vector<i64> states{blank};
  for (i64 l : labels) states.insert(states.end(), {l, blank});
  std::vector<double> now(states.size(), 0.0);
  for (size_t t = 0; t < steps; ++t) {
    std::vector<double> before = now;
    for (size_t s = 0; s < states.size(); ++s) {
      double from = t == 0 ? double(s < 2) : before[s] + (s ? before[s - 1] : 0);
      if (t > 0 && s > 1 && states[s] != blank && states[s] != states[s - 2]) from += before[s - 2];
      now[s] = from * std::exp(y[t][size_t(states[s])]);
    }
  }
  return now.back() + (states.size() > 1 ? now[states.size() - 2] : 0);
}

// x as logarithms of probabilities along its last axis.
Array normalised(Array x) {
  const size_t classes = size_t(x.shape[2]);
  for (size_t begin = 0; begin < x.v.size(); begin += classes) {
    double sum = 0;
    for (size_t c = 0; c < classes; ++c) sum += std::exp(x.v[begin + c]);
    for (size_t c = 0; c < classes; ++c) x.v[begin + c] -= std::log(sum);
  }
  return x;
}

// The mean, or without divide_by_length the sum; with `each` one by one.
Oracle ctc_oracle(const CtcOptions& o, bool logits, bool each = false) {
  return [=](const std::vector<Array>& in) {
    const Array x = logits ? normalised(in[0]) : in[0];
    const Array& targets = in[1];
    const i64 samples = x.shape[1], classes = x.shape[2];
    double sum = 0, magnitude = 0;
    Array losses{{samples}, {}, kTermsOfFormula + 6 * double(x.shape[0])};
    i64 start = 0;
    for (i64 n = 0; n < samples; ++n) {
      const i64 steps = i64(in[2].v[size_t(n)]), count = i64(in[3].v[size_t(n)]);
      if (targets.shape.ndim() == 2) start = n * targets.shape[1];
      std::vector<i64> labels;
      for (i64 k = 0; k < count; ++k) labels.push_back(i64(targets.v[size_t(start + k)]));
      start += count;
      std::vector<std::vector<double>> y;
      double size = 0;
      for (i64 t = 0; t < steps; ++t) {
        std::vector<double> row;
        for (i64 c = 0; c < classes; ++c) row.push_back(at(x, {t, n, c}));
        size = std::max(size, -*std::min_element(row.begin(), row.end()));
        y.push_back(row);
      }
      const double loss = -std::log(probability(y, labels, o.blank));
      const double scale = o.divide_by_length ? 1 / double(std::max<i64>(count, 1)) : 1;
      const bool fits = !(std::isinf(loss) && o.zero_infinity);
      losses.v.push_back(fits ? loss : 0), losses.magnitude.push_back(std::fabs(loss) + size + 1);
      if (!fits) continue;
      sum += scale * loss;
      magnitude += scale * (std::fabs(loss) + size + 1);
    }
    if (each) return losses;
    const double over = o.divide_by_length ? double(samples) : 1;
    return Array{{}, {sum / over}, kTermsOfFormula + 6 * double(x.shape[0]), {magnitude / over}};
  };
}

struct Case {
  const char* label;
  Shape x;
  std::vector<double> targets, steps, labels;
  bool rows;  // [N, L]
  CtcOptions o;
  // Behind log_softmax: only there is PyTorch's gradient the derivative.
  const char* torch = "";
};

Input listed(const Shape& shape, const std::vector<double>& values) {
  Input in = index_input(shape, 1);
  in.values = values;
  return in;
}

void add_samples(OpCase& c) {
  const Case cases[] = {
      {"", {4, 2, 3}, {1, 2, 1, 1}, {4, 3}, {2, 2}, true, {}},
      {"sum", {5, 2, 3}, {1, 2, 2, 2}, {5, 4}, {2, 1}, true, {.divide_by_length = false}},
      {"one after another", {4, 3, 3}, {1, 2, 2, 1}, {4, 2, 3}, {2, 1, 1}, false, {}},
      {"another blank", {4, 2, 3}, {0, 1, 1, 0}, {4, 4}, {2, 1}, true, {.blank = 2}},
      {"one that does not fit",
       {3, 2, 4},
       {1, 1, 1, 2},
       {2, 3},
       {2, 2},
       true,
       {.zero_infinity = true}},
      {"no label, no step", {3, 3, 3}, {1, 1, 1}, {3, 0, 2}, {0, 0, 1}, true, {}},
      {"no label at all", {3, 2, 3}, {}, {3, 2}, {0, 0}, false, {}},
      {"", {31, 3, 7}, {1, 1, 3, 4, 5, 6, 5, 5, 1, 2, 1, 2}, {31, 20, 7}, {4, 4, 3}, true, {}},
      {"", {33, 2, 257}, {256, 1, 7, 7, 7, 30, 31, 32, 33, 34}, {33, 30}, {5, 5}, true, {}},
      {"one", {1, 1, 2}, {1}, {1}, {1}, true, {}},
      {"no sample", {3, 0, 2}, {}, {}, {}, false, {}},
      {"logits",
       {4, 2, 3},
       {1, 2, 1, 1},
       {4, 3},
       {2, 2},
       true,
       {},
       "F.ctc_loss(F.log_softmax(a, 2), b, c, d)"},
      {"logits, sum",
       {5, 3, 3},
       {0, 1, 1, 0},
       {5, 4, 2},
       {2, 1, 1},
       false,
       {.blank = 2, .divide_by_length = false},
       "F.ctc_loss(F.log_softmax(a, 2), b, c, d, blank=2, reduction='sum')"},
      {"logits, one that does not fit",
       {3, 2, 4},
       {1, 1, 1, 2},
       {2, 3},
       {2, 2},
       true,
       {.zero_infinity = true},
       "F.ctc_loss(F.log_softmax(a, 2), b, c, d, zero_infinity=True)"}};
  const auto wide = [](const Tensor& x) { return x.dtype() == f64 ? f64 : f32; };
  for (const Case& k : cases) {
    const i64 samples = k.x[1];
    const bool logits = *k.torch != 0;
    const Shape targets =
        k.rows ? Shape{samples, i64(k.targets.size()) / samples} : Shape{i64(k.targets.size())};
    c.samples.push_back({k.label,
                         {{k.x, -3, -0.25},
                          listed(targets, k.targets),
                          listed({samples}, k.steps),
                          listed({samples}, k.labels)},
                         [o = k.o, logits, wide](std::span<const Tensor> in) {
                           const Tensor x = logits ? log_softmax(in[0].to(wide(in[0])), 2) : in[0];
                           const Loss loss = ctc_loss(x, in[1], in[2], in[3], o);
                           return o.divide_by_length ? loss.mean() : loss.sum;
                         },
                         ctc_oracle(k.o, logits)});
    c.samples.back().torch = k.torch;
    c.samples.back().second_is_zero = k.x[0] == 1;  // one path
    Sample each = c.samples.back();
    each.label += " unreduced";
    each.call = [o = k.o, logits, wide](std::span<const Tensor> in) {
      const Tensor x = logits ? log_softmax(in[0].to(wide(in[0])), 2) : in[0];
      return ctc_loss(x, in[1], in[2], in[3], unreduced,
                      {.blank = o.blank, .zero_infinity = o.zero_infinity});
    };
    each.oracle = ctc_oracle(k.o, logits, true);
    each.torch = without_reduction(k.torch);
    c.samples.push_back(std::move(each));
  }
}

void add_ctc(std::vector<OpCase>& rows) {
  OpCase c{"ctc_loss", {"ctc_forward", "ctc_backward"}, kFloats, ResultType::loss};
  c.cancels = true;
  add_samples(c);
  struct Call {
    Shape x{4, 2, 3};
    Shape targets{2, 2};
    i64 label = 1, steps = 4, labels = 2, blank = 0;
    i64 samples = 2;
    DType t = DType::i64;
  };
  const auto call = [](const Call& k) {
    return [=](Device d) {
      const TensorOptions o{.dtype = k.t, .device = d};
      (void)ctc_loss(zeros(k.x, {.device = d}), full(k.targets, k.label, o),
                     full({k.samples}, k.steps, o), full({k.samples}, k.labels, o),
                     {.blank = k.blank})
          .sum.item();
    };
  };
  const std::string tag = "[ctc_loss] ";
  c.errors = {
      undefined_operand("ctc_loss",
                        [](const Tensor& a, const Tensor& b) { (void)ctc_loss(a, b, b, b); }),
      error_input<ShapeError>("rank", tag + "log_probs must be [T, N, C], got [2, 3]",
                              call({.x = {2, 3}})),
      error_input<ShapeError>("targets", tag + "targets must be [2, L] or [sum of target_lengths]",
                              call({.targets = {3, 2}})),
      error_input<ShapeError>("lengths", tag + "input_lengths must be [2], one a sample, got [3]",
                              call({.samples = 3})),
      error_input<DtypeError>("dtype", tag + "targets must be i64, got i32",
                              call({.t = DType::i32})),
      error_input<IndexError>("blank", tag + "blank 3 is outside [0, 3)", call({.blank = 3})),
      error_input<UsageError>("steps", tag + "input_lengths[0] is 5, outside [0, 4]",
                              call({.steps = 5})),
      error_input<UsageError>("labels", tag + "target_lengths[0] is 3, outside [0, 2]",
                              call({.labels = 3})),
      error_input<UsageError>("labels in all", tag + "target_lengths add up to 4, targets has 5",
                              call({.targets = {5}})),
      error_input<IndexError>("label", tag + "label 3 at ", call({.label = 3}))};
  rows.push_back(std::move(c));
}

const CaseFile file{add_ctc};

}  // namespace
}  // namespace wt_test
