// Rows of the losses that want a margin. What comes out of a loss is its mean.
#include "warptape/autograd/ops/margin_loss.h"
#include "warptape/tests/op_cases/cases/loss_case.h"

namespace wt_test {
namespace {

// Targets of 1 and -1.
Input signs(const Shape& shape) {
  Input t{shape, -1, 1, Role::index};
  for (i64 i = 0; i < count(shape); ++i) t.values.push_back(i % 3 == 1 ? -1 : 1);
  t.wants_grad = false;
  return t;
}

using Formula = std::function<LossPart(const std::vector<Array>& in, size_t e)>;
Oracle elementwise(Formula f) {
  return [f](const std::vector<Array>& in) {
    Array r{in[0].shape, {}, kTermsOfFormula};
    for (size_t e = 0; e < in[0].v.size(); ++e) {
      const LossPart p = f(in, e);
      r.v.push_back(p.value), r.magnitude.push_back(p.magnitude);
    }
    return r;
  };
}

template <class F>
void add_pair_errors(OpCase& c, const F& call) {
  const Apply both = [call](const Tensor& a, const Tensor& b) { call(a, b); };
  const std::string tag = "[" + c.name + "] ";
  c.errors = {undefined_operand(c.name, both), two_devices(c.name, both),
              error_input<ShapeError>("shapes",
                                      tag + "input and target must have one shape: [2, 1] and [2]",
                                      [call](Device d) {
                                        call(ones({2, 1}, {.device = d}), ones({2}, {.device = d}));
                                      }),
              error_input<DtypeError>("dtype", tag + "expected a floating dtype", [call](Device d) {
                const Tensor x = ones({2}, {.dtype = DType::i64, .device = d});
                call(x, x);
              })};
}

void add_margin_ranking(std::vector<OpCase>& rows) {
  OpCase c{"margin_ranking_loss", {}, kFloats, ResultType::loss};
  const auto add = [&](const Shape& shape, double margin, const std::string& torch) {
    const MarginRankingOptions o{.margin = margin};
    add_loss_way(c, {str("margin ", margin),
                     torch,
                     {{shape}, {shape}, {shape, 0.5, 1.5}},
                     [o](std::span<const Tensor> in, bool each) {
                       if (each) return margin_ranking_loss(in[0], in[1], in[2], unreduced, o);
                       return margin_ranking_loss(in[0], in[1], in[2], o).mean();
                     },
                     elementwise([margin](const std::vector<Array>& in, size_t e) {
                       const double a = in[0].v[e], b = in[1].v[e], t = in[2].v[e];
                       return LossPart{std::fmax(0, -t * (a - b) + margin),
                                       std::fabs(t) * (std::fabs(a) + std::fabs(b)) + margin};
                     })});
  };
  add({3, 5}, 0, "F.margin_ranking_loss(a, b, c)");
  add({2, 3, 4}, 1.5, "F.margin_ranking_loss(a, b, c, margin=1.5)");
  add({}, 5, "");
  add({0, 3}, 0, "");
  add({3, 257}, 0.25, "");
  const auto call = [](const Shape& b, const Shape& t, DType dtype) {
    return [=](Device d) {
      const Tensor x = ones({2}, {.dtype = dtype, .device = d});
      (void)margin_ranking_loss(x, ones(b, {.dtype = dtype, .device = d}),
                                ones(t, {.dtype = dtype, .device = d}));
    };
  };
  const std::string tag = "[margin_ranking_loss] ";
  c.errors = {
      undefined_operand(
          "margin_ranking_loss",
          [](const Tensor& a, const Tensor& b) { (void)margin_ranking_loss(a, b, b); }),
      error_input<ShapeError>("pair", tag + "a and b must have one shape: [2] and [1]",
                              call({1}, {2}, f32)),
      error_input<ShapeError>("target", tag + "a and target must have one shape: [2] and []",
                              call({2}, {}, f32)),
      error_input<DtypeError>("dtype", tag + "expected a floating dtype",
                              call({2}, {2}, DType::i64))};
  rows.push_back(std::move(c));
}

void add_hinge_embedding(std::vector<OpCase>& rows) {
  OpCase c{"hinge_embedding_loss", {}, kFloats, ResultType::loss};
  const auto add = [&](const Shape& shape, double margin, const std::string& torch) {
    const HingeEmbeddingOptions o{.margin = margin};
    add_loss_way(c, {str("margin ", margin),
                     torch,
                     {{shape, -2, 2, Role::value, {margin}}, signs(shape)},
                     [o](std::span<const Tensor> in, bool each) {
                       if (each) return hinge_embedding_loss(in[0], in[1], unreduced, o);
                       return hinge_embedding_loss(in[0], in[1], o).mean();
                     },
                     elementwise([margin](const std::vector<Array>& in, size_t e) {
                       const double x = in[0].v[e], t = in[1].v[e];
                       return LossPart{(t != -1 ? x : 0) + (t != 1 ? std::fmax(0, margin - x) : 0),
                                       std::fabs(x) + margin};
                     })});
  };
  add({3, 5}, 1, "F.hinge_embedding_loss(a, b)");
  add({2, 3, 4}, 0.5, "F.hinge_embedding_loss(a, b, margin=0.5)");
  add({}, 1, "");
  add({0, 3}, 1, "");
  add({3, 257}, 1, "");
  add_pair_errors(c, [](const Tensor& a, const Tensor& b) { (void)hinge_embedding_loss(a, b); });
  rows.push_back(std::move(c));
}

void add_soft_margin(std::vector<OpCase>& rows) {
  OpCase c{"soft_margin_loss", {}, kFloats, ResultType::loss};
  c.cancels = true;
  const auto add = [&](const Shape& shape, double width, const std::string& torch) {
    add_loss_way(c, {str("width ", width),
                     "",
                     {{shape, -width, width}, {shape, -1.5, 1.5}},
                     [](std::span<const Tensor> in, bool each) {
                       if (each) return soft_margin_loss(in[0], in[1], unreduced);
                       return soft_margin_loss(in[0], in[1]).mean();
                     },
                     elementwise([](const std::vector<Array>& in, size_t e) {
                       const double z = -in[1].v[e] * in[0].v[e];
                       const double loss = std::fmax(z, 0) + std::log1p(std::exp(-std::fabs(z)));
                       return LossPart{loss, loss + std::fabs(z)};
                     })});
    if (torch.empty()) return;
    c.samples.back().torch = torch;
    c.samples[c.samples.size() - 2].torch = torch + ".mean()";
  };
  // Its own function has no gradient for the target.
  add({3, 5}, 3, "torch.log1p(torch.exp(-b * a))");
  add({2, 3, 4}, 2, "torch.log1p(torch.exp(-b * a))");
  add({}, 2, "");
  add({0, 3}, 2, "");
  add({3, 257}, 60, "");
  add_pair_errors(c, [](const Tensor& a, const Tensor& b) { (void)soft_margin_loss(a, b); });
  rows.push_back(std::move(c));
}

// --- classes ---

Array multi_margin_oracle(const std::vector<Array>& in, const MultiMarginOptions& o) {
  const Array& x = in[0];
  const i64 classes = x.shape[x.shape.ndim() - 1];
  Array r{in[1].shape, {}, kTermsOfFormula + double(classes)};
  for (size_t e = 0; e < in[1].v.size(); ++e) {
    const auto label = i64(in[1].v[e]);
    const auto at_class = [&](i64 c) { return x.v[e * size_t(classes) + size_t(c)]; };
    const double w = in.size() > 2 ? in[2].v[size_t(label)] : 1;
    double sum = 0, magnitude = 0;
    for (i64 c = 0; c < classes; ++c) {
      const double size = o.margin + std::fabs(at_class(c)) + std::fabs(at_class(label));
      const double h = std::fmax(0, o.margin - at_class(label) + at_class(c));
      magnitude += o.p == 2 ? (h + 1e-3) * size : size;
      if (c != label) sum += o.p == 2 ? h * h : h;
    }
    r.v.push_back(w * sum / double(classes));
    r.magnitude.push_back(w * magnitude / double(classes));
  }
  return r;
}

void add_multi_margin(std::vector<OpCase>& rows) {
  OpCase c{"multi_margin_loss", {}, kFloats, ResultType::loss};
  c.cancels = true;
  const auto add = [&](const Shape& shape, MultiMarginOptions o, bool weights,
                       const std::string& torch) {
    const i64 classes = shape[shape.ndim() - 1];
    Shape labels = shape;
    labels.erase(shape.ndim() - 1);
    std::vector<Input> inputs{{shape}, index_input(labels, classes)};
    if (weights) {
      inputs.push_back({{classes}, 0.25, 2});
      inputs.back().wants_grad = false;
    }
    LossWay way{str("p ", o.p, ", margin ", o.margin), torch, inputs,
                [o](std::span<const Tensor> in, bool each) {
                  MultiMarginOptions options = o;
                  if (in.size() > 2) options.weight = in[2];
                  if (each) return multi_margin_loss(in[0], in[1], unreduced, options);
                  return multi_margin_loss(in[0], in[1], options).mean();
                },
                [o](const std::vector<Array>& in) { return multi_margin_oracle(in, o); }};
    way.second_is_zero = o.p == 1;
    add_loss_way(c, way);
  };
  add({5, 3}, {}, false, "F.multi_margin_loss(a, b)");
  add({4, 5}, {.p = 2, .margin = 0.5}, false, "F.multi_margin_loss(a, b, p=2, margin=0.5)");
  add({4, 3}, {.p = 2}, true, "F.multi_margin_loss(a, b, p=2, weight=c)");
  add({5}, {.p = 2, .margin = 5}, false, "F.multi_margin_loss(a, b, p=2, margin=5.0)");
  add({7, 33}, {}, true, "");
  add({0, 3}, {}, false, "");
  const auto call = [](const Shape& x, const Shape& y, DType t, MultiMarginOptions o, double label,
                       i64 weights = 0) {
    return [=](Device d) {
      MultiMarginOptions options = o;
      if (weights > 0) options.weight = ones({weights}, {.device = d});
      (void)multi_margin_loss(ones(x, {.device = d}), full(y, label, {.dtype = t, .device = d}),
                              options)
          .sum.item();
    };
  };
  const std::string tag = "[multi_margin_loss] ";
  c.errors = {
      undefined_operand("multi_margin_loss",
                        [](const Tensor& a, const Tensor& b) { (void)multi_margin_loss(a, b); }),
      error_input<ShapeError>("rank", tag + "input must be [N, C] or [C], got [1, 2, 3]",
                              call({1, 2, 3}, {1, 3}, DType::i64, {}, 0)),
      error_input<ShapeError>("labels", tag + "labels must have the shape of the input without",
                              call({2, 3}, {3}, DType::i64, {}, 0)),
      error_input<DtypeError>("dtype of labels", tag + "labels must be i64, got f32",
                              call({2, 3}, {2}, f32, {}, 0)),
      error_input<UsageError>("p", tag + "p must be 1 or 2, got 3",
                              call({2, 3}, {2}, DType::i64, {.p = 3}, 0)),
      error_input<ShapeError>("weights", tag + "weight must be [3], one a class, got [2]",
                              call({2, 3}, {2}, DType::i64, {}, 0, 2)),
      error_input<IndexError>("label", "index 3", call({2, 3}, {2}, DType::i64, {}, 3))};
  rows.push_back(std::move(c));
}

void add_margin_loss_cases(std::vector<OpCase>& rows) {
  add_margin_ranking(rows);
  add_hinge_embedding(rows);
  add_soft_margin(rows);
  add_multi_margin(rows);
}

const CaseFile file{add_margin_loss_cases};

}  // namespace
}  // namespace wt_test
