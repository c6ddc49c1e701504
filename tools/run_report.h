// report.html: one self-contained page about a run, for any browser, without network or script.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "warptape/tools/run_metrics.h"

namespace wt::tools {

struct ReportBaseline {
  std::string label;  // "unigram entropy"
  double loss = 0;    // in the unit of the losses
};

struct ReportOptions {
  std::string title = {};  // default: recipe and device
  std::optional<ReportBaseline> baseline = {};
  std::string loss_unit = "nats";
  std::string item = "items";  // what items_per_second counts
  // The final summary, shown in this order.
  std::vector<std::pair<std::string, std::string>> summary = {};
};

// The page's text. All names and values are escaped: a run's options are not trusted.
std::string render_report(const RunHistory& history, const ReportOptions& options = {});

// render_report() of the metrics at `metrics_path`, written by AtomicFile. DataError for damaged
// metrics, CheckpointError if the page cannot be written.
void write_report(const std::string& path, const std::string& metrics_path,
                  const ReportOptions& options = {});

}  // namespace wt::tools
