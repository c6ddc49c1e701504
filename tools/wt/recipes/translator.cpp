#include "warptape/tools/wt/recipes/translator.h"

#include <algorithm>
#include <numeric>

#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/files/json.h"
#include "warptape/nn/evaluate.h"
#include "warptape/nn/seq2seq_decoder.h"

namespace wt::tools {
namespace {

// Bytes that are no UTF-8 become U+FFFD, line breaks a space: a translation is a line.
std::string as_line(std::string_view text) {
  std::string line;
  while (!text.empty()) {
    const size_t n = utf8_length(text);
    if (n == 0)
      line += "\uFFFD";
    else if (text[0] == '\n' || text[0] == '\r')
      line += ' ';
    else
      line += text.substr(0, n);
    text.remove_prefix(std::max<size_t>(n, 1));
  }
  return line;
}

// [n, longest] with begin and end.
Tensor source_of(const std::vector<std::vector<i64>>& sentences, std::span<const size_t> which) {
  size_t longest = 0;
  for (const size_t i : which) longest = std::max(longest, sentences[i].size() + 2);
  std::vector<i64> ids(which.size() * longest, Subwords::kPad);
  for (size_t r = 0; r < which.size(); ++r) {
    auto at = ids.begin() + i64(r * longest);
    *at++ = Subwords::kBegin;
    *std::copy(sentences[which[r]].begin(), sentences[which[r]].end(), at) = Subwords::kEnd;
  }
  return reshape(tensor(ids, {.device = Device::cpu()}), {i64(which.size()), i64(longest)});
}

models::NextLogits next_of(models::Seq2SeqDecoder& d) {
  return
      [&d](std::span<const i64> tokens, std::span<const i64> rows) { return d.next(tokens, rows); };
}

}  // namespace

Translator::Translator(models::Seq2Seq net, std::shared_ptr<const Subwords> words, i64 max_length)
    : net_(std::move(net)), words_(std::move(words)), max_length_(max_length) {
  const i64 rows = net_.options().target_vocabulary;
  if (words_->size() > rows)
    throw DataError(
        str("the tokenizer has ", words_->size(), " tokens, and the model knows ", rows));
}

models::SearchOptions Translator::search_options(const TranslateOptions& o) const {
  const i64 most = max_length_ + 1;  // with the end
  if (o.beam < 1 || o.batch < 1 || o.max_length < 0 || o.max_length > most)
    throw UsageError(str("[translate] a beam of ", o.beam, ", batches of ", o.batch,
                         " lines and at most ", o.max_length,
                         " tokens: at least 1, at least 1, and up to ", most,
                         ", which the model was trained for"));
  models::SearchOptions s{.begin = Subwords::kBegin,
                          .end = Subwords::kEnd,
                          .beam = o.beam,
                          .length_penalty = o.length_penalty,
                          .penalty = o.penalty,
                          .max_length = o.max_length > 0 ? o.max_length : most,
                          .never = {Subwords::kPad, Subwords::kBegin}};
  // Rows of the table that no token was learned for.
  for (i64 id = words_->size(); id < net_.options().target_vocabulary; ++id) s.never.push_back(id);
  return s;
}

std::string Translator::line_of(std::span<const i64> tokens) const {
  return as_line(words_->decode(tokens));
}

void Translator::translate_part(const std::vector<std::vector<i64>>& sentences,
                                const std::vector<size_t>& which,
                                const models::SearchOptions& search,
                                std::vector<Translation>& all) {
  const Device device = wt::detail::device_of_model(net_).value_or(Device::cpu());
  models::Seq2SeqDecoder decoder(net_, source_of(sentences, which).to(device));
  const i64 n = i64(which.size());
  if (search.beam == 1) {
    const auto found = models::greedy_search(n, next_of(decoder), search);
    for (size_t i = 0; i < which.size(); ++i) all[which[i]].text = line_of(found[i]);
    return;
  }
  const auto found = models::beam_search(n, next_of(decoder), search);
  for (size_t i = 0; i < which.size(); ++i) {
    all[which[i]].text = line_of(found[i][0].tokens);
    all[which[i]].score = found[i][0].score;
  }
}

std::vector<Translation> Translator::translate(const std::vector<std::string>& lines,
                                               const TranslateOptions& o) {
  const models::SearchOptions search = search_options(o);
  std::vector<Translation> all(lines.size());
  std::vector<std::vector<i64>> sentences;
  std::vector<size_t> order;
  for (size_t i = 0; i < lines.size(); ++i) {
    sentences.push_back(words_->encode(lines[i]));
    all[i].cut = std::max<i64>(0, i64(sentences[i].size()) - max_length_);
    if (all[i].cut > 0) sentences[i].resize(size_t(max_length_));
    if (!sentences[i].empty()) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return sentences[a].size() < sentences[b].size(); });
  for (size_t at = 0; at < order.size(); at += size_t(o.batch)) {
    const size_t end = std::min(order.size(), at + size_t(o.batch));
    translate_part(sentences, {order.begin() + i64(at), order.begin() + i64(end)}, search, all);
  }
  return all;
}

std::vector<std::pair<std::string, std::string>> Translator::compare(const data::Batch& b) {
  models::Seq2SeqDecoder decoder(net_, select(b.x, 1, 0));
  const auto found = models::greedy_search(b.size(), next_of(decoder), search_options({}));
  const std::vector<i64> wanted = b.y.to(Device::cpu()).to_vector<i64>();
  const i64 length = b.y.size(1);
  std::vector<std::pair<std::string, std::string>> all;
  for (i64 i = 0; i < b.size(); ++i) {
    std::vector<i64> tokens;
    for (i64 t = 0; t < length && wanted[size_t(i * length + t)] > Subwords::kEnd; ++t)
      tokens.push_back(wanted[size_t(i * length + t)]);
    all.emplace_back(line_of(found[size_t(i)]), words_->decode(tokens));
  }
  return all;
}

}  // namespace wt::tools
