// The tokens of a translation model: those of a byte-pair encoding behind three of its own.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "warptape/data/parallel_text.h"

namespace wt::tools {

class Subwords {
 public:
  static constexpr i64 kPad = 0, kBegin = 1, kEnd = 2, kFirst = 3;  // the encoding's from kFirst on

  // Learns from lines of both languages: at most `tokens` in all. Throws UsageError for fewer than
  // kLeast.
  static constexpr i64 kLeast = 256 + kFirst;
  Subwords(const data::ParallelLines& lines, i64 tokens);
  // What text() gave. Throws DataError, which names `source`.
  Subwords(std::string_view text, const std::string& source);
  std::string text() const { return bpe_.text(); }

  i64 size() const { return bpe_.vocab_size() + kFirst; }
  // Without beginning and end.
  std::vector<i64> encode(std::string_view line) const;
  // Without the three. Throws IndexError for ids beyond size().
  std::string decode(std::span<const i64> ids) const;

 private:
  data::BpeTokenizer bpe_;
};

}  // namespace wt::tools
