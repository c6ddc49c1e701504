// Weights that lie in one safetensors file or in several with an index, as Hugging Face's libraries
// write large models:
//
//   model.safetensors.index.json
//     {"metadata": {"total_size": ...}, "weight_map": {name: file}}
//   model-00001-of-00003.safetensors ...
//
//   auto files = nn::WeightFiles::open("gpt2-xl");     // the folder, its index, or one file
//   Tensor w = files.read("h.0.attn.c_attn.weight");   // of all that is there this tensor alone
//
// load_tensors() and load_model() (nn/checkpoint_file.h) take the same paths.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "warptape/core/owned.h"
#include "warptape/core/safetensors.h"
#include "warptape/nn/checkpoint_file.h"

namespace wt::nn {

// The tensors of one safetensors file, or of all files of an index, read one by one.
class WT_API WeightFiles {
 public:
  ~WeightFiles();
  WeightFiles(WeightFiles&&) noexcept;
  WeightFiles& operator=(WeightFiles&&) noexcept;

  // Reads and checks the index and the headers of all files; no tensor data yet. `path` is a
  // safetensors file, an index (its name ends in .json), or a folder: that has model.safetensors,
  // or else model.safetensors.index.json, in this order, which is transformers'. Throws DataError
  // for anything but undamaged files that are just what the index says: files that are missing or
  // damaged, tensors that are elsewhere or nowhere or there twice, all of them listed. The files of
  // an index lie in its folder: a name with a path in it is refused.
  static WeightFiles open(const std::string& path, const ParseLimits& limits = {});

  // The number of tensors in all files.
  size_t size() const noexcept;
  // Name, dtype and shape of tensor i, which must be below size(): file by file, in the order of
  // their names; within one as SafetensorsFile::entries().
  const TensorEntry& entry(size_t i) const;
  // The shape that tensor i has here. Throws DataError for more than 8 dimensions and for sizes
  // beyond 64 bits.
  Shape shape(size_t i) const;
  // What find() gives for a name that is not there.
  static constexpr size_t kNone = ~size_t{0};
  // The number of the tensor with this name; kNone if absent.
  size_t find(std::string_view name) const noexcept;

  // A tensor on the cpu, read from its file now. Throws DataError as SafetensorsFile::read; by name
  // also where there is none.
  Tensor read(size_t i);
  Tensor read(std::string_view name);
  // Throws DataError where `bytes` of tensors are more than limits.max_bytes, which each file is
  // held to when it is read and all together by this.
  void check_total(u64 bytes) const;

  // The metadata of the one file, or what the index has under "metadata" and is text.
  const Metadata& metadata() const noexcept;
  // The metadata's value of this key; null if absent.
  const std::string* find_metadata(std::string_view key) const noexcept;
  // The path of the file or the index.
  const std::string& path() const noexcept;

 private:
  struct Contents;
  explicit WeightFiles(Owned<Contents> in);
  Owned<Contents> in_;
};

// How save_sharded() parts a model.
struct SaveShardedOptions {
  u64 max_shard_bytes = 5'000'000'000;  // of tensors, not 0; a larger tensor has a file of its own
  Metadata metadata{};                  // for the index, or for the one file
};
// Writes `folder`, which is made where it is missing, as WeightFiles reads it: model.safetensors
// where all fits into one file, else files with an index. Tensors keep their order. What is read
// there is the old model or the new one, whatever fails and whenever the process is killed: files
// get names that the old index does not use, the index comes last, and the old model's files go
// when the new one is whole. One writer at a time. Throws UsageError for a name that is there
// twice and for metadata with "total_size", a key twice or text that is not UTF-8, CheckpointError
// when something cannot be written.
WT_API void save_sharded(const std::string& folder, const std::vector<NamedTensor>& tensors,
                         const SaveShardedOptions& options = {});

}  // namespace wt::nn
