// The labs that are there, and what lab.json says of each (docs/labs.md). Internal.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace wt::labs {

// One row of a kernel lab's points: an operator of `wt grade`, and what is asked of it.
struct GradedRow {
  std::string op{}, variant{};  // variant: empty for all that the file has
  std::string title{};
  int points = 0;
  int score = 0;               // of memory, that it has to reach at least
  int challenge_score = 0;     // the same for the challenge; 0: not a part of it
  bool deterministic = false;  // may not say that its bits depend on the order
};

struct Lab {
  int number = 0;
  std::string name{}, title{};
  int minutes = 0;
  bool kernel = false;
  std::string file{};               // of the student
  std::vector<std::string> also{};  // handed out beside it
  std::string misconception{}, challenge{};
  int pass = 70;
  std::vector<GradedRow> graded{};
  // An ID, and what is said first, second and third.
  std::vector<std::pair<std::string, std::vector<std::string>>> hints{};
  // From kinds of findings ("race", "sum/race", "sum/values near 1000") to IDs.
  std::vector<std::pair<std::string, std::string>> findings{};
  std::string real{};    // arguments of wt, for --train
  std::string folder{};  // where its files are

  std::string id() const;    // "05_softmax"
  std::string stub() const;  // file name of what is handed out as `file`
  // The hint of what was found by `wt grade`, "" if there is none. What asks for words of the
  // reason goes before what does not ("values near 1000", "values"), then "op/kind" before "kind".
  std::string hint_of(const std::string& op, const std::string& kind,
                      const std::string& reason) const;
  // The level-th hint of an ID (0 first, then the last one), "" if there is none.
  std::string hint_text(const std::string& id, size_t level) const;
  size_t hint_levels(const std::string& id) const;
};

// Where the labs are: `given`, or WT_LAB_DIR, labs/ beside wt, share/warptape/labs of an
// installation. NotAvailable.
std::string labs_folder(const std::string& given = "");
// In the order of their numbers. DataError for a lab.json that is none.
std::vector<Lab> all_labs(const std::string& folder);
// By number ("5", "05"), name or id. UsageError with the near name.
Lab lab_named(const std::vector<Lab>& labs, const std::string& word);
// One lab.json.
Lab read_lab(const std::string& folder);

}  // namespace wt::labs
