#include "warptape/nn/bleu.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <span>

#include "warptape/core/error.h"
#include "warptape/version.h"

namespace wt::metrics {
namespace {

// How often each n-gram of 1 to 4 words is there.
using GramCounts = std::map<std::vector<std::string>, i64>;
GramCounts ngrams(const std::vector<std::string>& words) {
  GramCounts counts;
  for (size_t n = 1; n <= size_t(kBleuOrders); ++n)
    for (size_t i = 0; i + n <= words.size(); ++i)
      ++counts[std::vector<std::string>(words.begin() + i64(i), words.begin() + i64(i + n))];
  return counts;
}

std::string fixed_text(double v, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, v);
  return text;
}

}  // namespace

void Bleu::add(std::string_view line, const std::vector<std::string>& references) {
  if (references.empty()) throw UsageError("[bleu] a line has no reference");
  const std::vector<std::string> words = tokenize_13a(line);
  const i64 length = i64(words.size());
  GramCounts most;   // of any reference
  i64 nearest = -1;  // the length of the one that is nearest in length, of two the shorter one
  for (const std::string& r : references) {
    const std::vector<std::string> other = tokenize_13a(r);
    const i64 n = i64(other.size()), far = std::abs(n - length), best = std::abs(nearest - length);
    if (nearest < 0 || far < best || (far == best && n < nearest)) nearest = n;
    for (const auto& [gram, count] : ngrams(other)) most[gram] = std::max(most[gram], count);
  }
  for (const auto& [gram, count] : ngrams(words)) {
    all_[gram.size() - 1] += count;
    if (const auto found = most.find(gram); found != most.end())
      right_[gram.size() - 1] += std::min(count, found->second);
  }
  length_ += length;
  reference_length_ += nearest;
  const i64 n = i64(references.size());
  references_ += n;
  references_squared_ += n * n;
  ++lines_;
}

BleuScore Bleu::value() const {
  const bool alike = lines_ * references_squared_ == references_ * references_;  // of each line
  BleuScore s{.length = length_,
              .reference_length = reference_length_,
              .references = alike ? references_ / std::max<i64>(1, lines_) : -1,
              .smoothing = o_.smoothing};
  if (length_ < reference_length_)
    s.brevity_penalty = length_ > 0 ? std::exp(1 - double(reference_length_) / double(length_)) : 0;
  if (std::all_of(right_.begin(), right_.end(), [](i64 n) { return n == 0; })) return s;
  double smoothed = 1, logs = 0;
  for (size_t n = 0; n < right_.size() && all_[n] > 0; ++n) {
    if (right_[n] > 0)
      s.precisions[n] = 100.0 * double(right_[n]) / double(all_[n]);
    else if (o_.smoothing == BleuSmoothing::exp)
      s.precisions[n] = 100.0 / ((smoothed *= 2) * double(all_[n]));
  }
  for (const double p : s.precisions) logs += std::log(p);  // of 0: minus infinity, and so is all
  s.score = s.brevity_penalty * std::exp(logs / kBleuOrders);
  return s;
}

std::vector<double> Bleu::sums() const {
  std::vector<double> all{double(length_), double(reference_length_), double(lines_),
                          double(references_), double(references_squared_)};
  for (const i64 n : right_) all.push_back(double(n));
  for (const i64 n : all_) all.push_back(double(n));
  return all;
}

void Bleu::set_sums(const std::vector<double>& sums) {
  if (sums.size() != 5 + 2 * right_.size())
    throw UsageError(str("[bleu] ", 5 + 2 * right_.size(), " sums, got ", sums.size()));
  length_ = i64(sums[0]), reference_length_ = i64(sums[1]), lines_ = i64(sums[2]);
  references_ = i64(sums[3]), references_squared_ = i64(sums[4]);
  for (size_t n = 0; n < right_.size(); ++n) {
    right_[n] = i64(sums[5 + n]);
    all_[n] = i64(sums[5 + right_.size() + n]);
  }
}

BleuScore bleu(const std::vector<std::string>& lines,
               const std::vector<std::vector<std::string>>& references, const BleuOptions& o) {
  std::string wrong;
  for (size_t r = 0; r < references.size(); ++r)
    if (references[r].size() != lines.size())
      wrong += str(wrong.empty() ? "" : ", ", "set ", r, " has ", references[r].size());
  if (!wrong.empty())
    throw UsageError(str("[bleu] references for ", lines.size(), " lines: ", wrong));
  if (lines.empty() || references.empty())
    throw UsageError(
        str("[bleu] ", lines.size(), " lines and ", references.size(), " sets of references"));
  Bleu all(o);
  for (size_t i = 0; i < lines.size(); ++i) {
    std::vector<std::string> of_line;
    for (const std::vector<std::string>& set : references) of_line.push_back(set[i]);
    all.add(lines[i], of_line);
  }
  return all.value();
}

std::string BleuScore::signature() const {
  const std::string n = references < 0 ? "var" : std::to_string(references);
  return str("nrefs:", n,
             "|case:mixed|eff:no|tok:13a|smooth:", smoothing == BleuSmoothing::exp ? "exp" : "none",
             "|version:warptape-", WARPTAPE_VERSION_STRING);
}

std::string BleuScore::text() const {
  std::string parts;
  for (const double p : precisions) parts += (parts.empty() ? "" : "/") + fixed_text(p, 1);
  const double ratio = reference_length ? double(length) / double(reference_length) : 0;
  return str("BLEU|", signature(), " = ", fixed_text(score, 2), " ", parts,
             " (BP = ", fixed_text(brevity_penalty, 3), " ratio = ", fixed_text(ratio, 3),
             " hyp_len = ", length, " ref_len = ", reference_length, ")");
}

}  // namespace wt::metrics
