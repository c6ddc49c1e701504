#include "warptape/nn/checkpoint.h"

#include "warptape/core/factories.h"
#include "warptape/core/file_shape.h"
#include "warptape/core/safetensors.h"

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

}  // namespace wt::nn
