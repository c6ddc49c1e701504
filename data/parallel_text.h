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

// Line i of one is line i of the other.
struct ParallelLines {
  std::vector<std::string> source, target;
};
// Lines of UTF-8, plain, gzip or xz, that end in \n or \r\n. Throws DataError with path and byte
// for what is no UTF-8 or has a NUL, and with both numbers for files of different numbers of lines.
WT_API ParallelLines read_parallel(const std::string& source, const std::string& target,
                                   const ParseLimits& limits = {});
WT_API std::vector<std::string> read_lines(const std::string& path, const ParseLimits& limits = {});

struct VocabularyOptions {
  i64 min_count = 1;  // rarer words are unknown
  i64 max_size = 0;   // with the special ones; 0: all words
};
// Words, which are what spaces and tabs part, by how often they are there; of equally frequent ones
// the smaller (by bytes) first. Ids 0 to 3 are <pad>, <unk>, <bos> and <eos>, which no word
// becomes.
class WT_API WordVocabulary {
 public:
  static constexpr i64 kPad = 0, kUnknown = 1, kBegin = 2, kEnd = 3;
  // Throws UsageError for options that make no sense.
  static WordVocabulary of(const std::vector<std::string>& lines, const VocabularyOptions& o = {});
  i64 size() const { return i64(words_.size()); }
  std::vector<i64> encode(std::string_view line) const;
  // Words with a space between them, without padding, beginning and end. Throws IndexError.
  std::string decode(std::span<const i64> ids) const;
  // kUnknown for what is not there.
  i64 id(std::string_view word) const;
  // Throws IndexError.
  const std::string& word(i64 id) const;

 private:
  std::vector<std::string> words_;  // by id
  std::unordered_map<std::string, i64> ids_;
};

// How lines become ids.
struct LineCoder {
  std::function<std::vector<i64>(std::string_view line)> encode;
  i64 pad = 0, begin = 0, end = 0;
};
// Coders own what they are given.
WT_API LineCoder line_coder(WordVocabulary v);
// Its special tokens of these names. Throws UsageError if one is missing.
WT_API LineCoder line_coder(BpeTokenizer t, const std::string& pad = "<pad>",
                            const std::string& begin = "<bos>", const std::string& end = "<eos>");

// Lines of a batch of n: begin, tokens, end, then padding as far as the longest one.
struct TextPairBatch {
  Tensor source, target;                  // [n, length] i64
  Tensor source_mask, target_mask;        // [n, length] boolean: true for tokens, false for padding
  Tensor source_lengths, target_lengths;  // [n] i64, with begin and end

  i64 size() const { return source.size(0); }
  std::array<Tensor*, 6> tensors() {
    return {&source, &target, &source_mask, &target_mask, &source_lengths, &target_lengths};
  }
  WT_API TextPairBatch narrow(i64 begin, i64 n) const;
};

struct ParallelTextOptions {
  i64 max_length = 0;  // pairs with more tokens on one side, without begin and end, are left out
};
class WT_API ParallelText {
 public:
  // Throws UsageError for different numbers of lines or a limit below 0, DataError where no pair is
  // left.
  ParallelText(const ParallelLines& lines, const LineCoder& source, const LineCoder& target,
               const ParallelTextOptions& o = {});
  i64 size() const { return i64(lengths_->size()); }
  TextPairBatch batch(std::span<const i64> indices) const;
  i64 left_out() const { return left_out_; }
  // Of each pair that of its longer side: for bucket_sampler().
  const std::vector<i64>& lengths() const { return *lengths_; }

 private:
  struct Side;
  std::shared_ptr<const Side> source_, target_;
  std::shared_ptr<const std::vector<i64>> lengths_;
  i64 left_out_ = 0;
};

struct BucketOptions {
  u64 seed = 0;
  bool shuffle = true;
  i64 pool = 100;  // so many batches' samples are sorted at a time
};
// All samples once an epoch, those of a batch of nearly one length: samples are shuffled, sorted by
// length in pools, and the batches shuffled again (but for a last one that is not full). An order
// depends on (seed, epoch) alone. Without shuffle: all sorted by length. The loader's batch must be
// the one given here. Throws UsageError for sizes below 1.
WT_API Sampler bucket_sampler(const std::vector<i64>& lengths, i64 batch,
                              const BucketOptions& o = {});

}  // namespace wt::data
