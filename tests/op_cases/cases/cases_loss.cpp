// Rows of the losses of labels, and of mse_loss. What comes out of a loss is its mean.
#include <algorithm>

#include "warptape/autograd/ops/loss.h"
#include "warptape/tests/op_cases/cases/loss_case.h"

namespace wt_test {
namespace {

// log(sum(exp(x))) of a row, and its largest element.
struct LogSum {
  double value, largest;
};
LogSum log_sum_exp(const std::vector<double>& row) {
  const double m = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (double x : row) sum += std::exp(x - m);
  return {m + std::log(sum), m};
}
int class_axis(const Array& x) { return x.shape.ndim() == 1 ? 0 : 1; }
// The elements of x along its class axis for sample e of `labels`.
std::vector<double> row_of(const Array& x, i64 e, const Shape& labels) {
  const int axis = class_axis(x);
  std::vector<i64> i = unravel(e, labels);
  i.insert(i.begin() + axis, 0);
  std::vector<double> row;
  for (i[size_t(axis)] = 0; i[size_t(axis)] < x.shape[axis]; ++i[size_t(axis)])
    row.push_back(at(x, i));
  return row;
}
Input class_weights(i64 classes) {
  Input w{{classes}, 0.25, 2};
  w.wants_grad = false;
  return w;
}

// --- cross-entropy ---

// A sample's loss and what its roundings are relative to.
struct SampleLoss {
  double value = 0, magnitude = 0, weight = 0;
};
// The mean of them, or all of them.
Array mean_of(const std::vector<SampleLoss>& all, double terms) {
  SampleLoss sum;
  for (const SampleLoss& l : all)
    sum.value += l.value, sum.magnitude += l.magnitude, sum.weight += l.weight;
  return {{}, {sum.value / sum.weight}, terms + sum.weight, {sum.magnitude / sum.weight}};
}
Array each_of(const std::vector<SampleLoss>& all, const Shape& shape, double terms) {
  Array r{shape, {}, terms};
  for (const SampleLoss& l : all) r.v.push_back(l.value), r.magnitude.push_back(l.magnitude);
  return r;
}

// in: logits, labels, and class weights when the options' are used.
Array cross_entropy_oracle(const std::vector<Array>& in, const CrossEntropyOptions& o, bool each) {
  const Array &x = in[0], &labels = in[1];
  const i64 classes = x.shape[class_axis(x)];
  std::vector<SampleLoss> losses(labels.v.size());
  for (i64 e = 0; e < i64(labels.v.size()); ++e) {
    const i64 label = i64(labels.v[size_t(e)]);
    if (label == o.ignore_index) continue;
    const std::vector<double> row = row_of(x, e, labels.shape);
    const auto w = [&](i64 c) { return in.size() > 2 ? in[2].v[size_t(c)] : 1.0; };
    const LogSum l = log_sum_exp(row);
    double all = 0;
    for (i64 c = 0; c < classes; ++c) all += w(c) * (l.value - row[size_t(c)]);
    const double picked = w(label) * (l.value - row[size_t(label)]);
    losses[size_t(e)] = {
        (1 - o.label_smoothing) * picked + o.label_smoothing / double(classes) * all,
        picked + all / double(classes) + 2 * (std::fabs(l.value) + std::fabs(l.largest)), w(label)};
  }
  const double terms = kTermsOfFormula + double(classes);
  return each ? each_of(losses, labels.shape, terms) : mean_of(losses, terms);
}

// in: logits, probabilities, and class weights.
Array probability_oracle(const std::vector<Array>& in, double smoothing, bool each) {
  const Array& x = in[0];
  const i64 classes = x.shape[class_axis(x)], samples = count(x.shape) / classes;
  Shape labels = x.shape;
  labels.erase(class_axis(x));
  std::vector<SampleLoss> losses(size_t(samples), {0, 0, 1});
  for (i64 e = 0; e < samples; ++e) {
    const std::vector<double> row = row_of(x, e, labels), p = row_of(in[1], e, labels);
    const LogSum l = log_sum_exp(row);
    for (size_t c = 0; c < row.size(); ++c) {
      const double w = in.size() > 2 ? in[2].v[c] : 1;
      const double t = w * ((1 - smoothing) * p[c] + smoothing / double(classes));
      losses[size_t(e)].value += t * (l.value - row[c]);
      losses[size_t(e)].magnitude +=
          t * (std::fabs(l.value) + std::fabs(l.largest) + std::fabs(row[c]));
    }
  }
  const double terms = kTermsOfFormula + double(count(x.shape));
  return each ? each_of(losses, labels, terms) : mean_of(losses, terms);
}
void add_label_samples(OpCase& c) {
  struct Case {
    const char* label;
    Shape logits, labels;
    CrossEntropyOptions options;
    const char* torch;
    bool weights = false;
  };
  const Case cases[] = {
      {"", {4, 3}, {4}, {}, "F.cross_entropy(a, b)"},
      {"", {5}, {}, {}, ""},
      {"", {2, 3, 4}, {2, 4}, {}, "F.cross_entropy(a, b)"},
      {"ignore 1", {5, 3}, {5}, {.ignore_index = 1}, "F.cross_entropy(a, b, ignore_index=1)"},
      {"smoothing",
       {4, 3},
       {4},
       {.label_smoothing = 0.25},
       "F.cross_entropy(a, b, label_smoothing=0.25)"},
      {"both", {2, 3, 4}, {2, 4}, {.ignore_index = 0, .label_smoothing = 0.5}, ""},
      {"", {6, 257}, {6}, {}, ""},
      {"smoothing", {3, 33}, {3}, {.label_smoothing = 0.1}, ""},
      {"", {1, 2}, {1}, {}, ""},
      {"weights", {5, 3}, {5}, {}, "F.cross_entropy(a, b, weight=c)", true},
      {"weights, all",
       {2, 3, 5},
       {2, 5},
       {.ignore_index = 2, .label_smoothing = 0.2},
       "F.cross_entropy(a, b, weight=c, ignore_index=2, label_smoothing=0.2)",
       true},
      {"weights", {7, 31}, {7}, {.label_smoothing = 0.1}, "", true}};
  for (const bool each : {false, true})
    for (const Case& k : cases) {
      const i64 classes = k.logits[k.logits.ndim() == 1 ? 0 : 1];
      std::vector<Input> inputs{{k.logits, -5, 5}, index_input(k.labels, classes)};
      if (k.weights) inputs.push_back(class_weights(classes));
      c.samples.push_back({str(k.label, each ? " unreduced" : ""), inputs,
                           [o = k.options, each](std::span<const Tensor> in) {
                             CrossEntropyOptions options = o;
                             if (in.size() > 2) options.weight = in[2];
                             if (each) return cross_entropy(in[0], in[1], unreduced, options);
                             return cross_entropy(in[0], in[1], options).mean();
                           },
                           [o = k.options, each](const std::vector<Array>& in) {
                             return cross_entropy_oracle(in, o, each);
                           }});
      c.samples.back().torch = each ? without_reduction(k.torch) : k.torch;
    }
}

void add_probability_samples(OpCase& c) {
  struct Case {
    Shape shape;
    double smoothing;
    bool weights;
    const char* torch;
  };
  const Case cases[] = {{{4, 3}, 0, false, "F.cross_entropy(a, b)"},
                        {{2, 3, 4}, 0.25, false, "F.cross_entropy(a, b, label_smoothing=0.25)"},
                        {{5, 3}, 0.1, true, "F.cross_entropy(a, b, weight=c, label_smoothing=0.1)"},
                        {{5}, 0, false, ""},
                        {{7, 33}, 0, true, ""}};
  for (const bool each : {false, true})
    for (const Case& k : cases) {
      std::vector<Input> inputs{{k.shape, -5, 5}, {k.shape, 0.05, 1}};
      if (k.weights) inputs.push_back(class_weights(k.shape[k.shape.ndim() == 1 ? 0 : 1]));
      c.samples.push_back({each ? "probabilities, unreduced" : "probabilities", inputs,
                           [e = k.smoothing, each](std::span<const Tensor> in) {
                             CrossEntropyOptions o{.label_smoothing = e};
                             if (in.size() > 2) o.weight = in[2];
                             if (each) return cross_entropy(in[0], in[1], unreduced, o);
                             return cross_entropy(in[0], in[1], o).mean();
                           },
                           [e = k.smoothing, each](const std::vector<Array>& in) {
                             return probability_oracle(in, e, each);
                           }});
      c.samples.back().torch = each ? without_reduction(k.torch) : k.torch;
    }
}

void add_cross_entropy(std::vector<OpCase>& rows) {
  OpCase c{"cross_entropy",
           {"cross_entropy_forward", "cross_entropy_backward"},
           kFloats,
           ResultType::loss};
  c.cancels = true;  // softmax(x) - target
  add_label_samples(c);
  add_probability_samples(c);
  const auto call = [](const Shape& x, const Shape& y, DType t, CrossEntropyOptions o, double label,
                       i64 weights = 0) {
    return [=](Device d) {
      CrossEntropyOptions options = o;
      if (weights > 0) options.weight = ones({weights}, {.device = d});
      (void)cross_entropy(ones(x, {.device = d}), full(y, label, {.dtype = t, .device = d}),
                          options)
          .sum.item();
    };
  };
  const std::string tag = "[cross_entropy] ";
  c.errors = {
      undefined_operand("cross_entropy",
                        [](const Tensor& a, const Tensor& b) { (void)cross_entropy(a, b); }),
      error_input<ShapeError>("shapes", tag + "labels must have the shape of the logits without",
                              call({2, 3}, {3}, DType::i64, {}, 0)),
      error_input<DtypeError>("labels", tag + "labels must be i64, got f32",
                              call({2, 3}, {2}, f32, {}, 0)),
      error_input<UsageError>("smoothing", tag + "label_smoothing must be in [0, 1], got 2",
                              call({2, 3}, {2}, DType::i64, {.label_smoothing = 2}, 0)),
      error_input<UsageError>("smoothing of probabilities",
                              tag + "label_smoothing must be in [0, 1], got -1",
                              call({2, 3}, {2, 3}, f32, {.label_smoothing = -1}, 0)),
      error_input<ShapeError>("weights", tag + "weight must be [3], one a class, got [2]",
                              call({2, 3}, {2}, DType::i64, {}, 0, 2)),
      error_input<ShapeError>("weights of probabilities",
                              tag + "weight must be [3], one a class, got [4]",
                              call({2, 3}, {2, 3}, f32, {}, 0, 4)),
      error_input<UsageError>("ignored probabilities", tag + "ignore_index 1 picks labels",
                              call({2, 3}, {2, 3}, f32, {.ignore_index = 1}, 0)),
      error_input<IndexError>("label", "label 3", call({2, 3}, {2}, DType::i64, {}, 3))};
  rows.push_back(std::move(c));
}

// --- negative log-likelihood ---

// in: log-probabilities, labels, and class weights.
Array nll_oracle(const std::vector<Array>& in, i64 ignore_index, bool each) {
  const Array& labels = in[1];
  std::vector<SampleLoss> losses(labels.v.size());
  for (i64 e = 0; e < i64(labels.v.size()); ++e) {
    const i64 label = i64(labels.v[size_t(e)]);
    if (label == ignore_index) continue;
    const double w = in.size() > 2 ? in[2].v[size_t(label)] : 1;
    const double x = w * row_of(in[0], e, labels.shape)[size_t(label)];
    losses[size_t(e)] = {-x, std::fabs(x), w};
  }
  if (each) return each_of(losses, labels.shape, kTermsOfFormula);
  Array r = mean_of(losses, 0);
  r.terms = kTermsOfFormula + 2;
  return r;
}

void add_nll(std::vector<OpCase>& rows) {
  OpCase c{"nll_loss", {"nll_forward", "nll_backward"}, kFloats, ResultType::loss};
  struct Case {
    Shape x, labels;
    i64 ignore_index;
    bool weights;
    const char* torch;
  };
  const Case cases[] = {{{5, 3}, {5}, -100, false, "F.nll_loss(a, b)"},
                        {{2, 3, 4}, {2, 4}, 1, true, "F.nll_loss(a, b, weight=c, ignore_index=1)"},
                        {{5}, {}, -100, false, ""},
                        {{7, 3}, {7}, 0, false, "F.nll_loss(a, b, ignore_index=0)"},
                        {{5, 3}, {5}, -100, true, "F.nll_loss(a, b, weight=c)"},
                        {{2, 3, 3, 2}, {2, 3, 2}, 2, false, ""},
                        {{31, 257}, {31}, -100, true, ""},
                        {{1, 1}, {1}, -100, false, ""},
                        {{0, 3}, {0}, -100, false, ""},
                        {{3, 4, 0}, {3, 0}, -100, true, ""}};
  for (const bool each : {false, true})
    for (const Case& k : cases) {
      const i64 classes = k.x[k.x.ndim() == 1 ? 0 : 1];
      std::vector<Input> inputs{{k.x, -5, 0}, index_input(k.labels, classes)};
      if (k.weights) inputs.push_back(class_weights(classes));
      c.samples.push_back({str("ignore ", k.ignore_index, each ? ", unreduced" : ""), inputs,
                           [ignore = k.ignore_index, each](std::span<const Tensor> in) {
                             NllOptions o{.ignore_index = ignore};
                             if (in.size() > 2) o.weight = in[2];
                             if (each) return nll_loss(in[0], in[1], unreduced, o);
                             return nll_loss(in[0], in[1], o).mean();
                           },
                           [ignore = k.ignore_index, each](const std::vector<Array>& in) {
                             return nll_oracle(in, ignore, each);
                           }});
      c.samples.back().torch = each ? without_reduction(k.torch) : k.torch;
    }
  const auto call = [](const Shape& x, const Shape& y, DType t, double label, i64 weights) {
    return [=](Device d) {
      NllOptions o;
      if (weights) o.weight = ones({weights}, {.device = d});
      (void)nll_loss(ones(x, {.device = d}), full(y, label, {.dtype = t, .device = d}), o)
          .sum.item();
    };
  };
  const std::string tag = "[nll_loss] ";
  c.errors = {
      undefined_operand("nll_loss", [](const Tensor& a, const Tensor& b) { (void)nll_loss(a, b); }),
      error_input<ShapeError>("shapes", tag + "labels must have the shape of the log_probs",
                              call({2, 3}, {3}, DType::i64, 0, 0)),
      error_input<ShapeError>("rank", tag + "log_probs must be [N, C]",
                              call({}, {}, DType::i64, 0, 0)),
      error_input<DtypeError>("labels", tag + "labels must be i64, got f32",
                              call({2, 3}, {2}, f32, 0, 0)),
      error_input<ShapeError>("weights", tag + "weight must be [3], one a class, got [4]",
                              call({2, 3}, {2}, DType::i64, 0, 4)),
      error_input<IndexError>("label", tag + "label -1 at sample ",
                              call({2, 3}, {2}, DType::i64, -1, 0))};
  rows.push_back(std::move(c));
}

// --- squared error ---

void add_mse(std::vector<OpCase>& rows) {
  OpCase c{"mse_loss", {"mse_forward", "mse_backward"}, kFloats, ResultType::loss};
  for (const Shape& s : {Shape{3, 5}, Shape{2, 3, 4}, Shape{}, Shape{1}, Shape{3, 257}}) {
    c.samples.push_back({"",
                         {{s}, {s}},
                         [](std::span<const Tensor> in) { return mse_loss(in[0], in[1]).mean(); },
                         [](const std::vector<Array>& in) {
                           double sum = 0;
                           const double n = double(in[0].v.size());
                           for (size_t i = 0; i < in[0].v.size(); ++i)
                             sum += (in[0].v[i] - in[1].v[i]) * (in[0].v[i] - in[1].v[i]);
                           return Array{{}, {sum / n}, kTermsOfFormula + n, {sum / n}};
                         }});
    if (s.ndim() > 1) c.samples.back().torch = "F.mse_loss(a, b)";
  }
  for (const Shape& s : {Shape{3, 5}, Shape{}, Shape{0, 2}, Shape{3, 257}}) {
    c.samples.push_back(
        {"unreduced",
         {{s}, {s}},
         [](std::span<const Tensor> in) { return mse_loss(in[0], in[1], unreduced); },
         [](const std::vector<Array>& in) {
           Array r{in[0].shape, {}, kTermsOfFormula};
           for (size_t i = 0; i < in[0].v.size(); ++i) {
             const double a = in[0].v[i], b = in[1].v[i], d = a - b;
             r.v.push_back(d * d);
             r.magnitude.push_back(std::fabs(d) * (std::fabs(a) + std::fabs(b)));
           }
           return r;
         }});
    if (s.ndim() > 1) c.samples.back().torch = "F.mse_loss(a, b, reduction='none')";
  }
  const Apply call = [](const Tensor& a, const Tensor& b) { (void)mse_loss(a, b); };
  c.errors = {undefined_operand("mse_loss", call), two_devices("mse_loss", call),
              error_input<ShapeError>(
                  "shapes", "[mse_loss] input and target must have one shape", [](Device d) {
                    (void)mse_loss(ones({2, 1}, {.device = d}), ones({2}, {.device = d}));
                  })};
  rows.push_back(std::move(c));
}

void add_loss_cases(std::vector<OpCase>& rows) {
  add_cross_entropy(rows);
  add_nll(rows);
  add_mse(rows);
}

const CaseFile file{add_loss_cases};

}  // namespace
}  // namespace wt_test
