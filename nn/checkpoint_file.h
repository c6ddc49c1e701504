// Named tensors to a file and back: safetensors with checksums, written so that a crash at any
// moment leaves the old file or the new one.
#pragma once
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "warptape/core/parse_limits.h"
#include "warptape/nn/module.h"

namespace wt::nn {

// Keys and values that a file has beside its tensors, in its order.
using Metadata = std::vector<std::pair<std::string, std::string>>;

// Writes named tensors from any device (they are copied to the host one by one) to a file. Throws
// UsageError for a name that is there twice, CheckpointError when the file cannot be written; what
// was there before stays.
WT_API void save_tensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                         const Metadata& metadata = {});

// All that a file has.
struct LoadedTensors {
  std::vector<NamedTensor> tensors;  // on the cpu, in file order
  Metadata metadata;                 // as it was saved
  // The tensor of that name; null if absent.
  const Tensor* find(const std::string& name) const;
};
// Reads all tensors of `path`: a file, or a folder or index of several (nn/weight_files.h). Throws
// DataError (path and byte offset) for anything but an undamaged file, and, before memory is asked
// for, for one with more tensor bytes than limits.max_bytes (the default: as many as the machine
// has). PyTorch's own files (.pt, .pth, .bin) are refused by their content: tools/convert_pt.py
// turns them into this format.
WT_API LoadedTensors load_tensors(const std::string& path, const ParseLimits& limits = {});

// The tensors whose names begin with `prefix`, without it; none where no name does.
WT_API std::vector<NamedTensor> with_prefix(const std::vector<NamedTensor>& tensors,
                                            const std::string& prefix);
// The tensors with `prefix` before every name.
WT_API std::vector<NamedTensor> add_prefix(std::vector<NamedTensor> tensors,
                                           const std::string& prefix);

// --- whole models ---

namespace detail {
// The name of a module's type: what it calls itself, else that of the class without namespaces.
WT_API std::string architecture_of(const ModuleBase& m, const std::type_info& type);
WT_API void save_model(const ModuleBase& m, const std::string& architecture,
                       const std::string& path, const Metadata& metadata);
}  // namespace detail

// Writes a model's state under PyTorch's names, and what kind of module it is ("architecture" in
// the metadata, beside the caller's own). Tied weights are written once, under the first of their
// names in alphabetical order, and the metadata have the other names with that one: what
// safetensors.torch.save_model does, so that its load_model reads the file. (A state with every
// name, for load_state_dict(load_file(...)) there, is save_tensors(path, model.state_dict()).)
// Throws as save_tensors, and UsageError for a key of the metadata that is there twice or is one of
// ours: "format", "architecture".
template <std::derived_from<ModuleBase> M>
void save_model(const M& model, const std::string& path, const Metadata& metadata = {}) {
  detail::save_model(model, detail::architecture_of(model, typeid(M)), path, metadata);
}

// How much of a file must fit, and which weights of a checkpoint are taken.
struct LoadModelOptions {
  bool strict = true;       // false: load what fits and report the rest
  bool ema = false;         // the averaged weights of a checkpoint; UsageError without any
  ParseLimits limits = {};  // what reading may spend
};

namespace detail {
WT_API LoadStateResult load_model(const ModuleBase& m, const std::string& architecture,
                                  const std::string& path, const LoadModelOptions& options);
}  // namespace detail

// Loads a model's state from what save_model or PyTorch wrote (safetensors, in one file or in
// several: nn/weight_files.h), or from a checkpoint of a training run. A name that the metadata say
// to be tied to another one has that one's values. Throws UsageError for weights of another
// architecture: where the file says that they are of another type, or a name or shape does not fit,
// which the file's header tells. Only tensors that fit are read, all before the first is loaded:
// for that moment they take their memory in the file's dtypes, beside the model's own. With
// {.strict = false} it loads what fits and returns the rest. Throws DataError as load_tensors. When
// it throws, nothing was loaded.
template <std::derived_from<ModuleBase> M>
LoadStateResult load_model(const M& model, const std::string& path,
                           const LoadModelOptions& options = {}) {
  return detail::load_model(model, detail::architecture_of(model, typeid(M)), path, options);
}
// A model made from the arguments of its constructor, with the weights of the file:
//
//   auto net = nn::load_model<Classifier>("net.safetensors");
template <std::derived_from<ModuleBase> M, class... Args>
M load_model(const std::string& path, Args&&... args) {
  M model(std::forward<Args>(args)...);
  load_model(model, path);
  return model;
}

}  // namespace wt::nn
