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

// The base of metrics: a number that is counted over batches. Yours overrides add(), value(),
// reset() and, to be shared between ranks, sums() and set_sums().
class WT_API Metric {
 public:
  // `name` is what results and logs call it.
  explicit Metric(std::string name);
  virtual ~Metric() = default;
  // What results and logs call it: "accuracy", "top5".
  const std::string& name() const { return name_; }
  // Counts one batch: what the model gave, and what was wanted. Records no gradients.
  void update(const Tensor& output, const Tensor& target, Frame at = Frame::here());
  // The number, over all batches so far; NaN when nothing was counted. Waits for the device.
  virtual double value() const = 0;
  // Nothing is counted any more.
  virtual void reset() = 0;
  // What was counted, as numbers that add up over parts of the data: ranks that evaluate a part
  // each share theirs so (dist/metrics.h). Waits for the device and throws what value() throws, and
  // NotAvailable for a metric that does not say them.
  virtual std::vector<double> sums() const;
  // Makes the metric that of a sum of sums(), to be read or reset. Throws UsageError for another
  // number of them, NotAvailable for a metric that does not say them.
  virtual void set_sums(const std::vector<double>& sums);

 protected:
  Metric(const Metric&) = default;
  Metric& operator=(const Metric&) = default;
  // Counts a batch, for update(): under NoGrad, with the line of the call known.
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

// Which targets Accuracy, TopK and ConfusionMatrix pass over. Their outputs are logits or
// probabilities [B, classes, ...] or predicted classes, integers of the target's shape; targets are
// integers [B, ...]. update() throws ShapeError and DtypeError, reading throws IndexError for
// labels outside the classes.
struct AccuracyOptions {
  i64 ignore_index = -100;  // targets that are equal to it do not count
};

// The part of the samples whose largest output is that of the target; of equal ones the first is
// taken.
class WT_API Accuracy : public Metric {
 public:
  // Named "accuracy".
  explicit Accuracy(const AccuracyOptions& o = {});
  // In [0, 1]; NaN when nothing was counted. Throws IndexError for labels outside the classes.
  double value() const override;
  // Nothing is counted any more, and the next outputs decide on the number of classes.
  void reset() override;
  // {right, counted}. Throws as value().
  std::vector<double> sums() const override;
  // Takes {right, counted}. Throws UsageError for another number of sums.
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
  // Named "top5" for a k of 5. Throws UsageError unless k is at least 1. update() throws it unless
  // there are k classes, and DtypeError for outputs that are predicted classes.
  explicit TopK(i64 k, const AccuracyOptions& o = {});
  // In [0, 1]; NaN when nothing was counted. Throws IndexError for labels outside the classes.
  double value() const override;
  // Nothing is counted any more, and the next outputs decide on the number of classes.
  void reset() override;
  // {right, counted}. Throws as value().
  std::vector<double> sums() const override;
  // Takes {right, counted}. Throws UsageError for another number of sums.
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

// Counts of how many samples of class i were taken for class k.
class WT_API ConfusionMatrix : public Metric {
 public:
  // Named "confusion_matrix". Throws UsageError unless there is at least one class; update() throws
  // ShapeError for outputs of another number of classes.
  explicit ConfusionMatrix(i64 classes, const AccuracyOptions& o = {});
  // The number of rows and of columns.
  i64 classes() const { return classes_; }
  // The matrix: i64 [true class, predicted class] on the cpu. Waits for the device. Throws
  // IndexError for labels and predictions outside the classes.
  Tensor counts() const;
  // The accuracy: the part of the samples on the diagonal; NaN without samples. Throws as counts().
  double value() const override;
  // Precision, recall and F1 of all classes, or of those of o.labels. Throws as counts(), and
  // UsageError without samples and for labels or names that do not fit.
  ClassificationReport report(const ReportOptions& o = {}) const;
  // The matrix as a table, a row for each true class, headed by `names` or by numbers. Throws as
  // counts(), and UsageError for another number of names than classes.
  std::string text(const std::vector<std::string>& names = {}) const;
  // Every count is 0 again.
  void reset() override;
  // The matrix row by row. Throws as counts().
  std::vector<double> sums() const override;
  // Takes the matrix row by row. Throws UsageError for another number of sums.
  void set_sums(const std::vector<double>& sums) override;

 protected:
  void add(const Tensor& output, const Tensor& target) override;

 private:
  i64 classes_;
  AccuracyOptions o_;
  Tensor counts_;
  detail::LabelRange labels_, predicted_;
};

// The mean of a loss over all samples, each batch by its weight:
//
//   metrics::MeanLoss loss("loss", [](const Tensor& out, const Tensor& y) {
//     return cross_entropy(out, y);
//   });
class WT_API MeanLoss : public Metric {
 public:
  // The loss of one batch, of what the model gave and what was wanted.
  using Function = std::function<Loss(const Tensor& output, const Tensor& target)>;
  // What it is called, and what it counts; update() throws what `loss` throws.
  MeanLoss(std::string name, Function loss);
  // NaN when nothing was counted. Waits for the device.
  double value() const override;
  // Nothing is counted any more.
  void reset() override;
  // {sum, weight} of the losses.
  std::vector<double> sums() const override;
  // Takes {sum, weight}. Throws UsageError for another number of sums.
  void set_sums(const std::vector<double>& sums) override;

 protected:
  void add(const Tensor& output, const Tensor& target) override;

 private:
  Function loss_;
  MeanMeter mean_;
};

// Makes a metric by name: "accuracy", "top5" with any number, "loss" (cross entropy), "mse". Throws
// UsageError with the near name.
WT_API std::unique_ptr<Metric> make_metric(std::string_view name);

}  // namespace wt::metrics
