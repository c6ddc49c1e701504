#include "warptape/nn/data_parallel.h"

#include <algorithm>

#include "warptape/autograd/ops/shape.h"
#include "warptape/core/device.h"
#include "warptape/core/error.h"

namespace wt::nn::detail {

std::vector<Device> devices_of_call(const ModuleBase& module, const DataParallelOptions& options) {
  const auto tensors = [&] {
    std::vector<NamedTensor> all = module.named_parameters();
    for (NamedTensor& b : module.named_buffers()) all.push_back(std::move(b));
    return all;
  }();
  std::vector<Device> devices = options.devices;
  if (devices.empty()) {
    const Device home = tensors.empty() ? Device::cpu() : tensors.front().tensor.device();
    devices.push_back(home);
    for (int i = 0; home.kind == DeviceKind::cuda && i < cuda::device_count(); ++i)
      if (Device::cuda(i) != home) devices.push_back(Device::cuda(i));
  }
  for (const NamedTensor& t : tensors)
    if (t.tensor.defined() && t.tensor.device() != devices.front())
      throw PlacementError(str("[DataParallel] the module must be on the first device, ",
                               to_string(devices.front()), ", and its ", t.name, " is on ",
                               to_string(t.tensor.device()), "\n  Try module.to(...)"));
  return devices;
}

std::vector<i64> part_sizes(i64 n, i64 parts) {
  const i64 each = std::max<i64>((n + parts - 1) / parts, 1);
  std::vector<i64> sizes;
  for (i64 first = 0; first < n; first += each) sizes.push_back(std::min(each, n - first));
  if (sizes.empty()) sizes.push_back(0);
  return sizes;
}

std::vector<NamedTensor> replica_tensors(const ModuleBase& module, Device d) {
  std::vector<NamedTensor> all = module.named_parameters();
  for (NamedTensor& p : all) p.tensor = p.tensor.to(d);
  const NoGrad no_grad;
  for (const NamedTensor& b : module.named_buffers())
    all.push_back({b.name, b.tensor.device() == d ? b.tensor.clone() : b.tensor.to(d)});
  return all;
}

Tensor part_for(const Tensor& x, i64 axis, i64 samples, i64 first, i64 size, Device d) {
  if (!x.defined()) return x;
  if (x.dim() <= (axis < 0 ? -axis - 1 : axis) || x.size(axis) != samples)
    throw ShapeError(str("[DataParallel] every tensor is cut along axis ", axis,
                         ", where the "
                         "first has ",
                         samples, " samples: ", describe(x)));
  return (size == samples ? x : x.narrow(axis, first, size)).to(d);
}

Tensor joined(std::vector<Tensor> parts, i64 axis, Device to) {
  if (!parts.front().defined()) return parts.front();
  for (Tensor& p : parts) p = p.to(to);
  if (parts.size() == 1) return parts.front();
  const bool none = parts.front().dim() == 0;
  for (Tensor& p : parts)
    if (none) p = p.reshape({1});
  return cat(parts, none ? 0 : axis);
}

}  // namespace wt::nn::detail
