// Where weights come from when a module loads them: names and shapes at once, values when they are
// asked for. For those who load from files. Internal.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "warptape/nn/checkpoint_file.h"
#include "warptape/nn/weight_files.h"

namespace wt::nn::detail {

struct WeightSource {
  struct Entry {
    std::string name;
    DType dtype;
    Shape shape;
    u64 bytes;
  };
  std::string path;
  Metadata metadata;
  std::vector<Entry> entries;
  std::function<Tensor(size_t)> read;      // of an entry, on the cpu
  std::function<void(u64)> check_total{};  // throws where so many bytes are too many
};

WT_API WeightSource source_of(WeightFiles files);
WT_API const std::string* find_metadata(const WeightSource& source, std::string_view key);
// Whether it is a checkpoint of a training run, in which the model's names begin with "model.".
WT_API bool is_checkpoint(const WeightSource& source);

// What does not fit of a state, whose elements are not looked at: they may be on a meta device.
WT_API LoadStateResult compare_state(const ModuleBase& m, const std::vector<NamedTensor>& state);

// Loads all that fits, of PyTorch's counts of batches zeros where there are none, as PyTorch does.
// {.strict}: throws UsageError, beginning with headline(), unless all fits. When it throws, nothing
// was loaded: tensors that fit are all read before, and take memory beside the module's until then.
WT_API LoadStateResult load_from(const ModuleBase& m, const WeightSource& source,
                                 const LoadModelOptions& options,
                                 const std::function<std::string()>& headline);

}  // namespace wt::nn::detail
