// Metrics and meters: values, scikit-learn's report, and that nothing waits before it is read.
#include "warptape/nn/metrics.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/core/random.h"
#include "warptape/tests/reference/reader.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/variants.h"

using namespace wt;
using namespace wt::metrics;

namespace {

const double kNaN = std::nan("");

// A case of tests/reference/data/reports.txt.
struct Case {
  std::string name, text;
  std::vector<i64> truth, predicted;
  ReportOptions options;
  std::map<std::string, std::vector<double>> rows;
};

std::vector<Case> load_cases() {
  std::ifstream in(reference::reference_path("data/reports"));
  std::vector<Case> cases;
  bool text = false;
  for (std::string line; std::getline(in, line);) {
    if (text && line.starts_with("|")) {
      cases.back().text += (cases.back().text.empty() ? "" : "\n") + line.substr(1);
      continue;
    }
    std::istringstream words(line);
    std::string key, word;
    words >> key;
    if (key == "case") cases.emplace_back(), words >> cases.back().name;
    text = key == "text";
    const auto numbers = [&](std::vector<i64>& to) {
      for (i64 v; words >> v;) to.push_back(v);
    };
    if (key == "true") numbers(cases.back().truth);
    if (key == "pred") numbers(cases.back().predicted);
    if (key == "labels") numbers(cases.back().options.labels);
    if (key == "digits") words >> cases.back().options.digits;
    if (key == "zero_division") words >> word, cases.back().options.zero_division = std::stod(word);
    if (key == "names" && line.size() > 6) {
      std::istringstream names(line.substr(6));
      while (std::getline(names, word, '|')) cases.back().options.target_names.push_back(word);
    }
    if (key == "value") {
      words >> word;
      auto& row = cases.back().rows[word];
      for (std::string v; words >> v;) row.push_back(std::stod(v));
    }
  }
  return cases;
}

bool close(double a, double b) {
  return std::isnan(b) ? std::isnan(a) : std::abs(a - b) <= 1e-15 * std::max(1.0, std::abs(b));
}

void check_row(const ClassificationReport::Row& row, const std::vector<double>& want) {
  CAPTURE(row.name);
  REQUIRE(want.size() == 4);
  CHECK(close(row.precision, want[0]));
  CHECK(close(row.recall, want[1]));
  CHECK(close(row.f1, want[2]));
  CHECK(double(row.support) == want[3]);
}

}  // namespace

TEST_CASE("classification report: scikit-learn's numbers and its text, letter by letter") {
  const std::vector<Case> cases = load_cases();
  REQUIRE(cases.size() == 20);
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const ClassificationReport r = classification_report(c.truth, c.predicted, c.options);
    CHECK(r.text() == c.text);
    for (const auto& row : r.classes) {
      std::string name = row.name;
      std::replace(name.begin(), name.end(), ' ', '_');
      REQUIRE(c.rows.contains(name));
      check_row(row, c.rows.at(name));
    }
    CHECK(c.rows.size() == r.classes.size() + 3);
    check_row(r.macro, c.rows.at("macro_avg"));
    check_row(r.weighted, c.rows.at("weighted_avg"));
    if (r.covers_all)
      CHECK(close(r.accuracy(), c.rows.at("accuracy")[2]));
    else
      check_row(r.micro, c.rows.at("micro_avg"));
  }
}

TEST_CASE("classification report: of tensors, and of the counts of a confusion matrix") {
  for (const Case& c : load_cases()) {
    CAPTURE(c.name);
    CHECK(classification_report(tensor(c.truth), tensor(c.predicted), c.options).text() == c.text);
    i64 classes = 0;
    bool whole = true;
    for (const auto* list : {&c.truth, &c.predicted, &c.options.labels})
      for (i64 v : *list) whole &= v >= 0, classes = std::max(classes, v + 1);
    if (!whole) continue;
    ConfusionMatrix m(classes);
    m.update(tensor(c.predicted), tensor(c.truth));
    ReportOptions o = c.options;
    if (o.labels.empty()) {  // a matrix shows its empty classes, too
      for (i64 v = 0; v < classes; ++v)
        if (std::count(c.truth.begin(), c.truth.end(), v) +
            std::count(c.predicted.begin(), c.predicted.end(), v))
          o.labels.push_back(v);
    }
    CHECK(m.report(o).text() == c.text);
  }
}

