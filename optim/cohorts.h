// Which parameters have taken part in the same steps. Internal.
//
// What corrects for the first steps of a parameter counts the steps that changed it. The device
// alone knows which steps were applied, the host knows which parameters had a gradient in them: it
// cuts each arena where their histories part, and the device counts for each part, a Cohort. An
// arena whose parameters have all been in every step has none, and counts with its block.
#pragma once
#include <vector>

#include "warptape/kernels/optim_step.h"
#include "warptape/optim/arena.h"

namespace wt::optim::detail {

struct StepCount {
  i64 applied = 0;
  double mu_product = 1;
  friend bool operator==(const StepCount&, const StepCount&) = default;
};

class Cohorts {
 public:
  // Whether a step of the collected runs needs no others.
  bool fit(const Arenas& arenas) const;
  // Those that it needs: cut where runs begin and end. Where the table is another one, it has no
  // counts yet (StepAdvanceArgs::lays_out). Throws OutOfMemory.
  Cohorts cut(const Arenas& arenas) const;
  // These, counts included, where the arenas lie now. Waits. Throws OutOfMemory.
  Cohorts moved(const Arenas& arenas) const;
  // Of each arena's slots. `all`: of each group, what has taken part in every step.
  static Cohorts of_counts(const Arenas& arenas, const std::vector<std::vector<StepCount>>& counts,
                           const std::vector<StepCount>& all);

  bool none() const { return !table_.defined(); }
  bool same_table(const Cohorts& o) const { return table_.same_as(o.table_); }
  Cohort* table() const;
  // The cohorts that a range of steps() lies in.
  void attach(const Arenas& arenas, Run& r) const;
  void attach(StepAdvanceArgs& a, i64 group) const;
  // Of a group, those that take part in a step of the collected runs.
  std::vector<CohortRange> stepped(const Arenas& arenas, i64 group) const;
  // A field of the cohort that a parameter is in, by its place in a Cohort; undefined where the
  // parameter has missed no step.
  Tensor field(const Arenas& arenas, const Arena& a, const Slot& s, i64 at, DType t) const;

 private:
  struct Part {
    size_t slot;  // its first one
    bool lags;    // has missed a step
    friend bool operator==(const Part&, const Part&) = default;
  };
  using Parts = std::vector<Part>;
  static i64 end_of(const Arena& a, const Parts& parts, size_t k);
  static void cut_at(const Arena& a, Parts& parts, i64 element);
  static bool covers(const Arenas& arenas, const Arena& a, i64 begin, i64 end);
  Parts parts_for(const Arenas& arenas, size_t arena) const;
  size_t part_at(const Arena& a, const Parts& parts, i64 element) const;
  void place(const Arenas& arenas);
  void upload(const std::vector<Cohort>& table, Device d);

  std::vector<Parts> parts_;   // of each arena; of none at first
  std::vector<i64> first_;     // of each arena, where in the table
  std::vector<i64> of_group_;  // where each group's begin, and the end
  Tensor table_;               // u8; undefined where there are none, and on a meta device
};

}  // namespace wt::optim::detail
