#include "warptape/data/bpe.h"

#include <algorithm>
#include <queue>

#include "warptape/core/error.h"
#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/core/suggest.h"
#include "warptape/data/bytes.h"
#include "warptape/data/text/bpe_train.h"

namespace wt::data {
namespace {

[[noreturn]] void bad_id(const char* who, i64 id, size_t at, i64 n) {
  throw IndexError(str("[", who, "] id ", id, " at ", at, " is outside [0, ", n, ")"));
}

enum class Kind { space, letter, digit, other };
Kind kind_of(char c) {
  const u8 b = u8(c);
  if (b == ' ' || (b >= '\t' && b <= '\r')) return Kind::space;
  if (b >= 0x80 || (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z')) return Kind::letter;
  return b >= '0' && b <= '9' ? Kind::digit : Kind::other;
}
// From `at` on, where they are of one kind.
size_t run_end(std::string_view text, size_t at) {
  const Kind kind = kind_of(text[at]);
  while (at < text.size() && kind_of(text[at]) == kind) ++at;
  return at;
}

}  // namespace

std::vector<i64> ByteTokenizer::encode(std::string_view text) const {
  std::vector<i64> ids;
  ids.reserve(text.size());
  for (const char c : text) ids.push_back(u8(c));
  return ids;
}

std::string ByteTokenizer::decode(std::span<const i64> ids) const {
  std::string text;
  text.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] > 255) bad_id("ByteTokenizer", ids[i], i, 256);
    text += char(ids[i]);
  }
  return text;
}

size_t BpeTokenizer::first_piece(std::string_view text) {
  if (text[0] == '\'')
    for (const std::string_view short_form : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
      if (text.starts_with(short_form)) return short_form.size();
  const size_t word = text[0] == ' ' ? 1 : 0;
  if (word < text.size() && kind_of(text[word]) != Kind::space) return run_end(text, word);
  const size_t end = run_end(text, 0);
  return end == text.size() || end == 1 ? end : end - 1;
}

void BpeTokenizer::add_merge(const Merge& m) {
  ranks_.emplace(detail::pair_key(m.left, m.right), i64(merges_.size()));
  merges_.push_back(m);
  tokens_[size_t(m.id)] = tokens_[size_t(m.left)] + tokens_[size_t(m.right)];
}

void BpeTokenizer::add_special(std::string text, i64 id) {
  tokens_[size_t(id)] = text;
  special_ids_.emplace(text, id);
  specials_.push_back(std::move(text));
}

BpeTokenizer BpeTokenizer::train(std::string_view text, const BpeOptions& o) {
  const i64 room = o.vocab_size - 256 - i64(o.specials.size());
  if (room < 0 || o.vocab_size > i64{1} << 31)
    throw UsageError(str("[BpeTokenizer] a vocabulary of ", o.vocab_size, " for 256 bytes and ",
                         o.specials.size(), " special tokens"));
  if (o.min_count < 1)
    throw UsageError(str("[BpeTokenizer] min_count must be at least 1, got ", o.min_count));
  const std::vector<detail::Pair> pairs = detail::train_merges(text, room, o.min_count);
  BpeTokenizer t;
  t.tokens_.resize(256 + pairs.size() + o.specials.size());
  for (int b = 0; b < 256; ++b) t.byte_ids_[size_t(b)] = b, t.tokens_[size_t(b)] = char(b);
  i64 id = 256;
  for (const detail::Pair& p : pairs) t.add_merge({p.left, p.right, id++});
  for (const std::string& s : o.specials) {
    if (s.empty() || !is_utf8(s) || t.special_ids_.contains(s))
      throw UsageError("[BpeTokenizer] special token '" + printable(s) +
                       "' is empty, not UTF-8 or there twice");
    t.add_special(s, id++);
  }
  return t;
}

BpeTokenizer BpeTokenizer::train_files(const std::vector<std::string>& paths, const BpeOptions& o,
                                       const ParseLimits& limits) {
  std::vector<u8> all;
  for (const std::string& path : paths) {
    const std::vector<u8> bytes = read_bytes(path, limits);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return train(text_of(all), o);
}

// The merge of lowest rank first, at its leftmost place first. With a heap, because a stranger's
// text may be one piece of a million letters.
void BpeTokenizer::encode_piece(std::string_view piece, std::vector<i64>& ids) const {
  struct Symbol {
    i64 id;
    i64 before, after;  // -1: none
  };
  const i64 n = i64(piece.size());
  std::vector<Symbol> symbols(piece.size());
  using Candidate = std::pair<i64, i64>;  // rank, place
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap;
  const auto offer = [&](i64 at) {
    const i64 after = at < 0 ? -1 : symbols[size_t(at)].after;
    if (after < 0) return;
    const auto found =
        ranks_.find(detail::pair_key(symbols[size_t(at)].id, symbols[size_t(after)].id));
    if (found != ranks_.end()) heap.emplace(found->second, at);
  };
  for (i64 i = 0; i < n; ++i)
    symbols[size_t(i)] = {byte_ids_[u8(piece[size_t(i)])], i - 1, i + 1 < n ? i + 1 : -1};
  for (i64 i = 0; i < n; ++i) offer(i);
  while (!heap.empty()) {
    const auto [rank, at] = heap.top();
    heap.pop();
    Symbol& left = symbols[size_t(at)];
    const Merge& m = merges_[size_t(rank)];
    if (left.id != m.left || left.after < 0 || symbols[size_t(left.after)].id != m.right) continue;
    Symbol& right = symbols[size_t(left.after)];
    left.id = m.id;
    left.after = right.after;
    right.id = -1;
    if (left.after >= 0) symbols[size_t(left.after)].before = at;
    offer(left.before);
    offer(at);
  }
  for (i64 i = 0; i >= 0 && i < n; i = symbols[size_t(i)].after)
    ids.push_back(symbols[size_t(i)].id);
}

void BpeTokenizer::check_bytes(std::string_view text, size_t begin) const {
  if (std::find(byte_ids_.begin(), byte_ids_.end(), -1) == byte_ids_.end()) return;
  for (size_t i = 0; i < text.size(); ++i)
    if (byte_ids_[u8(text[i])] < 0)
      throw UsageError(str("[BpeTokenizer] byte ", int(u8(text[i])), " at ", begin + i,
                           " has no token: the vocabulary was trained on text without it, and not "
                           "with all bytes (the tokenizers library's initial_alphabet)"));
}

std::vector<i64> BpeTokenizer::encode(std::string_view text) const {
  check_bytes(text, 0);
  std::vector<i64> ids;
  // Words come again and again: where each was first encoded to.
  std::unordered_map<std::string_view, std::pair<size_t, size_t>> known;
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, first_piece(text));
    text.remove_prefix(piece.size());
    const size_t begin = ids.size();
    if (const auto found = known.find(piece); found != known.end()) {
      for (size_t i = found->second.first; i < found->second.second; ++i) {
        const i64 id = ids[i];
        ids.push_back(id);
      }
    } else {
      encode_piece(piece, ids);
      known.emplace(piece, std::pair(begin, ids.size()));
    }
  }
  return ids;
}