TEST_CASE("classification report: what is refused") {
  const auto error = [](const std::vector<i64>& t, const std::vector<i64>& p,
                        const ReportOptions& o = {}) {
    return message_of([&] { classification_report(t, p, o); });
  };
  CHECK(mentions(error({1, 2}, {1}), "ShapeError: [classification_report] 2 true labels and 1"));
  CHECK(mentions(error({}, {}), "there is no sample"));
  CHECK(mentions(error({1}, {1}, {.target_names = {"a", "b"}}), "2 target_names for 1 labels"));
  CHECK(mentions(error({1}, {1}, {.labels = {1, 1}}), "label 1 is listed twice"));
  CHECK(mentions(error({1}, {1}, {.digits = -1}), "digits must be 0 to 30"));
  CHECK(mentions(message_of([] { classification_report(rand({2}), zeros({2})); }),
                 "DtypeError: [classification_report] labels must be integers"));
  CHECK(mentions(message_of([] { classification_report(arange(2), arange(3)); }), "ShapeError"));
  CHECK(mentions(message_of([] { (void)ConfusionMatrix(3).report(); }), "there is no sample"));
}

TEST_CASE("accuracy and top k: on every device, ties, NaN, ignored labels, batches of any size") {
  const LeakGuard leaks;
  for (const Device d : wt_test::operator_devices()) {
    CAPTURE(to_string(d));
    const Tensor logits = tensor({{1, 3, 2}, {5, 5, 1}, {0, 0, 0}, {2, 1, 9}}).to(DType::f32).to(d);
    const Tensor y = tensor({1, 1, 0, -100}).to(d);
    Accuracy accuracy;
    TopK top1(1), top2(2), top3(3);
    for (Metric* m : std::initializer_list<Metric*>{&accuracy, &top1, &top2, &top3}) {
      CHECK(std::isnan(m->value()));
      m->update(logits, y);
    }
    // Row 1 has two largest: the first one, class 0, is the prediction.
    CHECK(accuracy.value() == 2.0 / 3);
    CHECK(top1.value() == 2.0 / 3);
    CHECK(top2.value() == 1);
    CHECK(top3.value() == 1);
    accuracy.update(tensor({{0, 0, 1}}).to(DType::f32).to(d), tensor({0}).to(d));
    CHECK(accuracy.value() == 0.5);
    accuracy.update(zeros({0, 3}).to(d), zeros({0}, {.dtype = DType::i64}).to(d));
    CHECK(accuracy.value() == 0.5);
    accuracy.reset();
    CHECK(std::isnan(accuracy.value()));
    TopK nan2(2);
    nan2.update(tensor({{kNaN, 1, 2}, {1, kNaN, 0}, {kNaN, kNaN, 3}}).to(DType::f32).to(d),
                tensor({0, 0, 2}).to(d));
    CHECK(nan2.value() == 1.0 / 3);  // NaN is no rank, and larger than any number
  }
  CHECK(TopK(5).name() == "top5");
}

TEST_CASE("metrics: sums of parts give what the whole would have given") {
  manual_seed(4);
  const Tensor logits = rand({7, 3}), y = randint(0, 3, {7}, {.dtype = DType::i64});
  const auto loss = [](const Tensor& out, const Tensor& want) { return cross_entropy(out, want); };
  const auto make = [&] {
    std::vector<std::unique_ptr<Metric>> all;
    all.push_back(std::make_unique<Accuracy>());
    all.push_back(std::make_unique<TopK>(2));
    all.push_back(std::make_unique<ConfusionMatrix>(3));
    all.push_back(std::make_unique<MeanLoss>("loss", loss));
    return all;
  };
  for (const Device d : wt_test::operator_devices()) {
    CAPTURE(to_string(d));
    const auto whole = make(), first = make(), second = make(), third = make();  // one saw nothing
    for (size_t i = 0; i < whole.size(); ++i) {
      CAPTURE(whole[i]->name());
      whole[i]->update(logits.to(d), y.to(d));
      first[i]->update(logits.narrow(0, 0, 4).to(d), y.narrow(0, 0, 4).to(d));
      second[i]->update(logits.narrow(0, 4, 3).to(d), y.narrow(0, 4, 3).to(d));
      std::vector<double> sums = first[i]->sums();
      for (const auto& part : {second[i]->sums(), third[i]->sums()})
        for (size_t k = 0; k < sums.size(); ++k) sums[k] += part.at(k);
      third[i]->set_sums(sums);
      CHECK(third[i]->value() == Approx(whole[i]->value()).epsilon(1e-6));
      CHECK(third[i]->sums() == sums);
      CHECK_THROWS_AS(third[i]->set_sums({1}), UsageError);
      third[i]->reset();
      third[i]->update(logits.to(d), y.to(d));
      CHECK(third[i]->value() == whole[i]->value());
    }
  }
  struct Own : Metric {
    Own() : Metric("own") {}
    double value() const override { return 0; }
    void reset() override {}
    void add(const Tensor&, const Tensor&) override {}
  } own;
  CHECK(mentions(message_of([&] { own.set_sums({}); }), "[own] this metric does not say"));
}

