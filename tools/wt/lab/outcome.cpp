#include "warptape/tools/wt/lab/outcome.h"

#include <algorithm>

#include "warptape/core/error.h"
#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/tools/wt/lab/json_value.h"

namespace wt::labs {
namespace {

std::string row_text(const OutcomeRow& r) {
  const std::string of = std::to_string(r.points);
  std::string points = r.challenge ? (r.passed ? "met" : "-") : (r.passed ? of : "0") + "/" + of;
  points.insert(0, 6 - std::min<size_t>(6, points.size()), ' ');
  std::string text = str(r.passed ? "ok    " : "FAILED", points, "  ",
                         r.challenge ? "challenge: " : "", printable_lines(r.name), "\n");
  if (!r.reason.empty()) text += str("              ", printable_lines(r.reason), "\n");
  if (!r.passed && !r.hint.empty())
    text += str("              hint: ", printable_lines(r.hint), "\n");
  return text;
}

}  // namespace

int Outcome::points() const {
  int sum = 0;
  for (const OutcomeRow& r : rows) sum += r.passed && !r.challenge ? r.points : 0;
  return sum;
}

bool Outcome::challenge_met() const {
  bool any = false;
  for (const OutcomeRow& r : rows) {
    if (r.challenge && !r.passed) return false;
    any = any || r.challenge;
  }
  return any && passed();
}

const OutcomeRow* Outcome::first_failed() const {
  for (const bool challenge : {false, true})
    for (const OutcomeRow& r : rows)
      if (!r.passed && r.challenge == challenge) return &r;
  return nullptr;
}

std::string outcome_text(const Outcome& o) {
  std::string text = str("lab ", o.lab, ", ", o.title, ": ", printable_path(o.file), "\n");
  for (const OutcomeRow& r : o.rows) text += row_text(r);
  for (const std::string& n : o.notes) text += str("note: ", printable_lines(n), "\n");
  text += str(o.passed() ? "PASSED" : "NOT PASSED", ": ", o.points(), " of 100 points, ", o.pass,
              " are needed; seed ", o.seed, "\n");
  if (o.passed() && !o.challenge.empty())
    text += str("challenge ", o.challenge_met() ? "met" : "open", ": ", o.challenge, "\n");
  return text;
}

std::string outcome_json(const Outcome& o) {
  JsonObject j;
  j.add("lab", o.lab).add("name", o.name).add("title", o.title).add("file", o.file);
  j.add("passed", o.passed()).add("points", o.points()).add("pass", o.pass).add("seed", o.seed);
  j.add("challenge", o.challenge).add("challenge_met", o.challenge_met());
  std::vector<std::string> rows, notes;
  for (const OutcomeRow& r : o.rows) {
    JsonObject one;
    one.add("name", r.name).add("points", r.points).add("passed", r.passed);
    one.add("challenge", r.challenge).add("reason", r.reason).add("hint_id", r.hint_id);
    one.add("hint", r.hint);
    rows.push_back(one.str());
  }
  for (const std::string& n : o.notes) notes.push_back(json_quote(n));
  j.add_raw("cases", json_list(rows)).add_raw("notes", json_list(notes));
  const OutcomeRow* const failed = o.first_failed();
  j.add("hint", failed && !failed->challenge ? failed->hint_id : "");
  return j.str();
}

}  // namespace wt::labs
