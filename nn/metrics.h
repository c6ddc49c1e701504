// Metrics: what is counted over the batches of an evaluation. update() queues work on the device of
// its operands and never waits; reading waits once.
//
//   metrics::Accuracy accuracy;
//   metrics::ConfusionMatrix matrix(10);
//   const auto result = evaluate(net, test, accuracy, matrix);        // nn/evaluate.h
//   std::cout << matrix.report({.target_names = names});
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "warptape/nn/classification_report.h"
#include "warptape/nn/meters.h"

namespace wt::metrics {

class WT_API Metric {
 public:
  explicit Metric(std::string name);
  virtual ~Metric() = default;
  const std::string& name() const { return name_; }
  // Counts one batch: what the model gave, and what was wanted. Records nothing.
  void update(const Tensor& output, const Tensor& target, Frame at = Frame::here());
  // NaN when nothing was counted. Waits for the device.
  virtual double value() const = 0;
  virtual void reset() = 0;
  // What was counted, as numbers that add up over parts of the data, and a metric made of such a
  // sum, to be read or reset: ranks that evaluate a part each share theirs so (dist/metrics.h).
  // Reading waits for the device and throws what value() throws. NotAvailable for a metric that
  // does not say them.
  virtual std::vector<double> sums() const;
  virtual void set_sums(const std::vector<double>& sums);

 protected:
  Metric(const Metric&) = default;
  Metric& operator=(const Metric&) = default;
  virtual void add(const Tensor& output, const Tensor& target) = 0;

 private:
  std::string name_;
};

namespace detail {
// The least and the largest label, on the device, for an error when somebody reads.
class LabelRange {
 public:
  void add(const Tensor& labels);
  // Throws IndexError unless all are in [0, classes).
  void check(const char* metric, const char* what, i64 classes) const;
  void reset() { low_ = high_ = Tensor(); }

 private:
  Tensor low_, high_;
};
}  // namespace detail

// Outputs are logits or probabilities [B, classes, ...] or predicted classes, integers of the
// target's shape; targets are integers [B, ...]. Those equal to ignore_index do not count.
// update() throws ShapeError and DtypeError, reading throws IndexError for labels outside the
// classes.
struct AccuracyOptions {
  i64 ignore_index = -100;
};

// The part of the samples whose largest output is that of the target; of equal ones the first is
// taken.
class WT_API Accuracy : public Metric {
 public:
  explicit Accuracy(const AccuracyOptions& o = {});
  double value() const override;
  void reset() override;
  std::vector<double> sums() const override;
  void set_sums(const std::vector<double>& sums) override;

 protected:
  void add(const Tensor& output, const Tensor& target) override;

 private:
  AccuracyOptions o_;
  i64 classes_ = 0;  // 0: outputs were predicted classes
  Tensor right_, count_;
  detail::LabelRange labels_;
};

// The part of the samples whose target is among the k largest outputs, those of equal ones that
// come first. A target whose output is NaN is not.
class WT_API TopK : public Metric {
 public:
  // Named "top5". Throws UsageError unless k is at least 1; update() unless there are k classes.
  explicit TopK(i64 k, const AccuracyOptions& o = {});
  double value() const override;
  void reset() override;
  std::vector<double> sums() const override;
  void set_sums(const std::vector<double>& sums) override;

 protected:
  void add(const Tensor& output, const Tensor& target) override;

 private:
  i64 k_;
  AccuracyOptions o_;
  i64 classes_ = 0;
  Tensor right_, count_;
  detail::LabelRange labels_;
};

// How many samples of class i were taken for class k.
class WT_API ConfusionMatrix : public Metric {
 public:
  // Throws UsageError unless there is at least one class.
  explicit ConfusionMatrix(i64 classes, const AccuracyOptions& o = {});
  i64 classes() const { return classes_; }
  // i64 [true class, predicted class] on the cpu. Waits. Throws IndexError for labels and
  // predictions outside the classes.
  Tensor counts() const;
  double value() const override;  // the accuracy
  // All classes, or those of o.labels.
  ClassificationReport report(const ReportOptions& o = {}) const;
  // As a table, a row for each true class.
  std::string text(const std::vector<std::string>& names = {}) const;
  void reset() override;
  std::vector<double> sums() const override;
  void set_sums(const std::vector<double>& sums) override;

 protected:
  void add(const Tensor& output, const Tensor& target) override;

 private:
  i64 classes_;
  AccuracyOptions o_;
  Tensor counts_;
  detail::LabelRange labels_, predicted_;
};

// The mean of a loss: metrics::MeanLoss("loss", [](const Tensor& out, const Tensor& y) { return
// cross_entropy(out, y); }).
class WT_API MeanLoss : public Metric {
 public:
  using Function = std::function<Loss(const Tensor& output, const Tensor& target)>;
  MeanLoss(std::string name, Function loss);
  double value() const override;
  void reset() override;
  std::vector<double> sums() const override;
  void set_sums(const std::vector<double>& sums) override;

 protected:
  void add(const Tensor& output, const Tensor& target) override;

 private:
  Function loss_;
  MeanMeter mean_;
};

// By name: "accuracy", "top5" with any number, "loss" (cross entropy), "mse". Throws UsageError
// with the near name.
WT_API std::unique_ptr<Metric> make_metric(std::string_view name);

}  // namespace wt::metrics
