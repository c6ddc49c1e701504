// Two sets of timings compared by ratios: what `wt bench compare` says and when it says it.
#pragma once
#include <string>
#include <vector>

#include "warptape/tools/wt/measure/bench_lines.h"

namespace wt::tools {

// Times of one thing that was measured, a run each, in the order in which they were made.
struct TimedRow {
  std::string name;     // "softmax_forward [4096, 4096] f32"
  std::string variant;  // of the last run
  std::vector<double> us;
};
struct TimedFile {
  std::vector<TimedRow> rows;  // in the order of the file
  std::string machine;         // of the first line
};
// Lines of one thing are its runs; the variant is part of the name only where there are several of
// one contract. `field`: the time that is taken, "median_us" or "min_us"; lines without it
// (modelled, counted) are left out.
TimedFile timings_of(const std::vector<BenchLine>& lines, const std::string& field);

enum class Verdict { faster, slower, same, undecided, too_few };
const char* verdict_text(Verdict v);

// The least number of pairs that anything is claimed of. Of three, one comparison in a few hundred
// called 0.3 % a difference: their spread is often small by chance.
constexpr int kLeastPairs = 5;

struct Comparison {
  std::string name, variant_a, variant_b;
  int pairs = 0;
  double ratio = 0;            // time of B by time of A, geometric mean of the pairs
  double low = 0, high = 0;    // its confidence interval; 0 to infinity below two pairs
  double least = 0, most = 0;  // of a single pair
  Verdict verdict = Verdict::too_few;
};
struct CompareOptions {
  double margin = 0.01;  // what is not called a difference: code's place in memory makes as much
  double confidence = 0.95;  // of all rows together
};
// Run i of A is one pair with run i of B: measured beside each other, what changes slowly (heat,
// other processes) is in both. Faster or slower: the whole interval is beyond the margin, and no
// single pair says otherwise. Same: the whole interval is within it.
Comparison compare_runs(const TimedRow& a, const TimedRow& b, const CompareOptions& o, int rows);
// Rows that both have, in the order of A; `only_in_one` names the others.
std::vector<Comparison> compare_files(const TimedFile& a, const TimedFile& b,
                                      const CompareOptions& o,
                                      std::vector<std::string>* only_in_one);

// P(|T| <= t) for Student's T, and the t of a probability.
double student_within(double t, int freedom);
double student_quantile(double probability, int freedom);

}  // namespace wt::tools
