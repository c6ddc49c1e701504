// report.html: one self-contained page about a run, for any browser, without network or script.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "warptape/nn/metrics.h"
#include "warptape/tools/wt/reports/report_sections.h"
#include "warptape/tools/wt/training/exponent_report.h"
#include "warptape/tools/wt/training/run_metrics.h"

namespace wt::tools {

struct ReportBaseline {
  std::string label;  // "unigram entropy"
  double loss = 0;    // in the unit of the losses
};

struct ReportOptions {
  std::string title = {};  // default: recipe and device
  std::optional<ReportBaseline> baseline = {};
  std::string loss_unit = "nats";
  std::string held_out = "held-out loss";  // what EvalRecord::eval_loss is
  std::string item = "items";              // what items_per_second counts
  // The final summary, shown in this order.
  std::vector<std::pair<std::string, std::string>> summary = {};
  // The evaluation that is marked as the best one; default: that of the lowest held-out loss.
  std::optional<i64> best_step = {};
  std::optional<metrics::ClassificationReport> classes = {};
  std::optional<ReportConfusion> confusion = {};
  std::vector<ReportSample> samples = {};
  std::vector<ExponentSnapshot> exponents = {};
};

// Sets classes and confusion from what an evaluation counted, if it counted anything. names: of the
// classes; empty: their numbers. Waits for the metric's device.
void add_classes(ReportOptions& options, const metrics::ConfusionMatrix& matrix,
                 const std::vector<std::string>& names = {});

// The page's text. All names and values are escaped: a run's options are not trusted.
std::string render_report(const RunHistory& history, const ReportOptions& options = {});

// render_report() of the metrics at `metrics_path`, written by AtomicFile. DataError for damaged
// metrics, CheckpointError if the page cannot be written.
void write_report(const std::string& path, const std::string& metrics_path,
                  const ReportOptions& options = {});

}  // namespace wt::tools
