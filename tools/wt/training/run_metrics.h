// metrics.jsonl, the history of a training run: a header line, then a line a logged step and a line
// an evaluation, in the order in which they happened. Append-only; resumed runs go on in the file.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "warptape/tools/wt/training/append_file.h"
#include "warptape/tools/wt/training/eval_sample.h"

namespace wt::tools {

using OptionValue = std::variant<std::monostate, bool, i64, double, std::string>;  // null first

// {"schema": 1, "version", "recipe", "device", "seed", "options": {...}}
struct RunHeader {
  std::string version, recipe, device;
  u64 seed = 0;
  std::vector<std::pair<std::string, OptionValue>> options;
};

// {"step", "epoch", "loss", "lr", "grad_norm", "scale", "items_per_second", "bytes", "slowest_ms"};
// absent is null.
struct StepRecord {
  i64 step = 0;
  double epoch = 0;
  double loss = 0;
  double lr = 0;
  std::optional<double> grad_norm = {}, scale = {}, items_per_second = {};
  std::optional<u64> bytes = {};
  // The longest turn of the loop since the record before, with waiting for data, evaluation and
  // checkpoint.
  std::optional<double> slowest_ms = {};
};

// {"step", "epoch", "eval_loss", "accuracy"}, "top5" and "bleu" where there are such, and where it
// is of a part of the held-out samples "eval_samples" and "held_out_samples"
struct EvalRecord {
  i64 step = 0;
  double epoch = 0;
  double eval_loss = 0;
  std::optional<double> accuracy = {};
  std::optional<double> top5 = {}, bleu = {};
  std::optional<EvalSample> sample = {};  // nothing: of all
};

// Numbers are written so that they read back as the same double. A record is in the file when log()
// returns; flush() makes it survive a power loss, and is called before a checkpoint is written.
// CheckpointError if the file cannot be written: what was there stays, nothing half-written either,
// and the record waits for the next call.
class MetricsWriter {
 public:
  // Starts a new file; CheckpointError if one with content is already there.
  static MetricsWriter create(const std::string& path, const RunHeader& header);
  // Goes on after a checkpoint of `step`: drops a torn last line and every record of a later step,
  // and unless that step was `evaluated`, its evaluation. Starts a new file if there is none.
  // DataError if the file is damaged elsewhere.
  static MetricsWriter resume(const std::string& path, const RunHeader& header, i64 step,
                              bool evaluated = true);

  void log(const StepRecord& record);
  void log(const EvalRecord& record);
  void flush() { file_.flush(); }

  i64 records_dropped() const noexcept { return dropped_; }  // by resume()

 private:
  explicit MetricsWriter(const std::string& path) : file_(path) {}
  void append(std::string line) { file_.append(line += '\n'); }

  AppendFile file_;
  i64 dropped_ = 0;
};

struct RunHistory {
  // Options as JSON text, in file order.
  std::vector<std::pair<std::string, std::string>> options;
  std::string version, recipe, device, seed;
  std::vector<StepRecord> steps;
  std::vector<EvalRecord> evals;
};

// A torn last line is left out; any other damage is a DataError with file and byte.
RunHistory read_metrics(const std::string& path);

}  // namespace wt::tools
