// GGUF, the format of llama.cpp (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): its
// versions 2 and 3 in little-endian order, with tensors in f32, f16, bf16 and q8_0.
//
//   auto file = nn::GgufFile::open("gpt2.gguf");
//   file.text("general.architecture");                 // -> "gpt2"
//   Tensor w = file.read("token_embd.weight");         // of the file this tensor alone
//   auto net = models::load_gpt2("gpt2.gguf");         // or models::load("gpt2", "gpt2.gguf")
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "warptape/core/owned.h"
#include "warptape/core/parse_limits.h"
#include "warptape/core/tensor.h"
#include "warptape/nn/gpt2.h"

namespace wt::nn {

// How the file has a tensor's numbers. q8_0: blocks of 32 along the last axis, a scale in f16 and
// 32 integers of 8 bits each.
enum class GgufType : u8 { f32, f16, bf16, q8_0 };
// The dtype of the tensor that is read: the same float, f32 for q8_0.
constexpr DType dtype_of(GgufType t) {
  return t == GgufType::f16 ? DType::f16 : t == GgufType::bf16 ? DType::bf16 : DType::f32;
}

// A tensor of a file, whose numbers have not been read.
struct GgufEntry {
  std::string name;               // as the file has it, "blk.0.ffn_up.weight"
  GgufType type = GgufType::f32;  // of the numbers in the file
  Shape shape;             // outermost first, as a tensor's: the file has it the other way round
  u64 begin = 0, end = 0;  // bytes, from the beginning of the file
};

// An open file: what it says of itself, and its tensors, read one by one.
class WT_API GgufFile {
 public:
  ~GgufFile();
  GgufFile(GgufFile&&) noexcept;
  GgufFile& operator=(GgufFile&&) noexcept;

  // Reads and checks all but the tensors' numbers. Throws DataError, with file and byte, for
  // anything that is not exactly as the format says (names and keys that are there twice, holes
  // beyond the alignment, overlaps, arrays of arrays, what follows the end), for other quantised
  // types, which are named, and for what is beyond `limits`.
  static GgufFile open(const std::string& path, const ParseLimits& limits = {});

  // 2 or 3.
  u32 version() const noexcept;
  // All tensors, in the order of the file's data.
  const std::vector<GgufEntry>& entries() const noexcept;
  // The tensor of a name; null if absent.
  const GgufEntry* find(std::string_view name) const noexcept;
  // Reads a tensor, on the cpu: f32, f16 and bf16 as they are, q8_0 as f32. Throws DataError when
  // the tensors read so far would pass ParseLimits::max_bytes; by name also where there is none.
  Tensor read(const GgufEntry& entry);
  Tensor read(std::string_view name);

  // The keys of the metadata in the order of the file, those of arrays too, which are checked and
  // passed over (a tokenizer's tokens).
  std::vector<std::string> keys() const;
  // The text of a key; null where there is none or it is of another kind.
  const std::string* text(std::string_view key) const;
  // The integer of a key: all kinds that fit into i64, and bool; else nothing.
  std::optional<i64> integer(std::string_view key) const;
  // The number of a key: floats, integers and bool; else nothing.
  std::optional<double> number(std::string_view key) const;
  // As open() got it.
  const std::string& path() const noexcept;

 private:
  struct Contents;
  class Parser;
  explicit GgufFile(Owned<Contents> in);
  Owned<Contents> in_;
};

}  // namespace wt::nn

namespace wt::models {

// The sizes of a file whose general.architecture is gpt2, as options of the model; no tensor is
// read. Throws UsageError for another architecture, sizes that are missing, and what Gpt2 cannot be
// (another norm's epsilon, an inner layer that is not four times as wide).
WT_API Gpt2Options gpt2_options(const nn::GgufFile& file);
// All tensors of such a file, on the cpu, with Hugging Face's names and layouts. Throws UsageError
// for another architecture, DataError as GgufFile.
WT_API std::vector<nn::NamedTensor> gpt2_state(nn::GgufFile& file);
// A model made by the sizes of a file, on the default device, with its weights. Throws UsageError,
// with all that does not fit, and DataError as GgufFile.
WT_API Gpt2 load_gpt2(const std::string& path, const ParseLimits& limits = {});

}  // namespace wt::models
