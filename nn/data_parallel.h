// One process, several devices, one model: what PyTorch calls nn.DataParallel.
//
//   nn::DataParallel net{Net{}, {.devices = {Device::cuda(0), Device::cuda(1)}}};
//   Tensor y = net(x);                       // half of the batch on each, y on cuda:0
//   cross_entropy(y, t).backward();          // gradients of the whole batch, in net.module's
//   parameters
//
// A call cuts the batch into a part a device, copies the parameters to the devices other than the
// first, calls the module once a device and joins the results on the first one. The copies are of
// the call: their gradients flow back into the module's own parameters and add up there, so an
// optimizer, a loss over the whole batch and a checkpoint do not change. What the replicas write
// into buffers (running statistics) is lost, but for the first one's, as in PyTorch. Dropout draws
// for each part by itself.
//
// The calls are made one after the other by the calling thread. GPUs work beside each other, as
// each has a queue; parts on the cpu and simt take turns, and gain nothing. Every call copies all
// parameters, and their gradients come back to the first device: dist::DataParallel, where each
// rank has a model that stays, is faster and takes several hosts (docs/distributed.md).
#pragma once
#include <concepts>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "warptape/core/misnamed.h"
#include "warptape/nn/functional_call.h"
#include "warptape/nn/module.h"

namespace wt::nn {

// Where the parts of a batch are computed, and along which axis it is cut.
struct DataParallelOptions {
  // The first has the module, takes a part of its own and gets the results; one may be there twice.
  // Empty: all GPUs, from that of the module on, or the module's own device alone.
  std::vector<Device> devices = {};
  i64 axis = 0;  // of inputs and results, along which the batch is cut
  WT_MISNAMED_SAYS(device_ids, "it is .devices, as {Device::cuda(0), Device::cuda(1)}");
  WT_MISNAMED_SAYS(output_device, "results are on the first of .devices");
  WT_MISNAMED(dim, axis);
};

namespace detail {
// The devices of a call. Throws PlacementError where the module is not on the first.
WT_API std::vector<Device> devices_of_call(const ModuleBase& module,
                                           const DataParallelOptions& options);
// Sizes of the parts of n samples: those of chunk(), none empty but that of an empty batch.
WT_API std::vector<i64> part_sizes(i64 n, i64 parts);
// The parameters on d, through which gradients flow, and copies of the buffers.
WT_API std::vector<NamedTensor> replica_tensors(const ModuleBase& module, Device d);
// Samples first, first + 1, ... of an argument; none of an undefined one. Throws ShapeError for one
// of another batch.
WT_API Tensor part_for(const Tensor& x, i64 axis, i64 samples, i64 first, i64 size, Device d);
// A result's parts on `to`; of those without axes, one after the other.
WT_API Tensor joined(std::vector<Tensor> parts, i64 axis, Device to);

// The same for a result of several tensors.
template <class Y>
Y join_results(std::vector<Y> parts, i64 axis, Device to) {
  if constexpr (std::same_as<Y, Tensor>) {
    return joined(std::move(parts), axis, to);
  } else if constexpr (std::same_as<Y, std::vector<Tensor>>) {
    Y all;
    for (size_t i = 0; i < parts.front().size(); ++i) {
      std::vector<Tensor> one;
      for (const Y& p : parts) one.push_back(p.at(i));
      all.push_back(joined(std::move(one), axis, to));
    }
    return all;
  } else {
    static_assert(
        requires { std::tuple_size<Y>::value; },
        "the module of a DataParallel returns a tensor, or a pair, tuple or vector of "
        "tensors");
    return [&]<size_t... i>(std::index_sequence<i...>) {
      const auto one = [&]<size_t k>(std::integral_constant<size_t, k>) {
        std::vector<Tensor> of;
        for (const Y& p : parts) of.push_back(std::get<k>(p));
        return joined(std::move(of), axis, to);
      };
      return Y{one(std::integral_constant<size_t, i>())...};
    }
    (std::make_index_sequence<std::tuple_size<Y>::value>());
  }
}
}  // namespace detail

// A module that is called once a device, each time with a part of the batch. It is registered as
// "module", so parameters have PyTorch's names: "module.fc.weight".
template <class M>
class DataParallel : public Module<DataParallel<M>> {
 public:
  static_assert(std::derived_from<M, ModuleBase>, "a DataParallel holds a module");
  // Holds m, which is neither copied nor moved: when it is called it must be on the first device.
  explicit DataParallel(M m, DataParallelOptions options = {})
      : module(this->add("module", std::move(m))), options_(std::move(options)) {
    this->set_type("DataParallel");  // of any M
  }

  // The module itself, on the first device: what an optimizer and a checkpoint are given.
  M module;

  // The result for the whole batch, on the first device. x and the tensors among `rest` are cut
  // along .axis, wherever they are; undefined ones and all else go to each call as they are: so do
  // tensors inside of structs (a mask in .attn_mask, say), which are not cut, and not copied to the
  // devices. The result is a tensor, or a pair, tuple or vector of tensors, no Loss: losses are for
  // the whole batch's result. Throws PlacementError for a module that is not on the first device,
  // ShapeError for tensors of unequal batches.
  template <class... Rest>
  auto forward(Tensor x, const Rest&... rest) {
    using Y = std::remove_cvref_t<decltype(module(x, rest...))>;
    const std::vector<Device> devices = detail::devices_of_call(module, options_);
    const i64 axis = options_.axis, samples = x.size(axis);
    std::vector<Y> parts;
    i64 first = 0;
    for (const i64 size : detail::part_sizes(samples, i64(devices.size()))) {
      const Device d = devices[parts.size()];
      const auto part = [&](const auto& argument) -> decltype(auto) {
        if constexpr (std::convertible_to<decltype(argument), const Tensor&>)
          return detail::part_for(argument, axis, samples, first, size, d);
        else
          return (argument);
      };
      if (parts.empty())
        parts.push_back(module(part(x), part(rest)...));
      else
        parts.push_back(
            functional_call(module, detail::replica_tensors(module, d), part(x), part(rest)...));
      first += size;
    }
    return detail::join_results(std::move(parts), axis, devices.front());
  }

 private:
  DataParallelOptions options_;
};

}  // namespace wt::nn
