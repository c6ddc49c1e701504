// Kernel labs: each row of the points is an operator of `wt grade`.
#include <algorithm>
#include <filesystem>
#include <map>

#include "warptape/core/error.h"
#include "warptape/tools/wt/confined/scratch.h"
#include "warptape/tools/wt/grade/build.h"
#include "warptape/tools/wt/grade/grade.h"
#include "warptape/tools/wt/grade/ops.h"
#include "warptape/tools/wt/lab/check.h"

namespace wt::labs {
namespace {

using grade::Verdict;

struct Graded {
  std::vector<Verdict> verdicts;
  std::string missing;  // the variant is not in the file
};

// Operators of a row are graded once, whatever is asked of them.
class KernelCheck {
 public:
  KernelCheck(const Lab& lab, const CheckOptions& o, Outcome& to)
      : lab_(lab), o_(o), to_(to), build_(o.file, scratch_.path(), kCompileSeconds) {}

  void run() {
    // What does not compile fails no operator more than another.
    const grade::Compiled& c = build_.in(grade::Flavour::plain);
    if (c.program.empty()) return to_.rows.push_back(row_of_compiler(lab_, c, o_.file));
    for (const GradedRow& row : lab_.graded) judge(row);
    for (const GradedRow& row : lab_.graded)
      if (row.challenge_score) judge_challenge(row);
  }

 private:
  const Graded& graded(const GradedRow& row) {
    const auto [at, added] = seen_.try_emplace({row.op, row.variant});
    Graded& found = at->second;
    if (!added) return found;
    grade::GradeOptions g;
    g.file = o_.file, g.op = row.op, g.seed = o_.seed, g.seconds = o_.seconds;
    g.keep = scratch_.path(), g.compile_seconds = kCompileSeconds, g.build = &build_;
    g.nvcc = o_.nvcc;
    if (!row.variant.empty()) g.variants = {row.variant};
    try {
      grade::grade_file(g, [&](const Verdict& v) { found.verdicts.push_back(v); });
    } catch (const UsageError& e) {
      found.missing = e.what();
    }
    return found;
  }

  void fail(const GradedRow& row, const std::string& kind, const std::string& reason,
            const std::string& graders_hint = "") {
    const std::string id = lab_.hint_of(row.op, kind, reason);
    OutcomeRow r = failed_row(lab_, row.title, row.points, reason, id.empty() ? kind : id);
    // Before what failed_row() says of all labs.
    if (!lab_.hint_levels(r.hint_id) && !graders_hint.empty()) r.hint = graders_hint;
    to_.rows.push_back(std::move(r));
  }

  void judge(const GradedRow& row) {
    const Graded& g = graded(row);
    if (!g.missing.empty())
      return fail(row, "empty", str("the file has no variant '", row.variant, "' of ", row.op));
    int best = 0, emulated = 0;
    for (const Verdict& v : g.verdicts) {
      if (!v.passed) return of_finding(row, v);
      emulated += v.device.launches;
      if (row.deterministic && !v.deterministic)
        return fail(row, "order",
                    str(v.variant,
                        ": the table says .deterministic = false, and equal bits are "
                        "asked for"));
      best = std::max(best, v.score.points);
    }
    if (best < row.score) return fail(row, "score", "it " + score_text(g, best));
    to_.rows.push_back({.name = row.title, .points = row.points, .passed = true});
    std::string& said = to_.rows.back().reason;
    if (best) said = str("scores ", best, " of 100");
    if (emulated)
      said += str(best ? ", and " : "", "nvcc's is right in ", emulated,
                  " launches on the emulated device");
    remember(row, g.verdicts);
  }

  // One line of several that a verdict may have.
  void of_finding(const GradedRow& row, const Verdict& v) {
    const grade::Finding f = v.findings.empty() ? grade::Finding{} : v.findings.front();
    std::string place;
    if (f.line) place = str(":", f.line);
    std::string sentence = f.sentence.substr(0, f.sentence.find('\n'));
    const std::string reason =
        str(std::filesystem::path(f.file).filename().string(), place, ": ", f.kind, ": ", sentence);
    fail(row, f.kind, reason, f.hint);
  }

  // The best memory score, and all that it is made of.
  static std::string score_text(const Graded& g, int best) {
    std::string text = str("scores ", best, " of 100");
    for (const Verdict& v : g.verdicts) {
      if (v.score.points != best) continue;
      for (const std::string& r : v.score.reasons)
        text += (&r == &v.score.reasons.front() ? ": " : "; ") + r;
      break;
    }
    return text;
  }

  void judge_challenge(const GradedRow& row) {
    const Graded& g = graded(row);
    int best = 0;
    bool passed = !g.verdicts.empty();
    for (const Verdict& v : g.verdicts)
      passed = passed && v.passed, best = std::max(best, v.score.points);
    OutcomeRow r{.name = str(row.op, row.variant.empty() ? "" : ", " + row.variant,
                             ": score of at least ", row.challenge_score)};
    r.challenge = true, r.passed = passed && best >= row.challenge_score;
    r.reason = passed && !r.passed ? score_text(g, best) : str("scores ", best, " of 100");
    to_.rows.push_back(std::move(r));
  }

  void remember(const GradedRow& row, const std::vector<Verdict>& verdicts) {
    const std::string contract = grade::graded_op(row.op).contract;
    for (const Verdict& v : verdicts) {
      if (to_.variants.find(contract + ":") != std::string::npos) return;
      to_.variants += str(to_.variants.empty() ? "" : ",", contract, ":", v.variant);
    }
  }

  const Lab& lab_;
  const CheckOptions& o_;
  Outcome& to_;
  confined::Scratch scratch_;
  grade::Build build_;
  std::map<std::pair<std::string, std::string>, Graded> seen_;
};

}  // namespace

void check_kernels(const Lab& lab, const CheckOptions& o, Outcome& to) {
  KernelCheck(lab, o, to).run();
}

}  // namespace wt::labs
