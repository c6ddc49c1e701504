// A model beside PyTorch's: tests/reference/models, which
// tools/generators/make_models_reference.py writes and describes.
#pragma once
#include <cmath>
#include <functional>

#include "warptape/autograd/loss.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/core/factories.h"
#include "warptape/core/str.h"
#include "warptape/nn/module.h"
#include "warptape/tests/reference/reader.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

namespace wt_test {

// Numbers of [-1, 1), multiples of 2^-23, from a hash of the index and the name.
std::vector<double> hashed_numbers(wt::i64 count, const std::string& name);
// The same as a tensor in f64 on the default device, or as ids of [0, below).
wt::Tensor hashed(const wt::Shape& shape, const std::string& name = "x");
wt::Tensor hashed_ids(const wt::Shape& shape, const std::string& name, wt::i64 below);
// Every parameter and buffer by its name; the rules are the generator's.
void fill_by_hash(const wt::nn::ModuleBase& net);

// Names, shapes and count of parameters are those of the file. The model may be on a meta device.
void check_names(const std::string& reference, const wt::nn::ModuleBase& net);
// The first outputs are those of the file: |difference| <= bound (1 + |theirs|).
void check_outputs(const std::string& reference, const wt::Tensor& output, double bound);

// What a test of a small model is about.
struct SmallModel {
  std::string reference;
  double bound = 1e-9;  // of all numbers, in f64
  bool on_simt = true;  // outputs and the first step's gradients there too
};
// Names, outputs in evaluation, norms of the gradients, each of which is there and finite, and the
// losses of five steps of SGD. `make` makes the model, `loss_of` calls it.
template <class M>
void check_small(const SmallModel& s, const std::function<M()>& make,
                 const std::function<wt::Tensor(M&)>& call,
                 const std::function<wt::Loss(wt::Tensor)>& loss_of);

namespace detail {
// A device's mailbox, which outlives all tensors.
void make_what_is_made_once();
// Of one device: output(net) in evaluation, loss() in training mode.
void check_small_on(wt::Device d, const SmallModel& s, const wt::nn::ModuleBase& net,
                    const std::function<wt::Tensor()>& output,
                    const std::function<wt::Loss()>& loss);
}  // namespace detail

template <class M>
void check_small(const SmallModel& s, const std::function<M()>& make,
                 const std::function<wt::Tensor(M&)>& call,
                 const std::function<wt::Loss(wt::Tensor)>& loss_of) {
  for (const wt::Device d : kernel_devices()) {
    if (!s.on_simt && d.kind != wt::DeviceKind::cpu) continue;
    const wt::DefaultDevice there(d);
    detail::make_what_is_made_once();
    const LeakGuard guard;
    M net = make();
    detail::check_small_on(
        d, s, net, [&] { return call(net); }, [&] { return loss_of(call(net)); });
  }
}

// A model of full size in f32 on the cpu: names, and outputs where the build is not instrumented,
// since hashing tens of millions of weights takes seconds there.
template <class M>
void check_whole(const std::string& reference, const std::function<M()>& make,
                 const std::function<wt::Tensor(M&)>& call) {
  INFO(reference);
  if (!whole_walk()) {
    const wt::DefaultDevice meta(wt::Device::meta(wt::DeviceKind::cpu));
    return check_names(reference, make());
  }
  M net = make();
  check_names(reference, net);
  fill_by_hash(net);
  net.eval();
  const wt::NoGrad no_grad;
  check_outputs(reference, call(net), 1e-4);
}

// Cross entropy against hashed labels of the logits' shape without the last axis.
inline std::function<wt::Loss(wt::Tensor)> hashed_classes() {
  return [](wt::Tensor logits) {
    wt::Shape shape = logits.shape();
    shape.erase(logits.ndim() - 1);
    const wt::i64 classes = logits.size(-1);
    const wt::Tensor labels = hashed_ids(shape, "labels", classes);
    return cross_entropy(std::move(logits).reshape({-1, classes}), labels.flatten());
  };
}

}  // namespace wt_test
