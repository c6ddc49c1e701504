// Text from a model that translates.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "warptape/data/dataset.h"
#include "warptape/nn/beam_search.h"
#include "warptape/nn/seq2seq.h"
#include "warptape/tools/wt/recipes/subwords.h"

namespace wt::tools {

struct TranslateOptions {
  i64 beam = 1;  // 1: greedy
  double length_penalty = 0.6;
  models::LengthPenalty penalty = models::LengthPenalty::wu;
  i64 max_length = 0;  // tokens of a translation; 0: as many as in training
  i64 batch = 64;      // lines at a time
};

struct Translation {
  std::string text;  // one line of UTF-8
  double score = 0;  // of a beam (nn/beam_search.h); 0 for greedy ones
  i64 cut = 0;       // tokens at the end of the line that the model did not see
};

class Translator {
 public:
  // `max_length`: of sentences in training, in tokens. Throws DataError unless the model has a row
  // for each token.
  Translator(models::Seq2Seq net, std::shared_ptr<const Subwords> words, i64 max_length);

  // Of each line; of an empty line an empty one. Lines of one length go together; the result does
  // not depend on that but for roundings. Throws UsageError for options that make no sense.
  std::vector<Translation> translate(const std::vector<std::string>& lines,
                                     const TranslateOptions& o = {});
  // What the model greedily makes of each sample of a recipe's batch, and what was wanted. The
  // batch is on the model's device.
  std::vector<std::pair<std::string, std::string>> compare(const data::Batch& b);

 private:
  models::SearchOptions search_options(const TranslateOptions& o) const;
  std::string line_of(std::span<const i64> tokens) const;
  void translate_part(const std::vector<std::vector<i64>>& sentences,
                      const std::vector<size_t>& which, const models::SearchOptions& search,
                      std::vector<Translation>& all);

  models::Seq2Seq net_;
  std::shared_ptr<const Subwords> words_;
  i64 max_length_;
};

}  // namespace wt::tools