TEST_CASE("accuracy and top k agree with a plain count on random outputs of more dimensions") {
  manual_seed(3);
  const Tensor logits = rand({6, 5, 4, 3}), y = randint(0, 5, {6, 4, 3}, {.dtype = DType::i64});
  const auto x = logits.to_vector<float>();
  const auto want = y.to_vector<i64>();
  double right[6] = {};
  for (size_t b = 0; b < 6; ++b)
    for (size_t p = 0; p < 12; ++p) {
      const auto at = [&](size_t c) { return x[(b * 5 + c) * 12 + p]; };
      const size_t label = size_t(want[b * 12 + p]);
      size_t before = 0;
      for (size_t c = 0; c < 5; ++c)
        before += at(c) > at(label) || (at(c) == at(label) && c < label);
      for (size_t k = before + 1; k <= 5; ++k) right[k] += 1;
    }
  Accuracy accuracy;
  accuracy.update(logits, y);
  CHECK(accuracy.value() == right[1] / 72);
  Accuracy classes;  // the model's classes instead of its outputs
  classes.update(logits.argmax(1), y);
  CHECK(classes.value() == right[1] / 72);
  for (i64 k = 1; k <= 5; ++k) {
    TopK top(k);
    top.update(logits, y);
    CHECK(top.value() == right[k] / 72);
  }
}

TEST_CASE("confusion matrix: counts over batches, on every device") {
  const LeakGuard leaks;
  for (const Device d : wt_test::operator_devices()) {
    ConfusionMatrix m(3);
    m.update(tensor({0, 2, 2, 1, 1}).to(d), tensor({0, 1, 2, -100, 1}).to(d));
    m.update(tensor({{9, 1, 1}}).to(DType::f32).to(d), tensor({2}).to(d));
    CHECK(m.counts().to_vector<i64>() == std::vector<i64>{1, 0, 0, 0, 1, 1, 1, 0, 1});
    CHECK(m.value() == 0.6);
    CHECK(m.text({"a", "bb", "c"}) ==
          "true \\ predicted  a  bb  c\n               a  1   0  0\n"
          "              bb  0   1  1\n               c  1   0  1\n");
    m.reset();
    CHECK(m.counts().to_vector<i64>() == std::vector<i64>(9));
    CHECK(std::isnan(m.value()));
  }
}

TEST_CASE("confusion matrix: exact for more samples than a block of rows holds") {
  const i64 n = 150'001;
  std::vector<i64> y(static_cast<size_t>(n)), p(y);
  std::vector<i64> want(16);
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = i64(i * 7 % 4), p[i] = i64(i * i % 4);
    ++want[size_t(y[i] * 4 + p[i])];
  }
  ConfusionMatrix m(4);
  m.update(tensor(p), tensor(y));
  CHECK(m.counts().to_vector<i64>() == want);
}

TEST_CASE("metrics: labels outside the classes are named when somebody reads") {
  const Tensor logits = rand({3, 4});
  Accuracy accuracy;
  accuracy.update(logits, tensor({0, 4, 1}));
  CHECK(mentions(message_of([&] { accuracy.value(); }),
                 "IndexError: [Accuracy] label 4 is outside [0, 4)"));
  TopK top(2);
  top.update(logits, tensor({0, -1, 1}));
  CHECK(mentions(message_of([&] { top.value(); }), "[TopK] label -1 is outside [0, 4)"));
  ConfusionMatrix m(4);
  m.update(tensor({0, 1, 7}), tensor({0, 1, 2}));
  CHECK(mentions(message_of([&] { m.value(); }), "prediction 7 is outside [0, 4)"));
  m.reset();
  m.update(logits, tensor({0, 1, 2}));
  CHECK(m.value() >= 0);
}