std::vector<i64> BpeTokenizer::encode_with_specials(std::string_view text) const {
  std::vector<i64> ids;
  const auto append = [&](std::string_view part) {
    check_bytes(part, size_t(part.data() - text.data()));
    const std::vector<i64> more = encode(part);
    ids.insert(ids.end(), more.begin(), more.end());
  };
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const std::string* longest = nullptr;
    for (const std::string& s : specials_)
      if (text.substr(at).starts_with(s) && (!longest || s.size() > longest->size())) longest = &s;
    if (!longest) {
      ++at;
      continue;
    }
    append(text.substr(begin, at - begin));
    ids.push_back(special_ids_.at(*longest));
    begin = at += longest->size();
  }
  append(text.substr(begin));
  return ids;
}

const std::string& BpeTokenizer::token(i64 id) const {
  if (id < 0 || id >= vocab_size()) bad_id("BpeTokenizer", id, 0, vocab_size());
  return tokens_[size_t(id)];
}

std::string BpeTokenizer::decode(std::span<const i64> ids) const {
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size()) bad_id("BpeTokenizer", ids[i], i, vocab_size());
    text += tokens_[size_t(ids[i])];
  }
  return text;
}

i64 BpeTokenizer::special_id(std::string_view text) const {
  const auto found = special_ids_.find(std::string(text));
  if (found == special_ids_.end())
    throw UsageError("[BpeTokenizer] there is no special token '" + printable(text) + "'" +
                     did_you_mean(std::string(text), specials_));
  return found->second;
}

}  // namespace wt::data
