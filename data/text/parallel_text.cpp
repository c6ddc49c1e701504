#include "warptape/data/parallel_text.h"

#include <algorithm>
#include <numeric>

#include "warptape/core/factories.h"
#include "warptape/core/files/json.h"
#include "warptape/core/philox.h"
#include "warptape/data/bytes.h"
#include "warptape/data/lines.h"
#include "warptape/data/loader.h"

namespace wt::data {

std::vector<std::string> read_lines(const std::string& path, const ParseLimits& limits) {
  const std::vector<u8> bytes = read_text(path, limits);
  Lines lines(path, text_of(bytes));
  std::vector<std::string> all;
  for (Line line; lines.next(line);) {
    if (line.text.size() > limits.max_string)
      lines.fail(line, str(line.text.size(), " bytes, the limit is ", limits.max_string));
    for (size_t at = 0; at < line.text.size();) {
      const size_t n = utf8_length(line.text.substr(at));
      if (n == 0)
        data_error(path, line.byte + at,
                   str("line ", line.number, ": byte ", int(u8(line.text[at])), " is not UTF-8"));
      at += n;
    }
    all.emplace_back(line.text);
  }
  return all;
}

ParallelLines read_parallel(const std::string& source, const std::string& target,
                            const ParseLimits& limits) {
  ParallelLines lines{read_lines(source, limits), read_lines(target, limits)};
  if (lines.source.size() != lines.target.size())
    throw DataError(str(printable_path(source), " has ", lines.source.size(), " lines, ",
                        printable_path(target), " has ", lines.target.size(),
                        ": they are no translation of each other, line by line"));
  return lines;
}

WordVocabulary WordVocabulary::of(const std::vector<std::string>& lines,
                                  const VocabularyOptions& o) {
  if (o.min_count < 1 || o.max_size < 0 || (o.max_size > 0 && o.max_size <= kEnd))
    throw UsageError(str("[WordVocabulary] min_count ", o.min_count, " and max_size ", o.max_size,
                         " make no sense: at least 1, and 0 or more than ", kEnd));
  WordVocabulary v;
  v.words_ = {"<pad>", "<unk>", "<bos>", "<eos>"};
  std::unordered_map<std::string_view, i64> counts;
  std::vector<std::string_view> words;
  for (const std::string& line : lines) {
    split_words(line, words);
    for (const std::string_view w : words) ++counts[w];
  }
  std::vector<std::pair<i64, std::string_view>> order;
  for (const auto& [word, n] : counts)
    if (n >= o.min_count && std::find(v.words_.begin(), v.words_.end(), word) == v.words_.end())
      order.emplace_back(-n, word);
  std::sort(order.begin(), order.end());
  for (const auto& [n, word] : order) {
    if (o.max_size > 0 && v.size() >= o.max_size) break;
    v.ids_.emplace(word, v.size());
    v.words_.emplace_back(word);
  }
  return v;
}

i64 WordVocabulary::id(std::string_view word) const {
  const auto found = ids_.find(std::string(word));
  return found == ids_.end() ? kUnknown : found->second;
}

const std::string& WordVocabulary::word(i64 id) const {
  if (id < 0 || id >= size())
    throw IndexError(str("[WordVocabulary] id ", id, " is outside [0, ", size(), ")"));
  return words_[size_t(id)];
}

std::vector<i64> WordVocabulary::encode(std::string_view line) const {
  std::vector<std::string_view> words;
  split_words(line, words);
  std::vector<i64> ids;
  for (const std::string_view w : words) ids.push_back(id(w));
  return ids;
}

std::string WordVocabulary::decode(std::span<const i64> ids) const {
  std::string line;
  for (const i64 id : ids) {
    const std::string& w = word(id);
    if (id == kPad || id == kBegin || id == kEnd) continue;
    if (!line.empty()) line += ' ';
    line += w;
  }
  return line;
}

LineCoder line_coder(WordVocabulary v) {
  const auto own = std::make_shared<const WordVocabulary>(std::move(v));
  return {[own](std::string_view line) { return own->encode(line); }, WordVocabulary::kPad,
          WordVocabulary::kBegin, WordVocabulary::kEnd};
}

LineCoder line_coder(BpeTokenizer t, const std::string& pad, const std::string& begin,
                     const std::string& end) {
  const auto own = std::make_shared<const BpeTokenizer>(std::move(t));
  return {[own](std::string_view line) { return own->encode(line); }, own->special_id(pad),
          own->special_id(begin), own->special_id(end)};
}

TextPairBatch TextPairBatch::narrow(i64 begin, i64 n) const {
  return {source.narrow(0, begin, n),         target.narrow(0, begin, n),
          source_mask.narrow(0, begin, n),    target_mask.narrow(0, begin, n),
          source_lengths.narrow(0, begin, n), target_lengths.narrow(0, begin, n)};
}

// The lines of one language, one behind the other, with beginning and end.
struct ParallelText::Side {
  std::vector<i64> ids;
  std::vector<size_t> begin{0};
  i64 pad = 0;

