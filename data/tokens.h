// Texts that are tokenized already: files of token ids, and windows of them.
//
//   const data::TokenFile f = data::read_tokens("train.bin", {.vocab_size = 50257});
//   data::Loader loader{data::TokenWindows{f.tokens, {.context = 256}}, {.shuffle = true}};
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "warptape/core/parse_limits.h"
#include "warptape/data/dataset.h"

namespace wt::data {

enum class TokenFormat {
  automatic,  // llm_c if the file begins with its magic and version, else raw16
  raw16,      // little-endian u16, nothing else (nanoGPT)
  raw32,      // little-endian u32
  llm_c,      // 256 i32: 20240520, 1, the number of tokens, zeros; then u16
};

struct TokenFileOptions {
  TokenFormat format = TokenFormat::automatic;
  i64 vocab_size = i64{1} << 31;  // tokens are below it
};

struct TokenFile {
  Tensor tokens;  // [N] i32 on the cpu
  TokenFormat format = TokenFormat::raw16;
};

// Plain, gzip or xz. Throws DataError with path and byte for a size that is no whole number of
// tokens, a header of another version or of another number of tokens than there are, and a token
// outside the vocabulary; UsageError for a vocabulary of less than 1 or more than 2^31.
WT_API TokenFile read_tokens(const std::string& path, const TokenFileOptions& o = {},
                             const ParseLimits& limits = {});

// Written whole or not at all. `automatic` is raw16 where all tokens fit, else raw32. Throws
// IndexError with the place of a token that the format does not hold, UsageError for llm_c with
// 2^31 or more tokens, CheckpointError for what cannot be written.
WT_API void write_tokens(const std::string& path, std::span<const i64> tokens,
                         TokenFormat format = TokenFormat::automatic);

struct TokenWindowsOptions {
  i64 context = 64;
  i64 stride = 0;   // from one window to the next; 0: the context, each token is x once
  i64 samples = 0;  // above 0: so many windows an epoch at places drawn by (seed, epoch, sample)
  u64 seed = 0;
};
// Sample i: x = tokens [s, s + context), y = tokens [s + 1, s + context + 1), both i64 [n,
// context]. s is i * stride, or drawn uniformly (nanoGPT's batches) with Philox stream `shuffle`.
class WT_API TokenWindows {
 public:
  // `tokens` [N] i32, i64 or u8, which is shared. Throws ShapeError, DtypeError, UsageError for
  // options that make no sense or both a stride and samples, DataError for too few tokens.
  explicit TokenWindows(const Tensor& tokens, const TokenWindowsOptions& o = {});
  i64 size() const { return count_; }
  u64 version() const { return u64(tokens_.version()); }
  Batch batch(std::span<const i64> indices, i64 epoch = 0) const;
  // Where sample i begins.
  i64 begin(i64 i, i64 epoch = 0) const;

 private:
  Tensor tokens_;
  TokenWindowsOptions o_;
  i64 places_ = 0, count_ = 0;
};

}  // namespace wt::data
