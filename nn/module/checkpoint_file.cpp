#include "warptape/nn/checkpoint_file.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <set>

#include "warptape/core/factories.h"
#include "warptape/core/files/file_shape.h"
#include "warptape/core/safetensors.h"
#include "warptape/nn/module/load_state.h"
#include "warptape/nn/module_state.h"

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

namespace {

// A shape of a file as that of a tensor.
Shape shape_of(const SafetensorsFile& file, const TensorEntry& e) {
  const auto refuse = [&](const std::string& why) {
    data_error(file.path(), 8, "tensor '" + printable(e.name) + "' " + why);
  };
  if (e.shape.size() > size_t(kMaxDims))
    refuse(str("has ", e.shape.size(), " dimensions, at most ", kMaxDims, " are possible"));
  if (!wt::detail::strides_fit(e.dtype, e.shape))
    refuse(wt::detail::shape_text(e.shape) + " is too large to address");
  return Shape(e.shape);
}

Tensor read_tensor(SafetensorsFile& file, const TensorEntry& e) {
  Tensor t = empty(shape_of(file, e), {.dtype = e.dtype, .device = Device::cpu()});
  file.read(e, t.impl()->data);
  return t;
}

// Before the first of them is allocated.
void check_total(const SafetensorsFile& file, u64 bytes, const ParseLimits& limits) {
  if (bytes > limits.max_bytes)
    data_error(file.path(), 8,
               str("the tensors to load have ", bytes, " bytes, the limit is ", limits.max_bytes,
                   " (ParseLimits::max_bytes)"));
}

}  // namespace

LoadedTensors load_tensors(const std::string& path, const ParseLimits& limits) {
  SafetensorsFile file = SafetensorsFile::open(path, limits);
  u64 total = 0;
  for (const TensorEntry& e : file.entries()) total += e.bytes();
  check_total(file, total, limits);
  LoadedTensors loaded;
  for (const TensorEntry& e : file.entries())
    loaded.tensors.push_back({e.name, read_tensor(file, e)});
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

// What a file has, by name, dtype and shape alone: on the meta device. Each knows its place in the
// file whatever it is called later.
struct Outline {
  std::vector<NamedTensor> tensors;
  std::map<const TensorImpl*, const TensorEntry*> places;

  explicit Outline(const SafetensorsFile& file) {
    for (const TensorEntry& e : file.entries()) {
      tensors.push_back(
          {e.name, empty(shape_of(file, e), {.dtype = e.dtype, .device = Device::meta()})});
      places[tensors.back().tensor.impl()] = &e;
    }
  }
};

// The state of a model in a file: all of it, or the part of a checkpoint.
std::vector<NamedTensor> model_part(const ModuleBase& m, const SafetensorsFile& file,
                                    const std::vector<NamedTensor>& tensors, bool ema) {
  const std::string* format = file.find_metadata("format");
  const bool checkpoint = format && format->starts_with("warptape.checkpoint.");
  std::vector<NamedTensor> averages;
  if (checkpoint && ema) averages = with_prefix(tensors, "ema.");
  if (ema && averages.empty())
    throw UsageError(str("[load_model] ", printable(file.path(), 400),
                         " has no averaged weights\n  Try {.ema = false}"));
  if (!checkpoint) return tensors;
  return averaged(m, with_prefix(tensors, "model."), std::move(averages));
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

// The other way round, for tensors of the module that the file has in its metadata alone: where it
// does not tie what the file ties.
void add_tied(const ModuleBase& m, const SafetensorsFile& file, std::vector<NamedTensor>& state) {
  std::map<std::string, Tensor> there;
  for (const NamedTensor& t : state) there.emplace(t.name, t.tensor);
  const std::vector<NamedTensor> mine = m.state_dict();
  std::set<const TensorImpl*> given;
  for (const NamedTensor& t : mine)
    if (there.contains(t.name)) given.insert(t.tensor.impl());
  std::set<std::string> wanted;
  for (const NamedTensor& t : mine)
    if (!given.contains(t.tensor.impl())) wanted.insert(t.name);
  for (const auto& [name, kept] : file.metadata())
    if (const auto at = there.find(kept); wanted.contains(name) && at != there.end())
      state.push_back({name, at->second});
}

// Reads those that the module takes; the others stay as they are.
void read_wanted(const ModuleBase& m, SafetensorsFile& file, const Outline& outline,
                 const ParseLimits& limits, std::vector<NamedTensor>& state) {
  std::map<std::string, Shape> mine;
  for (const NamedTensor& t : m.state_dict()) mine.emplace(t.name, t.tensor.shape());
  std::vector<NamedTensor*> wanted;
  u64 total = 0;
  for (NamedTensor& t : state) {
    const auto at = mine.find(t.name);
    if (at == mine.end() || at->second != t.tensor.shape()) continue;
    wanted.push_back(&t);
    total += outline.places.at(t.tensor.impl())->bytes();
  }
  check_total(file, total, limits);
  for (NamedTensor* t : wanted) t->tensor = read_tensor(file, *outline.places.at(t->tensor.impl()));
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
  SafetensorsFile file = SafetensorsFile::open(path, options.limits);
  const std::string* theirs = file.find_metadata(kArchitecture);
  std::string headline =
      str("[load_model] ", printable(path, 400), " holds weights of another architecture");
  if (theirs && *theirs != architecture)
    headline += str(": of ", printable(*theirs), ", this module is ", architecture);
  else if (theirs)
    headline += str(": of a ", printable(*theirs), " with other names or shapes");
  if (options.strict && theirs && *theirs != architecture)
    throw UsageError(headline +
                     "\n  Try {.strict = false}, which loads the names and shapes that fit");
  const Outline outline(file);
  std::vector<NamedTensor> state = model_part(m, file, outline.tensors, options.ema);
  add_tied(m, file, state);
  if (options.strict) check_state(m, state, headline);
  read_wanted(m, file, outline, options.limits, state);
  return load_state(m, state, options.strict, headline);
}

}  // namespace wt::nn
