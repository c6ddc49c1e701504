// Sentences in two languages, as the recipe `translate` reads them.
#pragma once
#include <memory>
#include <string>

#include "warptape/data/dataset.h"
#include "warptape/tools/wt/recipes/subwords.h"

namespace wt::tools {

struct Languages {
  std::string source, target;  // "en", "de"
};

// train.LANGUAGE and val.LANGUAGE of a folder, plain, .gz or .xz.
struct PairFiles {
  std::string train_source, train_target, held_source, held_target;
};
// Throws DataError that names all that are missing.
PairFiles find_pair_files(const std::string& folder, const Languages& l);

// Made up: few words in an order that the target turns round.
data::ParallelLines synthetic_pairs(i64 first, i64 count);

struct PairLimits {
  i64 max_length = 0;   // tokens of a side, without beginning and end
  i64 pad_to = 1;       // lengths of batches are multiples of this
  bool sorted = false;  // short ones first
};
// Batches of pairs: x i64 [N, 2, L] has source (begin, tokens, end) and target (begin, tokens),
// each padded to the longest of both; y [N, L] has what follows each place of the target, -100
// where nothing does. A Dataset.
class SentencePairs {
 public:
  // Throws DataError, with `what`, where no pair is left.
  SentencePairs(const data::ParallelLines& lines, const std::shared_ptr<const Subwords>& words,
                const PairLimits& limits, const std::string& what);
  i64 size() const { return text_->size(); }
  data::Batch batch(std::span<const i64> indices) const;
  const std::vector<i64>& lengths() const { return text_->lengths(); }
  // What was left out: "held-out: 3 of 1014 pairs are left out: ..."; empty: nothing.
  const std::string& remark() const { return remark_; }

 private:
  std::shared_ptr<const data::ParallelText> text_;
  i64 pad_to_;
  std::string remark_;
};

// The length of the x that a pair of `max_length` tokens a side gives.
i64 padded_length(const PairLimits& limits);

}  // namespace wt::tools