  void add(const LineCoder& coder, const std::vector<i64>& line) {
    ids.push_back(coder.begin);
    ids.insert(ids.end(), line.begin(), line.end());
    ids.push_back(coder.end);
    begin.push_back(ids.size());
  }
  i64 length(i64 i) const { return i64(begin[size_t(i) + 1] - begin[size_t(i)]); }

  void pad_to(std::span<const i64> indices, Tensor& tokens, Tensor& mask, Tensor& lengths) const {
    const i64 n = i64(indices.size());
    i64 longest = 0;
    for (const i64 i : indices) longest = std::max(longest, length(i));
    tokens = full({n, longest}, pad, {.dtype = DType::i64, .device = Device::cpu()});
    mask = zeros({n, longest}, {.dtype = DType::boolean, .device = Device::cpu()});
    lengths = empty({n}, {.dtype = DType::i64, .device = Device::cpu()});
    for (i64 row = 0; row < n; ++row) {
      const i64 i = indices[size_t(row)], count = length(i);
      std::copy_n(ids.begin() + i64(begin[size_t(i)]), count,
                  tokens.mutable_data<i64>() + row * longest);
      std::fill_n(mask.mutable_data<bool>() + row * longest, count, true);
      lengths.mutable_data<i64>()[row] = count;
    }
  }
};

ParallelText::ParallelText(const ParallelLines& lines, const LineCoder& source,
                           const LineCoder& target, const ParallelTextOptions& o) {
  if (lines.source.size() != lines.target.size() || o.max_length < 0)
    throw UsageError(str("[ParallelText] ", lines.source.size(), " and ", lines.target.size(),
                         " lines with max_length ", o.max_length, " make no sense"));
  auto from = std::make_shared<Side>(), to = std::make_shared<Side>();
  auto lengths = std::make_shared<std::vector<i64>>();
  from->pad = source.pad;
  to->pad = target.pad;
  for (size_t i = 0; i < lines.source.size(); ++i) {
    const std::vector<i64> s = source.encode(lines.source[i]), t = target.encode(lines.target[i]);
    const i64 longer = i64(std::max(s.size(), t.size()));
    if (o.max_length > 0 && longer > o.max_length) {
      ++left_out_;
      continue;
    }
    from->add(source, s);
    to->add(target, t);
    lengths->push_back(longer + 2);
  }
  if (lengths->empty())
    throw DataError(str("[ParallelText] of ", lines.source.size(),
                        " pairs none is left within a length of ", o.max_length));
  source_ = std::move(from);
  target_ = std::move(to);
  lengths_ = std::move(lengths);
}

TextPairBatch ParallelText::batch(std::span<const i64> indices) const {
  for (const i64 i : indices) detail::check_sample("ParallelText", i, size());
  TextPairBatch b;
  source_->pad_to(indices, b.source, b.source_mask, b.source_lengths);
  target_->pad_to(indices, b.target, b.target_mask, b.target_lengths);
  return b;
}

Sampler bucket_sampler(const std::vector<i64>& lengths, i64 batch, const BucketOptions& o) {
  if (lengths.empty() || batch < 1 || o.pool < 1)
    throw UsageError(str("[bucket_sampler] ", lengths.size(), " lengths, batches of ", batch,
                         " and pools of ", o.pool, ": each must be at least 1"));
  const auto own = std::make_shared<const std::vector<i64>>(lengths);
  return [own, batch, o](i64 epoch) {
    const i64 n = i64(own->size());
    std::vector<i64> order = epoch_order(n, o.shuffle, o.seed, epoch);
    const i64 pool = o.shuffle && o.pool < n / batch ? o.pool * batch : n;
    for (i64 begin = 0; begin < n; begin += pool)
      std::stable_sort(order.begin() + begin, order.begin() + std::min(begin + pool, n),
                       [&](i64 a, i64 b) { return (*own)[size_t(a)] < (*own)[size_t(b)]; });
    if (!o.shuffle) return order;
    std::vector<i64> mixed;
    mixed.reserve(order.size());
    // Another order than that of the samples.
    for (const i64 k : epoch_order(n / batch, true, mix64(o.seed + 1), epoch))
      mixed.insert(mixed.end(), order.begin() + k * batch, order.begin() + (k + 1) * batch);
    mixed.insert(mixed.end(), order.begin() + n / batch * batch, order.end());
    return mixed;
  };
}

}  // namespace wt::data