TEST_CASE("metrics: operands that do not fit") {
  Accuracy a;
  CHECK(mentions(message_of([&] {
                   a.update(rand({3, 4}), arange(2));
                 }),
                 "[Accuracy] outputs are [B, classes, ...]"));
  CHECK_THROWS_AS(a.update(rand({3, 4}), rand({3})), DtypeError);
  CHECK_THROWS_AS(a.update(arange(3), arange(4)), ShapeError);
  CHECK_THROWS_AS(a.update(rand({3}), arange(3)), ShapeError);
  a.update(rand({3, 4}), arange(3));
  CHECK_THROWS_AS(a.update(rand({3, 5}), arange(3)), ShapeError);
  CHECK(a.value() >= 0);  // the refused batches changed nothing
  CHECK_THROWS_AS(TopK(0), UsageError);
  CHECK_THROWS_AS(TopK(5).update(rand({3, 4}), arange(3)), UsageError);
  CHECK_THROWS_AS(TopK(1).update(arange(3), arange(3)), DtypeError);
  CHECK_THROWS_AS(ConfusionMatrix(0), UsageError);
  CHECK_THROWS_AS(ConfusionMatrix(3).update(rand({3, 4}), arange(3)), ShapeError);
  CHECK_THROWS_AS(ConfusionMatrix(3).text({"a"}), UsageError);
}

// A meta tensor has no values: whatever reads one throws.
TEST_CASE("metrics and meters: nothing is read before value()") {
  const Tensor logits = empty({4, 6}, {.device = Device::meta()});
  const Tensor y = empty({4}, {.dtype = DType::i64, .device = Device::meta()});
  for (const char* name : {"accuracy", "top3", "loss"}) {
    const auto m = make_metric(name);
    m->update(logits, y);
    m->update(logits, y);
    CHECK_THROWS_AS(m->value(), UsageError);
  }
  ConfusionMatrix matrix(6);
  matrix.update(logits, y);
  CHECK_THROWS_AS(matrix.counts(), UsageError);
  MeanMeter mean;
  EmaMeter ema;
  mean.add(cross_entropy(logits, y));
  mean.add(logits.sum(), 2);
  ema.add(logits.sum());
  ema.add(cross_entropy(logits, y));
  CHECK_THROWS_AS(mean.value(), UsageError);
  CHECK_THROWS_AS(ema.value(), UsageError);
}

TEST_CASE("meters: means by weight, averages corrected for their start") {
  const LeakGuard leaks;
  for (const Device d : wt_test::operator_devices()) {
    MeanMeter mean;
    CHECK(std::isnan(mean.value()));
    mean.add(tensor({2.0}).to(d));
    mean.add(tensor(5.0).to(d), 2);
    mean.add(0.0);
    CHECK(mean.value() == 3);
    CHECK(mean.weight() == 4);
    mean.add(Loss{tensor(4.0).to(d), 4});  // a sum of 4 over 4 samples
    CHECK(mean.value() == 2);
    mean.reset();
    CHECK(std::isnan(mean.value()));
    CHECK(mean.weight() == 0);
    EmaMeter ema(0.9);
    CHECK(std::isnan(ema.value()));
    ema.add(tensor(3.0).to(d));
    CHECK(std::abs(ema.value() - 3) < 1e-12);
    ema.add(1.0);
    CHECK(std::abs(ema.value() - (0.9 * 0.1 * 3 + 0.1) / (1 - 0.81)) < 1e-12);
  }
  CHECK_THROWS_AS(MeanMeter().add(rand({2})), ShapeError);
  CHECK_THROWS_AS(EmaMeter(1.0), UsageError);
  CHECK_THROWS_AS(EmaMeter().add(rand({2})), ShapeError);
}

TEST_CASE("meters: sums in f64, and no graph is kept alive") {
  MeanMeter mean;
  mean.add(tensor(1e8f));
  for (int i = 0; i < 100; ++i) mean.add(tensor(1.0f));  // f32 would lose them
  CHECK(mean.value() == (1e8 + 100) / 101);
  const Tensor w = tensor({1.0, 2.0}, {.requires_grad = true});
  const auto before = memory::live_objects();
  {
    MeanMeter m;
    EmaMeter e;
    {
      const Tensor loss = (w * w).sum();
      m.add(loss);
      e.add(loss);
    }
    CHECK(memory::live_objects().nodes == before.nodes);
    CHECK(m.value() == 5);
  }
}

TEST_CASE("metrics by name, the near name for what is none") {
  CHECK(make_metric("accuracy")->name() == "accuracy");
  CHECK(make_metric("top3")->name() == "top3");
  CHECK(make_metric("mse")->name() == "mse");
  CHECK(mentions(message_of([] { make_metric("acuracy"); }), "did you mean 'accuracy'?"));
  for (const char* name : {"top", "top0", "top-1", "top5x", ""})
    CHECK_THROWS_AS(make_metric(name), UsageError);
  const auto mse = make_metric("mse");
  mse->update(tensor({1.0, 3.0}), tensor({1.0, 1.0}));
  mse->update(tensor({4.0}), tensor({1.0}));
  CHECK(std::abs(mse->value() - 13.0 / 3) < 1e-12);
}
