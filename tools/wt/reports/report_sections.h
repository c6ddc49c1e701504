// What a report says beside its curves: how each class is recognised, what is taken for what, and
// text that the model has written.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "warptape/core/types.h"
#include "warptape/nn/classification_report.h"

namespace wt::tools {

// counts[i * n + k] samples of class i were taken for class k.
struct ReportConfusion {
  std::vector<std::string> names;  // of the n classes; empty: their numbers
  std::vector<i64> counts;
};

struct ReportSample {
  std::string label;  // "temperature 0.8"
  std::string text;   // any bytes
};

// Sections of the report's page; all names are escaped. `confusion` may be null: with it, numbers
// of classes that were never predicted are marked as 0 / 0 too. `of`: which samples, beside the
// title.
std::string render_classes(const metrics::ClassificationReport& report,
                           const ReportConfusion* confusion, const std::string& of = "held out");
// A table with counts, coloured by their part of the row; the most frequent mistakes as a list when
// there are more than 40 classes. UsageError if the counts are no square of the names.
std::string render_confusion(const ReportConfusion& confusion, const std::string& of = "held out");
std::string render_samples(const std::vector<ReportSample>& samples);

// `text` as HTML that shows every byte: controls, direction marks and what is not UTF-8 become
// visible codes. Long text is cut and says so.
std::string visible_text(std::string_view text, std::size_t limit = 20'000);

}  // namespace wt::tools
