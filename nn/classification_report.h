// Precision, recall and F1 of each class, in scikit-learn's numbers and layout.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/tensor.h"

namespace wt::metrics {

// Which classes a report has, by which names, and how it is printed.
struct ReportOptions {
  std::vector<i64> labels{};                // which, in which order; empty: all that occur
  std::vector<std::string> target_names{};  // of the labels, in their order; empty: their numbers
  int digits = 2;                           // behind the point, 0 to 30
  double zero_division = 0;                 // what 0 / 0 is; NaN: left out of the averages
};

// Precision, recall and F1 of each class and their averages. A stream prints text().
struct WT_API ClassificationReport {
  // The numbers of a class, or of an average.
  struct Row {
    std::string name;                          // as it is printed
    double precision = 0, recall = 0, f1 = 0;  // 0 to 1, or what zero_division says
    i64 support = 0;                           // samples that are of this class
  };
  std::vector<Row> classes;  // in the order of the labels
  // The labels cover all that occur: the micro average is the accuracy, and shown as it.
  bool covers_all = true;
  // Averages over the classes: micro of their counts taken together, macro of their rows, weighted
  // of their rows by support.
  Row micro{}, macro{}, weighted{};
  int digits = 2;  // of text(), behind the point
  // A sample of any class, listed or not, was predicted right. Where none was, text() shows
  // supports as floats ("3.0"), as scikit-learn does.
  bool any_right = true;

  // The part of the samples that was predicted right, where covers_all; else the micro average's
  // F1.
  double accuracy() const { return micro.f1; }
  // What sklearn.metrics.classification_report(y_true, y_pred) returns.
  std::string text() const;
};
// Writes text().
WT_API std::ostream& operator<<(std::ostream& out, const ClassificationReport& r);

// The report of true and predicted labels, one of each a sample. Throws ShapeError for unequal
// lengths, UsageError for no sample, a label that is listed twice, names that do not fit the labels
// and digits outside [0, 30].
WT_API ClassificationReport classification_report(const std::vector<i64>& y_true,
                                                  const std::vector<i64>& y_pred,
                                                  const ReportOptions& o = {});
// The report of integer tensors of equal shape; waits for their device. Throws DtypeError for
// floats, otherwise as the first.
WT_API ClassificationReport classification_report(const Tensor& y_true, const Tensor& y_pred,
                                                  const ReportOptions& o = {});
// The report of a confusion matrix: counts[i * n + k] samples of class i were taken for class k.
// Throws ShapeError where the number of counts is no square, UsageError as classification_report().
WT_API ClassificationReport report_of_counts(const std::vector<i64>& counts,
                                             const ReportOptions& o = {});

}  // namespace wt::metrics
