#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>

#include "warptape/core/factories.h"
#include "warptape/core/tensor_impl.h"
#include "warptape/nn/module/load_state.h"
#include "warptape/nn/weight_source.h"

namespace wt::nn {
namespace {

using detail::is_checkpoint;
using detail::WeightSource;

bool has(const std::vector<NamedTensor>& tensors, const std::string& name) {
  return std::any_of(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
}

// The averages in the places of the weights, of tied ones under every name.
std::vector<NamedTensor> averaged(const ModuleBase& m, std::vector<NamedTensor> state,
                                  std::vector<NamedTensor> averages) {
  const std::vector<NamedTensor> mine = m.state_dict();
  std::set<const TensorImpl*> known;
  for (const NamedTensor& t : mine)
    if (has(averages, t.name)) known.insert(t.tensor.impl());
  std::set<std::string> taken;
  for (const NamedTensor& t : averages) taken.insert(t.name);
  for (const NamedTensor& t : mine)
    if (known.contains(t.tensor.impl())) taken.insert(t.name);
  std::erase_if(state, [&](const NamedTensor& t) { return taken.contains(t.name); });
  std::move(averages.begin(), averages.end(), std::back_inserter(state));
  return state;
}

// What a source has, by name, dtype and shape alone: on the meta device. Each knows its place in
// the source whatever it is called later.
struct Outline {
  std::vector<NamedTensor> tensors;
  std::map<const TensorImpl*, size_t> places;

  explicit Outline(const WeightSource& source) {
    for (size_t i = 0; i < source.entries.size(); ++i) {
      const WeightSource::Entry& e = source.entries[i];
      tensors.push_back({e.name, empty(e.shape, {.dtype = e.dtype, .device = Device::meta()})});
      places[tensors.back().tensor.impl()] = i;
    }
  }
};

// The state of a model in a file: all of it, or the part of a checkpoint.
std::vector<NamedTensor> model_part(const ModuleBase& m, const WeightSource& source,
                                    const std::vector<NamedTensor>& tensors, bool ema) {
  const bool checkpoint = is_checkpoint(source);
  std::vector<NamedTensor> averages;
  if (checkpoint && ema) averages = with_prefix(tensors, "ema.");
  if (ema && averages.empty())
    throw UsageError(str("[load_model] ", printable(source.path, 400),
                         " has no averaged weights\n  Try {.ema = false}"));
  if (!checkpoint) return tensors;
  return averaged(m, with_prefix(tensors, "model."), std::move(averages));
}

// The other way round, for tensors of the module that the file has in its metadata alone: where it
// does not tie what the file ties.
void add_tied(const ModuleBase& m, const WeightSource& source, std::vector<NamedTensor>& state) {
  std::map<std::string, Tensor> there;
  for (const NamedTensor& t : state) there.emplace(t.name, t.tensor);
  const std::vector<NamedTensor> mine = m.state_dict();
  std::set<const TensorImpl*> given;
  for (const NamedTensor& t : mine)
    if (there.contains(t.name)) given.insert(t.tensor.impl());
  std::set<std::string> wanted;
  for (const NamedTensor& t : mine)
    if (!given.contains(t.tensor.impl())) wanted.insert(t.name);
  for (const auto& [name, kept] : source.metadata)
    if (const auto at = there.find(kept); wanted.contains(name) && at != there.end())
      state.push_back({name, at->second});
}

// Reads those that the module takes; the others stay as they are.
void read_wanted(const ModuleBase& m, const WeightSource& source, const Outline& outline,
                 std::vector<NamedTensor>& state) {
  std::map<std::string, Shape> mine;
  for (const NamedTensor& t : m.state_dict()) mine.emplace(t.name, t.tensor.shape());
  std::vector<NamedTensor*> wanted;
  u64 total = 0;
  for (NamedTensor& t : state) {
    const auto at = mine.find(t.name);
    if (at == mine.end() || at->second != t.tensor.shape()) continue;
    const auto place = outline.places.find(t.tensor.impl());
    if (place == outline.places.end()) continue;  // has its values
    wanted.push_back(&t);
    total += source.entries[place->second].bytes;
  }
  if (source.check_total) source.check_total(total);
  for (NamedTensor* t : wanted) t->tensor = source.read(outline.places.at(t->tensor.impl()));
}

// Files of before PyTorch 0.4.1, and torchvision's oldest, have no counts of batches.
void add_counts(const ModuleBase& m, std::vector<NamedTensor>& state) {
  const std::string_view count = "num_batches_tracked";
  std::set<std::string> there;
  for (const NamedTensor& t : state) there.insert(t.name);
  for (const NamedTensor& t : m.state_dict()) {
    if (!t.name.ends_with(count) || there.contains(t.name)) continue;
    const std::string mean = t.name.substr(0, t.name.size() - count.size()) + "running_mean";
    if (there.contains(mean))
      state.push_back({t.name, zeros({}, {.dtype = DType::i64, .device = Device::cpu()})});
  }
}

}  // namespace

WeightSource detail::source_of(WeightFiles files) {
  const auto shared = std::make_shared<WeightFiles>(std::move(files));
  WeightSource source{.path = shared->path(),
                      .metadata = shared->metadata(),
                      .entries = {},
                      .read = [shared](size_t i) { return shared->read(i); },
                      .check_total = [shared](u64 bytes) { shared->check_total(bytes); }};
  for (size_t i = 0; i < shared->size(); ++i) {
    const TensorEntry& e = shared->entry(i);
    source.entries.push_back({e.name, e.dtype, shared->shape(i), e.bytes()});
  }
  return source;
}

const std::string* detail::find_metadata(const WeightSource& source, std::string_view key) {
  for (const auto& [name, value] : source.metadata)
    if (name == key) return &value;
  return nullptr;
}

bool detail::is_checkpoint(const WeightSource& source) {
  const std::string* format = find_metadata(source, "format");
  return format && format->starts_with("warptape.checkpoint.");
}

LoadStateResult detail::load_from(const ModuleBase& m, const WeightSource& source,
                                  const LoadModelOptions& options,
                                  const std::function<std::string()>& headline) {
  const Outline outline(source);
  std::vector<NamedTensor> state = model_part(m, source, outline.tensors, options.ema);
  add_tied(m, source, state);
  add_counts(m, state);
  if (options.strict)
    if (const LoadStateResult rest = compare_state(m, state); !rest.complete())
      refuse_state(m, state, rest, headline());
  read_wanted(m, source, outline, state);
  return load_state(m, state, options.strict, "[load_model] the names or shapes do not fit");
}

}  // namespace wt::nn
