// The run of `wt train`: trainer.cpp has the loop, trainer_state.cpp what it keeps and goes on
// from, trainer_report.cpp what it says about itself.
#pragma once
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "warptape/autograd/recorder.h"
#include "warptape/core/memory_limit.h"
#include "warptape/core/progress.h"
#include "warptape/kernels/run.h"
#include "warptape/tools/wt/profile/profile_steps.h"
#include "warptape/tools/wt/recipes/recipe_training.h"
#include "warptape/tools/wt/reports/loss_curve.h"
#include "warptape/tools/wt/reports/run_output.h"
#include "warptape/tools/wt/training/eval_sample.h"
#include "warptape/tools/wt/training/evaluation.h"
#include "warptape/tools/wt/training/exponent_report.h"
#include "warptape/tools/wt/training/nan_report.h"
#include "warptape/tools/wt/training/rank_times.h"
#include "warptape/tools/wt/training/ranks.h"
#include "warptape/tools/wt/training/step_times.h"
#include "warptape/tools/wt/training/train.h"

namespace wt::tools {

inline double seconds_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}

// What the trainer itself counts; the checkpoint keeps it.
struct Counters {
  i64 step = 0;       // done so far
  i64 best_step = 0;  // of the best evaluation whose model is kept; 0: none yet
  i64 worse = 0;      // evaluations since then
  double best = NAN;  // what `monitor` names
  bool due = false;   // the evaluation after this step is not done with: logged, judged, best kept
};

class Trainer {
  using Clock = std::chrono::steady_clock;

 public:
  // One rank's run. Rank 0 writes, shows progress and decides; the others only train.
  Trainer(const TrainOptions& o, dist::Communicator& ranks);
  int run();

 private:
  void load_data();
  void make_resident();
  nn::Metadata metadata() const;
  RunHeader header() const;
  void begin_weights();
  void begin();
  void resume(const nn::LoadedTensors& file);
  void repair_best(const nn::LoadedTensors& resumed);
  bool best_is_of_this_step() const;
  std::vector<nn::NamedTensor> state(const Counters& c);
  bool train_one(Progress& bar);
  void begin_recording();
  RecipeStep step(const data::Batch& batch);
  void use_kernels();
  void log_step(const wt::StepRecord& r, double rate);
  void record(const data::Batch& batch, const RecipeStep& r, Progress& bar);
  void record_exponents(bool skipped);
  void explain_skip(const wt::StepRecord& r, const data::Batch& batch, Progress& bar);
  void choose_eval_samples();
  EvalSample eval_sample() const { return {judged_->size(), data_->held_out.size()}; }
  std::string on_samples() const;
  void measure_held_out();
  void evaluate();
  void judge();
  void finish_evaluation(Progress& bar);
  void go_on_without_best();
  void save();
  void loop();
  void could_not_write(const CheckpointError& e);
  void remember_refused(const wt::StepRecord& r);
  void report_non_finite(const NumericError& e, const data::Batch* batch) noexcept;
  enum class End { alike, apart, no_output };
  void keep_what_there_is(End end) noexcept;
  void wait_for_the_others() noexcept;
  ReportOptions report() const;
  std::string data_wait() const;
  std::string text_loss() const;
  void write_sample();
  void write_outcome();
  void print_summary() const;
  void print_doubts() const;
  void print_exponents() const;
  bool is_scaled() const { return o_.precision == "f16"; }
  double epoch_now() const { return double(c_.step) / double(loader_->size()); }
  double monitored() const;
  std::string monitored_text(double v) const;
  std::string loss_text(double v) const;
  bool out_of_patience() const { return o_.patience > 0 && c_.worse >= o_.patience; }
  // What cannot be written ends the run, or (--on-write-error warn) is said, and training goes on:
  // false.
  template <class F>
  bool write(F&& f) {
    try {
      f();
      return true;
    } catch (const CheckpointError& e) {
      if (o_.on_write_error != "warn") throw;
      could_not_write(e);
      return false;
    }
  }
  // f(), whose time is a part of this turn's.
  template <class F>
  void timed(double StepTime::*part, F&& f) {
    const Clock::time_point begin = Clock::now();
    f();
    turn_.*part += seconds_since(begin);
  }
  // Evaluating and saving are no training: counted, they would show as dips of the throughput.
  template <class F>
  void not_training(F&& f) {
    const Clock::time_point begin = Clock::now();
    f();
    const Clock::duration spent = Clock::now() - begin;
    logged_at_ += spent;
    start_ += spent;
  }

  // Of what is done every so many steps; a round of many iterations is worth each.
  bool is_turn(i64 every) const { return c_.step % every == 0 || training_->in_rounds(); }
  bool is_first() const { return ranks_.rank() == 0; }
  // The state is in parts: all ranks make it together, where rank 0 wants it.
  bool gathers_state() const { return o_.zero > 0 && ranks_.size() > 1; }
  bool agreed(bool own) { return gathers_state() ? rank_0_says(ranks_, own) : own; }
  std::optional<ResumedCheckpoint> resumed_checkpoint();

  TrainOptions o_;
  dist::Communicator& ranks_;
  Device device_ = Device::cpu();
  std::optional<memory::LimitScope> limit_;
  std::unique_ptr<Recipe> recipe_;
  RecipeDefaults d_;
  std::optional<RecipeData> data_;
  std::optional<data::AnyDataset> judged_;  // what evaluations take of the held-out samples
  std::optional<TrainBatches> loader_;
  i64 total_ = 0, eval_every_ = 1;  // steps
  Counters c_;
  std::unique_ptr<RecipeTraining> training_;
  std::optional<RunOutput> out_;
  std::optional<EvalResult> eval_;
  Outcome outcome_;                // of the run's end
  std::exception_ptr no_outcome_;  // why there is none
  std::optional<VariantScope> kernels_;
  std::optional<RefusedStep> refused_;
  std::vector<std::pair<std::string, std::string>> skips_;  // step, where it overflowed first
  bool nan_reported_ = false;
  std::set<std::string> said_;  // why something could not be written
  i64 failed_writes_ = 0;
  std::string sample_;
  double loss_ = NAN;
  i64 last_saved_ = -1, last_eval_ = -1;
  Clock::time_point begin_ = Clock::now();                 // of the run
  Clock::time_point start_ = begin_, logged_at_ = start_;  // of training, moved on by what is none
  i64 logged_step_ = 0, first_step_ = 0;
  Clock::time_point turn_begin_ = begin_;
  StepTime turn_;  // of the loop, so far
  StepTimes times_;
  std::vector<StepTimes::Shares> shares_;  // of several ranks, at the end
  ExponentHistory exponents_;
  std::optional<record::Recorder> recorder_;  // --log-tensors
  i64 peak_ = 0;  // bytes during training steps (evaluations use larger batches)
  std::optional<LiveCurve> curve_;
  std::optional<StepProfiler> profile_;
  SharedSignals signals_;
};

}  // namespace wt::tools
