// How even the steps of a run are: the middle, the tail, and what the slowest step coincided with.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "warptape/core/types.h"

namespace wt::tools {

// One turn of the training loop, in seconds: the step and all that came with it.
struct StepTime {
  i64 step = 0;       // its number, from 1
  double total = 0;   // of which
  double data = 0;    // waiting for the batch
  double others = 0;  // waiting for other ranks
  double evaluation = 0, checkpoint = 0;
  double recording = 0;  // exponents, and a skipped step that was made again to explain it
  bool skipped = false;
};

enum class StepCause : u8 {
  unknown,
  first_steps,
  data_wait,
  evaluation,
  checkpoint,
  recording,
  skipped
};
const char* cause_text(StepCause c);  // "an evaluation"

// What a slow step coincided with: the part that makes at least half of what it took beyond
// `median`; else that it was one of the first three (memory is taken, kernels are chosen), or
// skipped; else nothing that is known here. `turn` counts the steps of this start of the program.
StepCause cause_of(const StepTime& t, double median, i64 turn);

struct SlowStep {
  StepTime time;
  StepCause cause = StepCause::unknown;
};

// Memory does not grow with the steps: they are counted in classes 1 % wide, from a microsecond to
// a day, so a quantile is right to within 1 %.
class StepTimes {
 public:
  void add(const StepTime& t);
  i64 count() const { return count_; }
  // The time that a part `q` of the steps does not exceed; 0 where there are none.
  double quantile(double q) const;
  // The slowest step, and the slowest behind the first three; nothing where there is none.
  std::optional<SlowStep> worst() const { return slow(worst_, worst_turn_); }
  std::optional<SlowStep> worst_later() const { return slow(later_, later_turn_); }
  // Of the steps behind the first three: the part of their time that the loop waited for batches,
  // where evaluations, checkpoints and recording do not count as time. Nothing where there is none.
  std::optional<double> data_share() const;
  // Of the same steps, seconds each: what this rank did, and how long it waited for others.
  struct Shares {
    double own = 0, waited = 0;
  };
  Shares per_step() const;
  // The longest time since the last call; nothing where no step was added.
  std::optional<double> take_longest();
  // "p50 12.3 ms, p99 30.1 ms, slowest 250 ms (step 1: one of the first steps)".
  std::string text() const;

 private:
  std::optional<SlowStep> slow(const StepTime& t, i64 turn) const;

  std::vector<i64> classes_;
  i64 count_ = 0, worst_turn_ = 0, later_turn_ = 0;
  double least_ = 0, data_ = 0, others_ = 0, stepping_ = 0;
  StepTime worst_{}, later_{};
  std::optional<double> longest_;
};

// "waiting for data: 34 % of the steps' time"; above 20 % with what to try. `may_stay`: the data
// could be on the device and is not.
std::string data_wait_text(double share, int workers, int cores, bool may_stay);

}  // namespace wt::tools
