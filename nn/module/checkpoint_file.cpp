#include "warptape/nn/checkpoint_file.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "warptape/core/safetensors.h"
#include "warptape/nn/module_state.h"
#include "warptape/nn/weight_source.h"

namespace wt::nn {

void save_tensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                  const Metadata& metadata) {
  const NoGrad no_grad;
  std::vector<Tensor> host;  // keeps the bytes alive
  std::vector<SafetensorsItem> items;
  for (const NamedTensor& t : tensors) {
    host.push_back(t.tensor.to(Device::cpu()).contiguous());
    const Shape s = t.tensor.shape();
    items.push_back({t.name, t.tensor.dtype(), {s.begin(), s.end()}, host.back().impl()->data});
  }
  write_safetensors(path, items, {.metadata = metadata, .checksums = true});
}

LoadedTensors load_tensors(const std::string& path, const ParseLimits& limits) {
  WeightFiles files = WeightFiles::open(path, limits);
  u64 total = 0;
  for (size_t i = 0; i < files.size(); ++i) total += files.entry(i).bytes();
  files.check_total(total);
  LoadedTensors loaded;
  for (size_t i = 0; i < files.size(); ++i)
    loaded.tensors.push_back({files.entry(i).name, files.read(i)});
  loaded.metadata = files.metadata();
  return loaded;
}

const Tensor* LoadedTensors::find(const std::string& name) const {
  for (const NamedTensor& t : tensors)
    if (t.name == name) return &t.tensor;
  return nullptr;
}

std::vector<NamedTensor> with_prefix(const std::vector<NamedTensor>& tensors,
                                     const std::string& prefix) {
  std::vector<NamedTensor> some;
  for (const NamedTensor& t : tensors)
    if (t.name.starts_with(prefix)) some.push_back({t.name.substr(prefix.size()), t.tensor});
  return some;
}

std::vector<NamedTensor> add_prefix(std::vector<NamedTensor> tensors, const std::string& prefix) {
  for (NamedTensor& t : tensors) t.name = prefix + t.name;
  return tensors;
}

// --- whole models ---

namespace {

constexpr const char* kArchitecture = "architecture";

const std::string* find(const Metadata& metadata, std::string_view key) {
  for (const auto& [k, v] : metadata)
    if (k == key) return &v;
  return nullptr;
}

// a::b<c::d>::e -> e: what stands after the last "::" outside of angle brackets.
std::string unqualified(std::string_view name) {
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    depth += name[i] == '<' ? 1 : name[i] == '>' ? -1 : 0;
    if (depth == 0 && name.substr(i).starts_with("::")) begin = i + 2;
  }
  return std::string(name.substr(begin));
}

// Of names for one tensor the first in order is kept, the others are told in the metadata: as
// safetensors.torch.save_model writes them, and as its load_model expects them.
std::vector<NamedTensor> without_tied(std::vector<NamedTensor> state, Metadata& metadata) {
  std::map<const TensorImpl*, std::string> kept;
  for (const NamedTensor& t : state) {
    const auto [at, first] = kept.emplace(t.tensor.impl(), t.name);
    if (!first) at->second = std::min(at->second, t.name);
  }
  for (const NamedTensor& t : state)
    if (const std::string& name = kept.at(t.tensor.impl());
        name != t.name && !find(metadata, t.name))
      metadata.emplace_back(t.name, name);
  std::erase_if(state, [&](const NamedTensor& t) { return kept.at(t.tensor.impl()) != t.name; });
  return state;
}

}  // namespace

std::string detail::architecture_of(const ModuleBase& m, const std::type_info& type) {
  if (m.state()->type_given || type == typeid(ModuleBase)) return std::string(m.type());
  int status = 0;
  char* text = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  const std::string name = unqualified(text ? text : type.name());
  std::free(text);
  return name;
}

void detail::save_model(const ModuleBase& m, const std::string& architecture,
                        const std::string& path, const Metadata& metadata) {
  Metadata all = {{"format", "pt"}, {kArchitecture, architecture}};  // "pt": names as in PyTorch
  for (const auto& [key, value] : metadata) {
    if (find(all, key))
      throw UsageError(
          str("[save_model] the metadata key '", printable(key), "' is taken or there twice"));
    all.emplace_back(key, value);
  }
  const std::vector<NamedTensor> state = without_tied(m.state_dict(), all);
  save_tensors(path, state, all);
}

LoadStateResult detail::load_model(const ModuleBase& m, const std::string& architecture,
                                   const std::string& path, const LoadModelOptions& options) {
  const WeightSource source = source_of(WeightFiles::open(path, options.limits));
  const std::string* theirs = find_metadata(source, kArchitecture);
  std::string headline =
      str("[load_model] ", printable(path, 400), " holds weights of another architecture");
  if (theirs && *theirs != architecture)
    headline += str(": of ", printable(*theirs), ", this module is ", architecture);
  else if (theirs)
    headline += str(": of a ", printable(*theirs), " with other names or shapes");
  if (options.strict && theirs && *theirs != architecture)
    throw UsageError(headline +
                     "\n  Try {.strict = false}, which loads the names and shapes that fit");
  return load_from(m, source, options, [&] { return headline; });
}

}  // namespace wt::nn
