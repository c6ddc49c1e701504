// What a check of a student's file found. Internal.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/types.h"

namespace wt::labs {

struct OutcomeRow {
  std::string name{};
  int points = 0;  // that it is worth
  bool passed = false;
  bool challenge = false;  // apart from the hundred
  std::string reason{};    // one line; of what passed maybe the score
  std::string hint_id{};   // empty where it passed
  std::string hint{};      // its first level, one line
};

struct Outcome {
  int lab = 0;
  std::string name{}, title{};
  std::string file{};
  u64 seed = 0;
  int pass = 70;
  std::string challenge{};  // its sentence
  std::vector<OutcomeRow> rows{};
  std::vector<std::string> notes{};
  std::string variants{};  // "contract:variant,..." that passed, for --train

  int points() const;
  bool passed() const { return points() >= pass; }
  bool challenge_met() const;
  // The first row that failed, the challenge only where all others passed; null: none.
  const OutcomeRow* first_failed() const;
};

std::string outcome_text(const Outcome& o);
std::string outcome_json(const Outcome& o);  // one line

}  // namespace wt::labs
