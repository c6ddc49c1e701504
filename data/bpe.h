// Tokenizers: text as numbers and back.
//
//   const auto t = data::BpeTokenizer::train_files({"input.txt"}, {.vocab_size = 1024});
//   const std::vector<i64> ids = t.encode("To be, or not to be");   // t.decode(ids) is the text
//   t.save("shakespeare.bpe");
#pragma once
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "warptape/core/macros.h"
#include "warptape/core/parse_limits.h"

namespace wt::data {

// A tokenizer whose tokens are single bytes: ids are their values.
class WT_API ByteTokenizer {
 public:
  // The number of tokens, 256.
  i64 vocab_size() const { return 256; }
  // One id in [0, 256) a byte of the text.
  std::vector<i64> encode(std::string_view text) const;
  // The bytes of these ids. Throws IndexError with the place of an id outside [0, 256).
  std::string decode(std::span<const i64> ids) const;
};

// How BpeTokenizer::train() makes a vocabulary.
struct BpeOptions {
  i64 vocab_size = 1024;  // 256 bytes, the merges and the special tokens; may come out smaller
  i64 min_count = 2;      // pairs that are rarer are not merged
  // UTF-8 that is a token of its own where encode_with_specials() sees it; the last ids, in order.
  std::vector<std::string> specials = {};
};

// Byte-pair encoding over bytes (Sennrich et al. 2016; Radford et al. 2019, "GPT-2"): any bytes can
// be encoded (unless load_gpt2() has read a vocabulary that lacks some), and decode() gives them
// back.
//
// Merges do not cross the pieces that text is cut into first: GPT-2's, 's|'t|'re|'ve|'m|'ll|'d,
// ` ?letters`, ` ?digits`, ` ?others`, white space without its last character before a word, white
// space. Letters and digits are ASCII's, and every byte above it counts as a letter: of text in
// ASCII the pieces are GPT-2's, of other text mostly (a dash of three bytes sticks to its words).
//
// train() merges the most frequent pair of neighbours; of equally frequent ones that with the
// smaller left id, then the smaller right one. So the result depends on the text alone.
class WT_API BpeTokenizer {
 public:
  // Learns merges from the text. Ids: 256 bytes, merges in their order, specials. Throws UsageError
  // for a vocabulary without room for bytes and specials or with more than 2^31 tokens, a min_count
  // below 1, 2^31 bytes and more of different pieces, and for specials that are empty, not UTF-8 or
  // there twice.
  static BpeTokenizer train(std::string_view text, const BpeOptions& o = {});
  // train() of the files' texts, plain or gzip, one after the other. Throws DataError for what is
  // missing.
  static BpeTokenizer train_files(const std::vector<std::string>& paths, const BpeOptions& o = {},
                                  const ParseLimits& limits = {});
  // The tokenizer that save() wrote. Throws DataError with path, byte and line: strict, nothing may
  // follow.
  static BpeTokenizer load(const std::string& path, const ParseLimits& limits = {});
  // A tokenizer of GPT-2's merges.txt and vocab.json (encoder.json). Tokens that no merge makes are
  // specials, and several pairs may make one token. A vocabulary may lack some of the 256 bytes, as
  // the tokenizers library trains it without initial_alphabet: encode() throws where it meets one.
  // Throws DataError as load() does, and for a pair that is there twice.
  static BpeTokenizer load_gpt2(const std::string& merges, const std::string& vocab,
                                const ParseLimits& limits = {});
  // Writes text() into a file, whole or not at all. Throws CheckpointError.
  void save(const std::string& path) const;
  // The text of the file that save() writes, for a tokenizer that lies in a larger file.
  std::string text() const;
  // The tokenizer that text() gave; errors call its place `source`. Throws as load() does.
  static BpeTokenizer parse(std::string_view text, const std::string& source,
                            const ParseLimits& limits = {});

  // The number of tokens: bytes, merges and specials. Ids are below it.
  i64 vocab_size() const { return i64(tokens_.size()); }
  // The ids of a text. Special tokens in it are text like any other: it may come from a stranger.
  // Throws UsageError for a byte that has no token, with its place.
  std::vector<i64> encode(std::string_view text) const;
  // The ids of a text in which special tokens become their ids; the longest of those that begin at
  // one place. Throws as encode().
  std::vector<i64> encode_with_specials(std::string_view text) const;
  // The bytes of the tokens, one after the other; they need not be UTF-8. Throws IndexError with
  // the place of an id outside [0, vocab_size).
  std::string decode(std::span<const i64> ids) const;
  // The bytes of a token. Throws IndexError.
  const std::string& token(i64 id) const;
  // The id of a special token. Throws UsageError, with a near one, for what is none.
  i64 special_id(std::string_view text) const;
  // The special tokens' texts, by their ids, or in the order of the file that load() read.
  const std::vector<std::string>& specials() const { return specials_; }

  // Two neighbours that become one token.
  struct Merge {
    i64 left, right, id;  // the ids of the two, and of the token that they become
    friend bool operator==(const Merge&, const Merge&) = default;
  };
  // All merges, in the order in which they apply.
  const std::vector<Merge>& merges() const { return merges_; }

  // The number of bytes of the first piece of a text, which must not be empty.
  static size_t first_piece(std::string_view text);

 private:
  BpeTokenizer() = default;
  void add_merge(const Merge& m);
  void add_special(std::string text, i64 id);
  // Throws for a byte without a token, of text that begins at `begin` of a larger one.
  void check_bytes(std::string_view text, size_t begin) const;
  void encode_piece(std::string_view piece, std::vector<i64>& ids) const;

  std::array<i64, 256> byte_ids_{};  // -1: there is no token for it
  std::vector<Merge> merges_;
  std::unordered_map<u64, i64> ranks_;  // of the merges, by left id << 32 | right id
  std::vector<std::string> tokens_;     // by id
  std::vector<std::string> specials_;
  std::unordered_map<std::string, i64> special_ids_;
};

}  // namespace wt::data
