// Precision, recall and F1 of each class, in scikit-learn's numbers and layout.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/tensor.h"

namespace wt::metrics {

struct ReportOptions {
  std::vector<i64> labels{};                // which, in which order; empty: all that occur
  std::vector<std::string> target_names{};  // of the labels
  int digits = 2;
  double zero_division = 0;  // what 0 / 0 is; NaN: left out of the averages
};

struct WT_API ClassificationReport {
  struct Row {
    std::string name;
    double precision = 0, recall = 0, f1 = 0;
    i64 support = 0;  // samples that are of this class
  };
  std::vector<Row> classes;
  // The labels cover all that occur: the micro average is the accuracy, and shown as it.
  bool covers_all = true;
  Row micro{}, macro{}, weighted{};
  int digits = 2;
  bool any_right = true;

  double accuracy() const { return micro.f1; }
  // What sklearn.metrics.classification_report(y_true, y_pred) returns.
  std::string text() const;
};
WT_API std::ostream& operator<<(std::ostream& out, const ClassificationReport& r);

// Throws ShapeError for unequal lengths, UsageError for no sample, a label that is listed twice or
// names that do not fit the labels.
WT_API ClassificationReport classification_report(const std::vector<i64>& y_true,
                                                  const std::vector<i64>& y_pred,
                                                  const ReportOptions& o = {});
// Of integer tensors of equal shape; waits for their device. DtypeError for floats.
WT_API ClassificationReport classification_report(const Tensor& y_true, const Tensor& y_pred,
                                                  const ReportOptions& o = {});
// Of counts: counts[i * n + k] samples of class i were taken for class k.
WT_API ClassificationReport report_of_counts(const std::vector<i64>& counts,
                                             const ReportOptions& o = {});

}  // namespace wt::metrics
