// Weights of other libraries into the models of the table, and back.
#include <algorithm>
#include <filesystem>
#include <map>

#include "warptape/core/factories.h"
#include "warptape/core/input_file.h"
#include "warptape/core/str.h"
#include "warptape/core/tensor_impl.h"
#include "warptape/nn/models.h"
#include "warptape/nn/models/gguf_source.h"
#include "warptape/nn/models/keep_generator.h"
#include "warptape/nn/weight_source.h"

namespace wt::models {
namespace {

using nn::NamedTensor;
using nn::detail::WeightSource;

NamedTensor meta_tensor(const WeightSource::Entry& e) {
  return {e.name, empty(e.shape, {.dtype = e.dtype, .device = Device::meta()})};
}

// The source as the model takes it. A checkpoint of ours is that already.
WeightSource fitted(const WeightSource& source, const ModelInfo& info,
                    const nn::ModuleBase& model) {
  if (!info.state_for || nn::detail::is_checkpoint(source)) return source;
  WeightSource some = source;
  some.entries.clear();
  std::vector<size_t> from;
  for (size_t i = 0; i < source.entries.size(); ++i)
    for (const NamedTensor& t : info.state_for(model, {meta_tensor(source.entries[i])})) {
      some.entries.push_back({t.name, t.tensor.dtype(), t.tensor.shape(), source.entries[i].bytes});
      from.push_back(i);
    }
  some.read = [source, from, model, state_for = info.state_for](size_t i) {
    const size_t at = from[i];
    return state_for(model, {{source.entries[at].name, source.read(at)}}).front().tensor;
  };
  return some;
}

// A file is told by its first bytes; a folder is opened as such. What is neither is refused here:
// to open a pipe would be to wait for who writes into it.
bool is_gguf(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return false;
  const InputFile file(path);
  char magic[4] = {};
  if (file.size() < sizeof magic) return false;
  file.read(0, magic, sizeof magic, "the first bytes");
  return std::string_view(magic, sizeof magic) == "GGUF";
}

WeightSource source_at(const std::string& path, const ParseLimits& limits) {
  if (is_gguf(path)) return detail::source_of(nn::GgufFile::open(path, limits));
  return nn::detail::source_of(nn::WeightFiles::open(path, limits));
}

// --- whose weights they are ---

struct Likeness {
  const ModelInfo* model = nullptr;
  double score = 0;  // the part of all tensors of both that have a name and a shape in common
  i64 classes = 0;   // with so many all of them have; 0: with the model's own, or with none
};

std::vector<NamedTensor> names_and_shapes(const WeightSource& source) {
  const bool checkpoint = nn::detail::is_checkpoint(source);
  std::vector<NamedTensor> state;
  for (const WeightSource::Entry& e : source.entries) state.push_back(meta_tensor(e));
  return checkpoint ? nn::with_prefix(state, "model.") : state;
}

nn::LoadStateResult compared(const WeightSource& source, const ModelInfo& info,
                             const AnyModel& model, double& score) {
  const std::vector<NamedTensor> state = names_and_shapes(fitted(source, info, model));
  nn::LoadStateResult rest = nn::detail::compare_state(model, state);
  std::erase_if(rest.missing, [](auto& name) { return name.ends_with("num_batches_tracked"); });
  const size_t fit = state.size() - rest.unexpected.size() - rest.misshapen.size();
  score = double(fit) / double(std::max<size_t>(1, state.size() + rest.missing.size()));
  return rest;
}

Likeness likeness_of(const WeightSource& source, const ModelInfo& info) {
  constexpr i64 kMostClasses = i64{1} << 24;
  Likeness like{.model = &info};
  const nn::LoadStateResult rest = compared(source, info, info.make(info.classes), like.score);
  if (!rest.missing.empty() || !rest.unexpected.empty() || rest.misshapen.empty()) return like;
  const Shape there = rest.misshapen[0].there;
  if (there.empty() || there[0] < 1 || there[0] > kMostClasses) return like;
  double score = 0;
  if (compared(source, info, info.make(there[0]), score).complete())
    like.score = score, like.classes = there[0];
  return like;
}

// Only names and shapes are compared, of models without a byte: some milliseconds for all.
Likeness best_match(const WeightSource& source) {
  const detail::KeepGenerator as_before;
  const DefaultDevice meta(Device::meta());
  Likeness best;
  for (const ModelInfo& info : all_models())
    if (const Likeness like = likeness_of(source, info); like.score > best.score) best = like;
  return best;
}

std::string misfit(const WeightSource& source, const ModelInfo& wanted) {
  constexpr double kAlike = 0.5;
  std::string text = str("[models] ", printable_path(source.path), " does not fit ", wanted.name);
  const Likeness like = best_match(source);
  if (like.score < kAlike) return text + ": it holds weights of another architecture";
  const std::string classes =
      like.classes ? str(" with {.classes = ", like.classes, "}") : std::string();
  if (like.model == &wanted && !like.classes) return text;
  return text + ": it looks like " + like.model->name + classes;
}

}  // namespace

nn::LoadStateResult load_weights(const nn::ModuleBase& model, std::string_view name,
                                 const std::string& weights, const LoadOptions& o) {
  const ModelInfo& info = find_model(name);
  const WeightSource source = source_at(weights, o.limits);
  return nn::detail::load_from(model, fitted(source, info, model), {.strict = o.strict},
                               [&] { return misfit(source, info); });
}

AnyModel load(std::string_view name, const std::string& weights, const LoadOptions& o) {
  // A model that all of will be loaded begins without memory, and draws no random numbers; nor does
  // one that is refused.
  detail::KeepGenerator as_before;
  Device device = mode.default_device;
  if (o.strict) device.is_meta = true;
  const AnyModel net = [&] {
    const DefaultDevice there(device);
    return make(name, {.classes = o.classes});
  }();
  load_weights(net, name, weights, o);
  if (!o.strict) as_before.let_go();
  return net;
}

void save(const nn::ModuleBase& model, const std::string& path, const SaveOptions& o) {
  nn::Metadata metadata{{"format", "pt"}, {"architecture", std::string(model.type())}};
  std::map<const TensorImpl*, std::string> first;
  std::vector<NamedTensor> state;
  for (const NamedTensor& t : model.state_dict()) {
    const auto [at, is_first] = first.emplace(t.tensor.impl(), t.name);
    if (is_first)
      state.push_back(t);
    else
      metadata.emplace_back(t.name, at->second);
  }
  for (const auto& pair : o.metadata) {
    for (const auto& [key, value] : metadata)
      if (key == pair.first)
        throw UsageError(
            str("[models] the metadata key '", printable(key), "' is taken or there twice"));
    metadata.push_back(pair);
  }
  if (o.max_shard_bytes > 0)
    nn::save_sharded(path, state, {.max_shard_bytes = o.max_shard_bytes, .metadata = metadata});
  else
    nn::save_tensors(path, state, metadata);
}

}  // namespace wt::models
