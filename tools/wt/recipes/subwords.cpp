#include "warptape/tools/wt/recipes/subwords.h"

#include "warptape/core/error.h"

namespace wt::tools {
namespace {

// A merge does not cross a line break: it is white space before a word.
std::string text_of_both(const data::ParallelLines& lines) {
  std::string text;
  for (const auto* side : {&lines.source, &lines.target})
    for (const std::string& line : *side) (text += line) += '\n';
  return text;
}

}  // namespace

Subwords::Subwords(const data::ParallelLines& lines, i64 tokens)
    : bpe_(data::BpeTokenizer::train(text_of_both(lines), {.vocab_size = tokens - kFirst})) {}

Subwords::Subwords(std::string_view text, const std::string& source)
    : bpe_(data::BpeTokenizer::parse(text, source)) {}

std::vector<i64> Subwords::encode(std::string_view line) const {
  std::vector<i64> ids = bpe_.encode(line);
  for (i64& id : ids) id += kFirst;
  return ids;
}

std::string Subwords::decode(std::span<const i64> ids) const {
  std::vector<i64> own;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= size())
      throw IndexError(str("[translate] id ", ids[i], " at ", i, " is outside [0, ", size(), ")"));
    if (ids[i] >= kFirst) own.push_back(ids[i] - kFirst);
  }
  return bpe_.decode(own);
}

}  // namespace wt::tools
