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

// How a file of tokens is laid out.
enum class TokenFormat {
  automatic,  // llm_c if the file begins with its magic and version, else raw16
  raw16,      // little-endian u16, nothing else (nanoGPT)
  raw32,      // little-endian u32
  llm_c,      // 256 i32: 20240520, 1, the number of tokens, zeros; then u16
};

// How read_tokens() reads.
struct TokenFileOptions {
  TokenFormat format = TokenFormat::automatic;  // the file's layout
  i64 vocab_size = i64{1} << 31;                // tokens are below it; 1 to 2^31
};

// What read_tokens() has read.
struct TokenFile {
  Tensor tokens;                            // [N] i32 on the cpu
  TokenFormat format = TokenFormat::raw16;  // what the file was, never `automatic`
};

// Reads a file of token ids, plain, gzip or xz. Throws DataError with path and byte for a size that
// is no whole number of tokens, a header of another version or of another number of tokens than
// there are, and a token outside the vocabulary; UsageError for a vocabulary of less than 1 or more
// than 2^31.
WT_API TokenFile read_tokens(const std::string& path, const TokenFileOptions& o = {},
                             const ParseLimits& limits = {});

// Writes a file of token ids, whole or not at all. `automatic` is raw16 where all tokens fit, else
// raw32. Throws IndexError with the place of a token that the format does not hold, UsageError for
// llm_c with 2^31 or more tokens, CheckpointError for what cannot be written.
WT_API void write_tokens(const std::string& path, std::span<const i64> tokens,
                         TokenFormat format = TokenFormat::automatic);

// Where the windows of TokenWindows lie.
struct TokenWindowsOptions {
  i64 context = 64;  // tokens of x
  i64 stride = 0;    // tokens from one window to the next; 0: the context, each token is x once
  i64 samples = 0;   // above 0: so many windows an epoch at places drawn by (seed, epoch, sample)
  u64 seed = 0;      // of the places that are drawn
};
// Windows of a text's tokens. Sample i: x = tokens [s, s + context), y = tokens [s + 1, s + context
// + 1), both i64 [n, context]. s is i * stride, or drawn uniformly (nanoGPT's batches) with Philox
// stream `shuffle`.
class WT_API TokenWindows {
 public:
  // Windows of tokens [N], i32, i64 or u8, whose memory is shared if it is contiguous and on the
  // cpu. Throws ShapeError, DtypeError, UsageError for options that make no sense or both a stride
  // and samples, DataError for too few tokens.
  explicit TokenWindows(const Tensor& tokens, const TokenWindowsOptions& o = {});
  // The number of windows: options' `samples`, or (N - context - 1) / stride + 1.
  i64 size() const { return count_; }
  // Another number after each write to the tokens, which a Loader refuses within an epoch.
  u64 version() const { return u64(tokens_.version()); }
  // These windows on the cpu; the epoch counts where places are drawn. Throws IndexError.
  Batch batch(std::span<const i64> indices, i64 epoch = 0) const;
  // The place of sample i's first token. Throws IndexError.
  i64 begin(i64 i, i64 epoch = 0) const;

 private:
  Tensor tokens_;
  TokenWindowsOptions o_;
  i64 places_ = 0, count_ = 0;
};

}  // namespace wt::data
