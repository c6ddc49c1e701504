// What a run writes into its folder: metrics.jsonl, TensorBoard events, checkpoints, report.html.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "warptape/nn/checkpoint_file.h"
#include "warptape/tools/wt/reports/run_report.h"
#include "warptape/tools/wt/training/nan_report.h"
#include "warptape/tools/wt/training/run_dir.h"
#include "warptape/tools/wt/training/run_metrics.h"
#include "warptape/tools/wt/training/tensorboard.h"

namespace wt::tools {

inline constexpr const char* kCheckpointFormat = "warptape.checkpoint.2";
// Null where there is none.
const std::string* find_value(const nn::Metadata& m, const std::string& key);
// Throws DataError unless it is the metadata of a checkpoint of `wt train`.
void check_format(const std::string& path, const nn::Metadata& m);

struct ResumedCheckpoint : nn::LoadedTensors {
  std::string path;
};

class RunOutput {
 public:
  // Takes the folder's lock. `metadata` is that of every checkpoint; all but format and version say
  // how the run was started.
  RunOutput(const std::string& folder, nn::Metadata metadata);

  // The newest valid checkpoint's tensors; nothing where there is none. Throws UsageError where the
  // run was started with other options.
  std::optional<ResumedCheckpoint> resume();
  // To be called before the first log(). `after`: later records are dropped (-1: all), and unless
  // that step was `evaluated` its evaluation; nothing for a new run, which throws CheckpointError
  // in the folder of another.
  void begin(const RunHeader& header, std::optional<i64> after, bool evaluated = true);

  // What cannot be written (CheckpointError) is kept for the next call.
  void log(const StepRecord& r, std::optional<double> step_ms);
  void log(const EvalRecord& r);
  // Everything logged before is on the disk before the checkpoint is there.
  void save(i64 step, const std::vector<nn::NamedTensor>& state, int keep);
  void save_best(const std::vector<nn::NamedTensor>& state);
  // The best checkpoint, or that of a step; nothing where none is there that can be read.
  std::optional<nn::LoadedTensors> best() const { return load_if_whole(dir_.best_path()); }
  std::optional<nn::LoadedTensors> at(i64 step) const {
    return load_if_whole(dir_.checkpoint_path(step));
  }
  void write_report(const ReportOptions& o);
  void write_nan_report(const NanReport& r);
  void write_file(const std::string& name, const std::string& bytes);
  void write_exponents(const std::vector<ExponentSnapshot>& snapshots);  // exponents.json

  std::string checkpoint_path(i64 step) const { return dir_.checkpoint_path(step); }

 private:
  static std::optional<nn::LoadedTensors> load_if_whole(const std::string& path);

  std::string folder_;
  RunDirectory dir_;
  nn::Metadata metadata_;
  std::optional<MetricsWriter> metrics_;
  std::optional<TensorBoardWriter> board_;
};

}  // namespace wt::tools
