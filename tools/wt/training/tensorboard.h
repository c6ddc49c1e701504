// Scalars for TensorBoard: event files as its own writer makes them, without its libraries.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "warptape/tools/wt/training/append_file.h"
#include "warptape/tools/wt/training/run_metrics.h"

namespace wt::tools {

struct TensorBoardScalar {
  std::string_view tag;  // "train/loss": the part before '/' is the group of charts
  double value = 0;      // kept as f32
};

// One file of a run: "events.out.tfevents.<seconds>.<host>" in `directory`, records in TFRecord
// framing. Each start of a run has a file of its own; TensorBoard reads them in the order of their
// names. In tags, what is neither letter, digit, space nor one of "-_./" becomes '_'.
class TensorBoardWriter {
 public:
  // Creates the folder if it is missing. first_step: what older files of the folder say of it and
  // of later steps does not count, which is k + 1 for a run resumed after step k. Two things say
  // so:
  //   a START event, of which TensorBoard's classic server (--load_fast=false) takes notice; its
  //     default one does not;
  //   the last point before first_step of each scalar that has later ones, once more: of a point at
  //     an old step the default server drops what it had from that step on. The classic one shows
  //     it twice, with one value. A scalar without an earlier point keeps its old points in the
  //     default server until it gets a new one at or before them.
  // CheckpointError if the file cannot be written; then none is left.
  explicit TensorBoardWriter(const std::string& directory, i64 first_step = 0);

  // One record; it is in the file on return. CheckpointError if it cannot be written: whole records
  // stay. UsageError for an empty tag.
  void add(i64 step, std::span<const TensorBoardScalar> scalars);
  void add(i64 step, std::string_view tag, double value) {
    const TensorBoardScalar one{tag, value};
    add(step, {&one, 1});
  }
  // train/loss, opt/lr, opt/grad_norm, amp/scale, sys/items_per_second, sys/mem_gib, sys/step_ms.
  void log(const StepRecord& record, std::optional<double> step_ms = {});
  // val/loss, val/acc, val/top5, val/bleu, and val/samples where it is of a part of the held-out
  // samples.
  void log(const EvalRecord& record);
  void flush() { file_.flush(); }  // what was added survives a power loss

  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
  AppendFile file_;
};

}  // namespace wt::tools
