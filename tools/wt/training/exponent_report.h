// Exponents of gradients in a run: what is kept of them, as a section of the report, and as JSON.
#pragma once
#include <string>
#include <vector>

#include "warptape/optim/gradient_exponents.h"

namespace wt::tools {

struct ExponentSnapshot {
  i64 step = 0;  // from 1
  bool skipped = false;
  GradientExponents exponents;
};

// What `wt train --exponents N` keeps: every second one goes when there are more than 32, so that
// a run of any length leaves a sample of its whole time; the first skipped step's stays.
class ExponentHistory {
 public:
  void add(ExponentSnapshot s);
  const std::vector<ExponentSnapshot>& kept() const { return kept_; }

 private:
  std::vector<ExponentSnapshot> kept_;
  i64 every_ = 1, seen_ = 0;
};

// Heat maps of the report's page: the newest snapshot and the first skipped step's by parameter,
// and how all gradients together moved over the snapshots. "" without a snapshot.
std::string render_exponents(const std::vector<ExponentSnapshot>& snapshots);

// {"snapshots":[{"step","skipped","scale","rows":[{"name","elements","zero","inf","nan","lowest",
// "counts":[...]}]}]}: counts of exponents from `lowest` on, without the zeros at both ends.
std::string exponents_json(const std::vector<ExponentSnapshot>& snapshots);

// Whether text for stderr may be coloured: a terminal that is not "dumb", and NO_COLOR is not set.
bool colour_on_stderr();

}  // namespace wt::tools
