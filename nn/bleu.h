// BLEU (Papineni et al. 2002, "BLEU: a method for automatic evaluation of machine translation") as
// sacrebleu counts it (Post 2018, arXiv:1804.08771): the same number for the same strings.
//
//   const metrics::BleuScore s = metrics::bleu(translations, {references});
//   std::printf("%s\n", s.text().c_str());
//   // BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:... = 36.37 68.8/42.9/... (BP =
//   ...
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt::metrics {

// What an order without a match has as its precision. exp: 100 / (2^k n-grams) for the k-th such
// order (Chen and Cherry 2014, method 3). none: 0, and so has the whole. Where no order has a match
// the score is 0 either way.
enum class BleuSmoothing : u8 { exp, none };

// How BLEU is counted; the rest is as sacrebleu does by default.
struct BleuOptions {
  BleuSmoothing smoothing = BleuSmoothing::exp;  // of orders without a match
};

inline constexpr int kBleuOrders = 4;  // n-grams of 1 to 4 words

// A score, with what it is made of.
struct WT_API BleuScore {
  double score = 0;                                      // 0 to 100
  std::array<double, size_t(kBleuOrders)> precisions{};  // in percent, smoothed
  double brevity_penalty = 1;            // exp(1 - reference_length / length) where that is below 1
  i64 length = 0, reference_length = 0;  // words: of the lines, of the nearest references
  i64 references = 1;                    // of each line; -1: not equally many
  BleuSmoothing smoothing = BleuSmoothing::exp;  // as it was asked for

  // How it was counted, in sacrebleu's form:
  // "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:warptape-0.1.0".
  std::string signature() const;
  // In sacrebleu's form: name, signature, score, precisions, brevity penalty, lengths.
  std::string text() const;
};

// Counts of a corpus, line by line. BLEU is of the whole: it is no mean over lines.
class WT_API Bleu {
 public:
  // Nothing is counted yet.
  explicit Bleu(const BleuOptions& o = {}) : o_(o) {}
  // A line with those that it may equal, UTF-8. Either may be empty: an empty reference is one of
  // no words. Throws UsageError without a reference.
  void add(std::string_view line, const std::vector<std::string>& references);
  // The score of all lines so far; of none, 0.
  BleuScore value() const;
  // What was counted, as 13 numbers that add up over parts of the lines.
  std::vector<double> sums() const;
  // Counts that sums() gave, or a sum of such, in the place of what was counted. Throws UsageError
  // for another number of them.
  void set_sums(const std::vector<double>& sums);

 private:
  BleuOptions o_;
  i64 length_ = 0, reference_length_ = 0, lines_ = 0;
  i64 references_ = 0, references_squared_ = 0;  // of each line, summed
  std::array<i64, size_t(kBleuOrders)> right_{}, all_{};
};

// The score of `lines`, a translation each. `references` are sets, each with one reference for
// every line. Throws UsageError for sets of another length, naming all that are, and where there
// are no lines or no sets.
WT_API BleuScore bleu(const std::vector<std::string>& lines,
                      const std::vector<std::vector<std::string>>& references,
                      const BleuOptions& o = {});

// Words as mteval-v13a parts them: punctuation stands alone, but for what is inside of numbers and
// for apostrophes and hyphens inside of words; &quot; &amp; &lt; &gt; are their characters.
WT_API std::vector<std::string> tokenize_13a(std::string_view line);

}  // namespace wt::metrics
