// Tokenizers in files: our own text format, and GPT-2's pair.
//
//   warptape bpe 1
//   bytes ID ID ...             256 of them, of the bytes 0 to 255; - for one without a token
//   merges N
//   LEFT RIGHT ID               N lines; both sides are known before
//   specials M
//   ID "text"                   M lines, JSON strings
//   end
//
// Every id below the number of tokens is there once.
#include <algorithm>
#include <map>

#include "warptape/core/files/atomic_file.h"
#include "warptape/core/files/json.h"
#include "warptape/data/bpe.h"
#include "warptape/data/bytes.h"
#include "warptape/data/lines.h"
#include "warptape/data/text/bpe_train.h"

namespace wt::data {
namespace {

constexpr std::string_view kFirstLine = "warptape bpe 1";

// "NAME N" as N, which is a number of lines: no more than the text has bytes.
i64 counted(const Lines& lines, const Line& line, std::string_view name, u64 most) {
  const std::string start = std::string(name) + " ";
  if (!line.text.starts_with(start)) lines.fail(line, str("expected '", name, " N'"));
  const u64 n = lines.number<u64>(line, line.text.substr(start.size()), name);
  if (n > most) lines.fail(line, str(n, " ", name, ", there can be ", most));
  return i64(n);
}

// GPT-2 writes a byte as a character that can be seen: itself, or 256 and more.
std::map<u32, u8> seen_bytes() {
  std::map<u32, u8> bytes;
  u32 next = 256;
  for (u32 b = 0; b < 256; ++b) {
    const bool visible = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    bytes[visible ? b : next++] = u8(b);
  }
  return bytes;
}

std::unordered_map<std::string, i64> read_vocab(const std::string& path, const ParseLimits& limits,
                                                std::vector<std::string>& by_id) {
  const std::vector<u8> bytes = read_text(path, limits);
  JsonReader json(text_of(bytes), path, 0, limits);
  std::unordered_map<std::string, i64> ids;
  json.expect('{');
  if (!json.accept('}')) {
    do {
      if (ids.size() >= limits.max_items) json.fail(str("more than ", limits.max_items, " tokens"));
      std::string token = json.string();
      json.expect(':');
      const i64 id = i64(json.unsigned_int((u64{1} << 31) - 1));
      if (!ids.emplace(std::move(token), id).second) json.fail("a token is there twice");
    } while (json.accept(','));
    json.expect('}');
  }
  json.finish();
  by_id.resize(ids.size());
  for (const auto& [token, id] : ids) {
    if (id >= i64(ids.size()) || !by_id[size_t(id)].empty())
      data_error(path, 0,
                 str("the ids of ", ids.size(), " tokens are not the numbers below that: token '",
                     printable(token), "' has ", id));
    by_id[size_t(id)] = token;
  }
  return ids;
}

}  // namespace

void BpeTokenizer::save(const std::string& path) const { write_file_atomically(path, text()); }

std::string BpeTokenizer::text() const {
  std::string text = str(kFirstLine, "\nbytes");
  for (const i64 id : byte_ids_) text += id < 0 ? std::string(" -") : str(" ", id);
  text += str("\nmerges ", merges_.size(), "\n");
  for (const Merge& m : merges_) text += str(m.left, " ", m.right, " ", m.id, "\n");
  text += str("specials ", specials_.size(), "\n");
  for (const std::string& s : specials_) text += str(special_ids_.at(s), " ", json_quote(s), "\n");
  return text += "end\n";
}

BpeTokenizer BpeTokenizer::load(const std::string& path, const ParseLimits& limits) {
  const std::vector<u8> bytes = read_text(path, limits);
  return parse(text_of(bytes), path, limits);
}

BpeTokenizer BpeTokenizer::parse(std::string_view text, const std::string& path,
                                 const ParseLimits& limits) {
  Lines lines(path, text);
  std::vector<std::string_view> words;
  Line line = lines.require(kFirstLine);
  if (line.text != kFirstLine)
    lines.fail(line, str("not a tokenizer of this version: expected '", kFirstLine, "', got '",
                         printable(line.text, 40), "'"));
  BpeTokenizer t;
  std::vector<bool> known;
  // A new one.
  const auto read_id = [&](std::string_view word) {
    const u64 id = lines.number<u64>(line, word, "id");
    if (id >= u64{1} << 31 || id >= text.size()) lines.fail(line, str("id ", id, " is too large"));
    if (id >= known.size()) known.resize(id + 1), t.tokens_.resize(id + 1);
    if (known[id]) lines.fail(line, str("id ", id, " is there twice"));
    known[id] = true;
    return i64(id);
  };
  const auto old_id = [&](std::string_view word) {
    const u64 id = lines.number<u64>(line, word, "id");
    if (id >= known.size() || !known[id])
      lines.fail(line, str("id ", id, " is used before it is there"));
    return i64(id);
  };
  line = lines.require("the bytes");
  split_words(line.text, words);
  if (words.size() != 257 || words[0] != "bytes")
    lines.fail(line, str("expected 'bytes' and 256 ids, got ", words.size(), " words"));
  for (size_t b = 0; b < 256; ++b) {
    t.byte_ids_[b] = words[b + 1] == "-" ? -1 : read_id(words[b + 1]);
    if (t.byte_ids_[b] >= 0) t.tokens_[size_t(t.byte_ids_[b])] = char(b);
  }
  line = lines.require("the merges");
  const u64 most = std::min(limits.max_items, u64(text.size()));
  u64 token_bytes = 0;
  for (i64 n = counted(lines, line, "merges", most); n > 0; --n) {
    line = lines.require("the last merge");
    split_words(line.text, words);
    if (words.size() != 3) lines.fail(line, str("expected 3 ids, got ", words.size(), " words"));
    const i64 left = old_id(words[0]), right = old_id(words[1]);
    if (t.ranks_.contains(detail::pair_key(left, right)))
      lines.fail(line, str(left, " and ", right, " are merged twice"));
    // Each merge can double a token: thirty lines would make a gigabyte.
    token_bytes += t.tokens_[size_t(left)].size() + t.tokens_[size_t(right)].size();
    if (token_bytes > limits.max_inflated)
      lines.fail(line, str("tokens of more than ", limits.max_inflated,
                           " bytes (ParseLimits::max_inflated)"));
    // Another way to a token that is there is no new token.
    const u64 told = lines.number<u64>(line, words[2], "id");
    const bool there = told < known.size() && known[told] &&
                       t.tokens_[told] == t.tokens_[size_t(left)] + t.tokens_[size_t(right)];
    t.add_merge({left, right, there ? i64(told) : read_id(words[2])});
  }
  line = lines.require("the specials");
  for (i64 n = counted(lines, line, "specials", most); n > 0; --n) {
    line = lines.require("the last special token");
    const size_t space = std::min(line.text.find(' '), line.text.size());
    const i64 id = read_id(line.text.substr(0, space));
    JsonReader json(line.text.substr(space), path, line.byte + space, limits);
    std::string special = json.string();
    json.finish();
    if (special.empty() || t.special_ids_.contains(special))
      lines.fail(line, "a special token is empty or there twice");
    t.add_special(std::move(special), id);
  }
  line = lines.require("'end'");
  if (line.text != "end") lines.fail(line, "expected 'end'");
  if (const auto hole = std::find(known.begin(), known.end(), false); hole != known.end())
    lines.fail(line, str("id ", hole - known.begin(), " is missing"));
  if (lines.next(line)) lines.fail(line, "text after 'end'");
  return t;
}

BpeTokenizer BpeTokenizer::load_gpt2(const std::string& merges, const std::string& vocab,
                                     const ParseLimits& limits) {
  BpeTokenizer t;
  std::vector<std::string> by_id;
  const auto ids = read_vocab(vocab, limits, by_id);
  t.tokens_.resize(ids.size());
  std::vector<bool> made(ids.size());
  for (const auto& [seen, byte] : seen_bytes()) {
    const std::string token = seen < 128
                                  ? std::string(1, char(seen))
                                  : std::string{char(0xC0 | seen >> 6), char(0x80 | (seen & 63))};
    const auto found = ids.find(token);
    t.byte_ids_[byte] = found == ids.end() ? -1 : found->second;
    if (found == ids.end()) continue;
    t.tokens_[size_t(found->second)] = char(byte);
    made[size_t(found->second)] = true;
  }
  if (std::none_of(t.byte_ids_.begin(), t.byte_ids_.end(), [](i64 id) { return id >= 0; }))
    data_error(vocab, 0, "no token for any byte: this is no vocabulary in the form of GPT-2's");
  const std::vector<u8> bytes = read_text(merges, limits);
  Lines lines(merges, text_of(bytes));
  std::vector<std::string_view> words;
  for (Line line; lines.next(line);) {
    if (line.text.empty() || (line.number == 1 && line.text.starts_with("#version"))) continue;
    split_words(line.text, words);
    if (words.size() != 2) lines.fail(line, str("expected 2 tokens, got ", words.size()));
    const auto id_of = [&](const std::string& token) {
      const auto found = ids.find(token);
      if (found == ids.end())
        lines.fail(line, str("token '", printable(token), "' is not in ", printable_path(vocab)));
      return found->second;
    };
    const i64 left = id_of(std::string(words[0])), right = id_of(std::string(words[1]));
    const i64 id = id_of(std::string(words[0]) + std::string(words[1]));
    if (!made[size_t(left)] || !made[size_t(right)])
      lines.fail(line, "a token is merged before it is made");
    // Two pairs may make one token, as in lists that were made of a vocabulary's ranks. Of a pair
    // with two ranks GPT-2's own encoder takes the last one, others the first.
    if (t.ranks_.contains(detail::pair_key(left, right)))
      lines.fail(line, str("'", printable(words[0]), "' and '", printable(words[1]),
                           "' are merged twice"));
    made[size_t(id)] = true;
    t.add_merge({left, right, id});
  }
  for (size_t id = 0; id < by_id.size(); ++id)
    if (!made[id]) t.add_special(by_id[id], i64(id));
  return t;
}

}  // namespace wt::data
