#include "warptape/nn/checkpoint_file.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <set>

#include "warptape/core/factories.h"
#include "warptape/core/file_shape.h"
#include "warptape/core/safetensors.h"
#include "warptape/nn/load_state.h"

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

LoadedTensors load_tensors(const std::string& path) {
  SafetensorsFile file = SafetensorsFile::open(path);
  LoadedTensors loaded;
  for (const TensorEntry& e : file.entries()) {
    if (e.shape.size() > size_t(kMaxDims))
      throw DataError(str(path, ": tensor ", printable(e.name), " has ", e.shape.size(),
                          " dimensions, at most ", kMaxDims, " are possible"));
    if (!wt::detail::strides_fit(e.dtype, e.shape))
      throw DataError(str(path, ": tensor ", printable(e.name), " ",
                          wt::detail::shape_text(e.shape), " is too large to address"));
    Tensor t = empty(Shape(e.shape), {.dtype = e.dtype, .device = Device::cpu()});
    file.read(e, t.impl()->data);
    loaded.tensors.push_back({e.name, std::move(t)});
  }
  loaded.metadata = file.metadata();
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

// The state of a model in a file: all of it, or the part of a checkpoint.
std::vector<NamedTensor> model_part(const ModuleBase& m, LoadedTensors file,
                                    const std::string& path, bool ema) {
  const std::string* format = find(file.metadata, "format");
  const bool checkpoint = format && format->starts_with("warptape.checkpoint.");
  std::vector<NamedTensor> averages;
  if (checkpoint && ema) averages = with_prefix(file.tensors, "ema.");
  if (ema && averages.empty())
    throw UsageError(str("[load_model] ", path, " has no averaged weights\n  Try {.ema = false}"));
  if (!checkpoint) return std::move(file.tensors);
  return averaged(m, with_prefix(file.tensors, "model."), std::move(averages));
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
      throw UsageError(str("[save_model] the metadata key '", key, "' is taken or there twice"));
    all.emplace_back(key, value);
  }
  save_tensors(path, m.state_dict(), all);
}

LoadStateResult detail::load_model(const ModuleBase& m, const std::string& architecture,
                                   const std::string& path, const LoadModelOptions& options) {
  LoadedTensors file = load_tensors(path);
  const std::string* theirs = find(file.metadata, kArchitecture);
  std::string headline = str("[load_model] ", path, " holds weights of another architecture");
  if (theirs && *theirs != architecture)
    headline += str(": of ", *theirs, ", this module is ", architecture);
  else if (theirs)
    headline += str(": of a ", *theirs, " with other names or shapes");
  if (options.strict && theirs && *theirs != architecture)
    throw UsageError(headline +
                     "\n  Try {.strict = false}, which loads the names and shapes that fit");
  return load_state(m, model_part(m, std::move(file), path, options.ema), options.strict, headline);
}

}  // namespace wt::nn
