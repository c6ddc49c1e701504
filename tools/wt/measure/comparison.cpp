#include "warptape/tools/wt/measure/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <set>

namespace wt::tools {
namespace {

struct TimedLine {
  std::string name, impl, machine;
  double us = 0;
};

// Numbers that tell two measurements of one operator apart.
bool is_part_of_name(const std::string& key) { return key == "threads" || key == "gradients"; }

TimedLine timed_line(const BenchLine& l, const std::string& field) {
  TimedLine line;
  line.name = l.word("bench");
  for (const char* key : {"shape", "dtype", "device"})
    if (!l.word(key).empty()) line.name += " " + l.word(key);
  for (const auto& [key, value] : l.values)
    if (is_part_of_name(key)) line.name += " " + key + " " + value.text;
  line.impl = l.word("impl"), line.machine = l.word("machine");
  line.us = l.number(field);
  return line;
}

}  // namespace

TimedFile timings_of(const std::vector<BenchLine>& from, const std::string& field) {
  std::vector<TimedLine> lines;
  for (const BenchLine& l : from) lines.push_back(timed_line(l, field));
  TimedFile file;
  if (!lines.empty()) file.machine = lines[0].machine;
  std::map<std::string, std::set<std::string>> variants;
  for (const TimedLine& l : lines) variants[l.name].insert(l.impl);
  std::map<std::string, size_t> index;
  for (const TimedLine& l : lines) {
    if (!(l.us > 0)) continue;
    const bool several = variants[l.name].size() > 1;
    const std::string name = several ? l.name + " " + l.impl : l.name;
    const auto [at, added] = index.emplace(name, file.rows.size());
    if (added) file.rows.push_back({name, {}, {}});
    file.rows[at->second].variant = l.impl;
    file.rows[at->second].us.push_back(l.us);
  }
  return file;
}

const char* verdict_text(Verdict v) {
  switch (v) {
    case Verdict::faster:
      return "B is faster";
    case Verdict::slower:
      return "B is slower";
    case Verdict::same:
      return "no difference";
    case Verdict::undecided:
      return "not decided";
    case Verdict::too_few:
      return "too few runs";
  }
  return "";
}

// The finite series for whole degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4).
double student_within(double t, int freedom) {
  const double theta = std::atan(t / std::sqrt(double(freedom)));
  const double s = std::sin(theta), c = std::cos(theta);
  double term = freedom % 2 ? c : 1, sum = 0;
  if (freedom % 2) {
    for (int k = 1; k <= freedom - 2; k += 2) {
      sum += term;
      term *= c * c * (k + 1) / (k + 2);
    }
    return 2 / std::numbers::pi * (theta + s * sum);
  }
  for (int k = 0; k <= freedom - 2; k += 2) {
    sum += term;
    term *= c * c * (k + 1) / (k + 2);
  }
  return s * sum;
}

double student_quantile(double probability, int freedom) {
  double low = 0, high = 1;
  while (student_within(high, freedom) < probability && high < 1e12) high *= 2;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (student_within(middle, freedom) < probability ? low : high) = middle;
  }
  return high;
}

Comparison compare_runs(const TimedRow& a, const TimedRow& b, const CompareOptions& o, int rows) {
  Comparison c{a.name, a.variant, b.variant};
  c.pairs = int(std::min(a.us.size(), b.us.size()));
  if (c.pairs == 0) return c;
  std::vector<double> logs;
  for (int i = 0; i < c.pairs; ++i) logs.push_back(std::log(b.us[size_t(i)] / a.us[size_t(i)]));
  double mean = 0, squares = 0;
  for (const double x : logs) mean += x / c.pairs;
  for (const double x : logs) squares += (x - mean) * (x - mean);
  c.ratio = std::exp(mean);
  c.least = std::exp(*std::min_element(logs.begin(), logs.end()));
  c.most = std::exp(*std::max_element(logs.begin(), logs.end()));
  c.high = std::numeric_limits<double>::infinity();
  if (c.pairs >= 2) {
    // Of many rows some would be beyond a single row's interval by chance: all of them share what
    // may be wrong.
    const double wrong = (1 - o.confidence) / std::max(rows, 1);
    const double half =
        student_quantile(1 - wrong, c.pairs - 1) * std::sqrt(squares / (c.pairs - 1) / c.pairs);
    c.low = std::exp(mean - half), c.high = std::exp(mean + half);
  }
  if (c.pairs < kLeastPairs) return c;
  c.verdict = c.low > 1 + o.margin && c.least > 1                     ? Verdict::slower
              : c.high < 1 / (1 + o.margin) && c.most < 1             ? Verdict::faster
              : c.low >= 1 / (1 + o.margin) && c.high <= 1 + o.margin ? Verdict::same
                                                                      : Verdict::undecided;
  return c;
}

std::vector<Comparison> compare_files(const TimedFile& a, const TimedFile& b,
                                      const CompareOptions& o,
                                      std::vector<std::string>* only_in_one) {
  std::map<std::string, const TimedRow*> of_b;
  for (const TimedRow& r : b.rows) of_b[r.name] = &r;
  std::vector<std::pair<const TimedRow*, const TimedRow*>> both;
  for (const TimedRow& r : a.rows) {
    if (const auto at = of_b.find(r.name); at != of_b.end()) {
      both.emplace_back(&r, at->second);
      of_b.erase(at);
    } else {
      only_in_one->push_back(r.name);
    }
  }
  for (const TimedRow& r : b.rows)
    if (of_b.contains(r.name)) only_in_one->push_back(r.name);
  std::vector<Comparison> all;
  for (const auto& [x, y] : both) all.push_back(compare_runs(*x, *y, o, int(both.size())));
  return all;
}

}  // namespace wt::tools
