// Named tensors to a file and back: safetensors with checksums, written so that a crash at any
// moment leaves the old file or the new one.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "warptape/nn/module.h"

namespace wt::nn {

using Metadata = std::vector<std::pair<std::string, std::string>>;

// Tensors from any device (they are copied to the host one by one). Throws CheckpointError when the
// file cannot be written; what was there before stays.
WT_API void save_tensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                         const Metadata& metadata = {});

struct LoadedTensors {
  std::vector<NamedTensor> tensors;  // on the cpu, in file order
  Metadata metadata;
  const Tensor* find(const std::string& name) const;
};
// Throws DataError (path and byte offset) for anything but an undamaged file.
WT_API LoadedTensors load_tensors(const std::string& path);

// Those whose names begin with `prefix`, without it.
WT_API std::vector<NamedTensor> with_prefix(const std::vector<NamedTensor>& tensors,
                                            const std::string& prefix);
// The tensors with `prefix` before every name.
WT_API std::vector<NamedTensor> add_prefix(std::vector<NamedTensor> tensors,
                                           const std::string& prefix);

}  // namespace wt::nn
