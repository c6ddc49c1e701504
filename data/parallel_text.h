// Pairs of lines, one in each of two languages, as padded batches for translation.
//
//   const data::ParallelLines lines = data::read_parallel("train.en.gz", "train.de.gz");
//   const auto en = data::WordVocabulary::of(lines.source, {.min_count = 2});
//   const auto de = data::WordVocabulary::of(lines.target, {.min_count = 2});
//   const data::ParallelText set{lines, data::line_coder(en), data::line_coder(de)};
//   data::Loader loader{set, {.batch = 64, .sampler = data::bucket_sampler(set.lengths(), 64)}};
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "warptape/core/parse_limits.h"
#include "warptape/data/bpe.h"
#include "warptape/data/dataset.h"
#include "warptape/data/sampler.h"

namespace wt::data {

// Lines in two languages: line i of one is line i of the other.
struct ParallelLines {
  std::vector<std::string> source, target;  // without line ends
};
// The lines of two files of UTF-8, plain, gzip or xz, that end in \n or \r\n. Throws DataError with
// path and byte for what is no UTF-8 or has a NUL, and with both numbers for files of different
// numbers of lines.
WT_API ParallelLines read_parallel(const std::string& source, const std::string& target,
                                   const ParseLimits& limits = {});
// The lines of one such file, without their ends. Throws DataError as read_parallel() does, and for
// a line of more than limits.max_string bytes.
WT_API std::vector<std::string> read_lines(const std::string& path, const ParseLimits& limits = {});

// Which words get an id.
struct VocabularyOptions {
  i64 min_count = 1;  // rarer words are unknown
  i64 max_size = 0;   // with the special ones; 0: all words
};
// A vocabulary of words, which are what spaces and tabs part, by how often they are there; of
// equally frequent ones the smaller (by bytes) first. Ids 0 to 3 are <pad>, <unk>, <bos> and <eos>,
// which no word becomes.
class WT_API WordVocabulary {
 public:
  // The ids of <pad> (kPad), <unk> (kUnknown), <bos> (kBegin) and <eos> (kEnd).
  static constexpr i64 kPad = 0, kUnknown = 1, kBegin = 2, kEnd = 3;
  // The words of these lines. Throws UsageError for a min_count below 1 and for a max_size that
  // leaves no room for the special ones.
  static WordVocabulary of(const std::vector<std::string>& lines, const VocabularyOptions& o = {});
  // The number of words with the four special ones; ids are below it.
  i64 size() const { return i64(words_.size()); }
  // The ids of a line's words, kUnknown for those that have none; without beginning and end.
  std::vector<i64> encode(std::string_view line) const;
  // The words of these ids with a space between them, without padding, beginning and end. Throws
  // IndexError.
  std::string decode(std::span<const i64> ids) const;
  // The id of a word; kUnknown for one that is not there, and for the special ones' names.
  i64 id(std::string_view word) const;
  // The word of an id. Throws IndexError.
  const std::string& word(i64 id) const;

 private:
  std::vector<std::string> words_;  // by id
  std::unordered_map<std::string, i64> ids_;
};

// How lines become ids.
struct LineCoder {
  // The ids of a line, without padding, beginning and end.
  std::function<std::vector<i64>(std::string_view line)> encode;
  i64 pad = 0, begin = 0, end = 0;  // the ids of padding, beginning and end
};
// The coder of a vocabulary, which it owns.
WT_API LineCoder line_coder(WordVocabulary v);
// The coder of a tokenizer, which it owns, with its special tokens of these names. Throws
// UsageError if one is missing.
WT_API LineCoder line_coder(BpeTokenizer t, const std::string& pad = "<pad>",
                            const std::string& begin = "<bos>", const std::string& end = "<eos>");

// The lines of a batch of n pairs: begin, tokens, end, then padding as far as the longest one.
struct TextPairBatch {
  Tensor source, target;                  // [n, length] i64
  Tensor source_mask, target_mask;        // [n, length] boolean: true for tokens, false for padding
  Tensor source_lengths, target_lengths;  // [n] i64, with begin and end

  // The number of pairs n.
  i64 size() const { return source.size(0); }
  // Pointers to all six tensors: what a Loader or TrainStep moves to a device.
  std::array<Tensor*, 6> tensors() {
    return {&source, &target, &source_mask, &target_mask, &source_lengths, &target_lengths};
  }
  // Pairs [begin, begin + n) as views; their padding stays as long as the whole batch's.
  WT_API TextPairBatch narrow(i64 begin, i64 n) const;
};

// Which pairs ParallelText takes.
struct ParallelTextOptions {
  // Pairs with more tokens on one side, without begin and end, are left out; 0: none are.
  i64 max_length = 0;
};
// A dataset of pairs of lines as ids, with batches that are padded. Copies share the ids.
class WT_API ParallelText {
 public:
  // Encodes all lines, and keeps 8 bytes a token. Throws UsageError for different numbers of lines
  // or a limit below 0, DataError where no pair is left.
  ParallelText(const ParallelLines& lines, const LineCoder& source, const LineCoder& target,
               const ParallelTextOptions& o = {});
  // The number of pairs, without those that are left out.
  i64 size() const { return i64(lengths_->size()); }
  // These pairs, [n, length] on the cpu, each side as long as its longest line. Throws IndexError.
  TextPairBatch batch(std::span<const i64> indices) const;
  // The number of pairs that are longer than max_length.
  i64 left_out() const { return left_out_; }
  // The length of each pair with begin and end, that of its longer side: for bucket_sampler().
  const std::vector<i64>& lengths() const { return *lengths_; }

 private:
  struct Side;
  std::shared_ptr<const Side> source_, target_;
  std::shared_ptr<const std::vector<i64>> lengths_;
  i64 left_out_ = 0;
};

// How bucket_sampler() mixes samples.
struct BucketOptions {
  u64 seed = 0;         // of the orders
  bool shuffle = true;  // anew in each epoch; false: all sorted by length
  i64 pool = 100;       // so many batches' samples are sorted at a time
};
// A sampler for batches with little padding: all samples once an epoch, those of a batch of nearly
// one length: samples are shuffled, sorted by length in pools, and the batches shuffled again (but
// for a last one that is not full). An order depends on (seed, epoch) alone. Without shuffle: all
// sorted by length. The loader's batch must be the one given here. Throws UsageError for sizes
// below 1.
WT_API Sampler bucket_sampler(const std::vector<i64>& lengths, i64 batch,
                              const BucketOptions& o = {});

}  // namespace wt::data
