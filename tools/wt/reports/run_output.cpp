#include "warptape/tools/wt/reports/run_output.h"

#include <algorithm>
#include <cstdio>

#include "warptape/core/input_file.h"
#include "warptape/version.h"

namespace wt::tools {
namespace {

// Kept for those who read it; a run may go on elsewhere, or with a newer program.
bool is_note(const std::string& key) { return key == "version" || key == "data"; }

// The second also where the first cannot be written.
template <class F, class G>
void write_both(const F& first, const G& second) {
  try {
    first();
  } catch (const CheckpointError&) {
    try {
      second();
    } catch (const CheckpointError&) {  // one reason is enough
    }
    throw;
  }
  second();
}

}  // namespace

const std::string* find_value(const nn::Metadata& m, const std::string& key) {
  for (const auto& [name, value] : m)
    if (name == key) return &value;
  return nullptr;
}

void check_format(const std::string& path, const nn::Metadata& m) {
  const std::string* format = find_value(m, "format");
  if (!format) throw DataError(printable_path(path) + ": is not a checkpoint of wt train");
  if (*format != kCheckpointFormat)
    throw DataError(str(printable_path(path), ": the format is ", printable(*format), ", expected ",
                        kCheckpointFormat));
}

RunOutput::RunOutput(const std::string& folder, nn::Metadata metadata)
    : folder_(folder), dir_(folder), metadata_(std::move(metadata)) {
  metadata_.emplace(metadata_.begin(), "version", WARPTAPE_VERSION_STRING);
  metadata_.emplace(metadata_.begin(), "format", kCheckpointFormat);
}

std::optional<ResumedCheckpoint> RunOutput::resume() {
  const std::optional<FoundCheckpoint> found = dir_.newest_valid();
  if (!found) return {};
  for (const std::string& why : found->rejected)
    std::fprintf(stderr, "not used: %s\n", printable_lines(why).c_str());
  ResumedCheckpoint file{nn::load_tensors(found->checkpoint.path), found->checkpoint.path};
  check_format(found->checkpoint.path, file.metadata);
  for (const auto& [key, mine] : metadata_) {
    const std::string* theirs = find_value(file.metadata, key);
    if (is_note(key) || !theirs || *theirs == mine) continue;
    const bool is_long = std::max(theirs->size(), mine.size()) > 200;  // a tokenizer
    throw UsageError(
        str("the run in ", printable_path(folder_), " was started with ",
            is_long ? str("another ", key)
                    : str(key, " ", printable_path(*theirs), ", not ", printable_path(mine)),
            "\n  Try the same options, or another --out"));
  }
  std::fprintf(stderr, "resumed %s\n", printable_path(found->checkpoint.path).c_str());
  return file;
}

std::optional<nn::LoadedTensors> RunOutput::load_if_whole(const std::string& path) {
  try {
    return nn::load_tensors(path);
  } catch (const DataError&) {
    return {};
  }
}

void RunOutput::begin(const RunHeader& header, std::optional<i64> after, bool evaluated) {
  const std::string path = dir_.metrics_path();
  metrics_.emplace(after ? MetricsWriter::resume(path, header, *after, evaluated)
                         : MetricsWriter::create(path, header));
  board_.emplace(folder_, after.value_or(-1) + 1);
}

void RunOutput::log(const StepRecord& r, std::optional<double> step_ms) {
  write_both([&] { metrics_->log(r); }, [&] { board_->log(r, step_ms); });
}
void RunOutput::log(const EvalRecord& r) {
  write_both([&] { metrics_->log(r); }, [&] { board_->log(r); });
}

void RunOutput::save(i64 step, const std::vector<nn::NamedTensor>& state, int keep) {
  metrics_->flush();
  nn::save_tensors(dir_.checkpoint_path(step), state, metadata_);
  dir_.published(step, keep);
}

void RunOutput::save_best(const std::vector<nn::NamedTensor>& state) {
  nn::save_tensors(dir_.best_path(), state, metadata_);
}

void RunOutput::write_report(const ReportOptions& o) {
  tools::write_report(dir_.report_path(), dir_.metrics_path(), o);
}

void RunOutput::write_file(const std::string& name, const std::string& bytes) {
  write_file_atomically(folder_ + "/" + name, bytes);
}

void RunOutput::write_exponents(const std::vector<ExponentSnapshot>& snapshots) {
  write_file_atomically(folder_ + "/exponents.json", exponents_json(snapshots) + "\n");
}

void RunOutput::write_nan_report(const NanReport& r) {
  write_file_atomically(folder_ + "/nan-report.json", to_json(r) + "\n");
}

}  // namespace wt::tools
