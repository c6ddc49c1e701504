// The models of nn/models.h, and GPT-2's block by itself: each as its peers in bench/peers build
// it.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string_view>

#include "warptape/autograd/ops/elementwise_loss.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/bench/steps/flop_count.h"
#include "warptape/bench/steps/steps_models.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/nn/models.h"

namespace wt::bench {
namespace {

constexpr i64 kInputSeed = 101;
// In more of them batch norm of few samples carries f32's roundings as far as the second digit.
constexpr int kCheckSteps = 1;

// What is measured where the caller names neither; the rest has 16 samples of the model's own size.
struct Usual {
  const char* model;
  i64 batch, image;
};
constexpr Usual kUsual[] = {{"resnet18_cifar", 64, 32},
                            {"cifar_speedrun", 64, 32},
                            {"mobilenet_v2", 32, 64},
                            {"mobilenet_v3_small", 32, 64},
                            {"efficientnet_b0", 16, 64},
                            {"pointnet", 32, 0},
                            {"gpt2", 1, 0},
                            {"gpt2_medium", 1, 0},
                            {"pinn", 4096, 0},
                            {"deepsdf", 4096, 0}};

// Dropout draws other numbers in every library, so none is drawn.
void without_dropout(const nn::ModuleBase& net) {
  for (const nn::NamedModule& m : net.named_modules()) {
    const std::string_view type = m.module.type();
    if (type.starts_with("Dropout") || type == "StochasticDepth" || type.ends_with("Attention"))
      m.module.eval();
  }
}

// Matrices and filters in [-s, s), s = 1 / sqrt(inputs), their seed the place among the parameters
// from 1; biases 0; what scales a norm stays as it begins.
void set_named_numbers(const nn::ModuleBase& net) {
  const NoGrad no_grad;
  i64 place = 0;
  for (nn::NamedTensor& p : net.named_parameters()) {
    ++place;
    if (p.tensor.ndim() > 1) {
      const double inputs = double(p.tensor.numel() / p.tensor.size(0));
      p.tensor.copy_(step_numbers(p.tensor.shape(), place, 1 / std::sqrt(inputs)));
    } else if (p.name.ends_with("bias")) {
      p.tensor.zero_();
    }
  }
}

models::ModelInfo gpt2_block() {
  return {"gpt2_block",
          "one block of GPT-2",
          "",
          {{{256, 768}}},
          768,
          "channels",
          models::ModelOutput::logits,
          [](i64) {
            const models::Gpt2Block block({.dropout = 0});
            return models::AnyModel(
                block, [block](const models::AnyModel::Inputs& x) mutable { return block(x[0]); });
          }};
}

models::ModelInfo info_of(const std::string& name) {
  return name == "gpt2_block" ? gpt2_block() : models::find_model(name);
}

// [N, C, H, W] becomes `image` x `image`; any other shape stays.
Shape resized(Shape shape, i64 image) {
  if (image > 0 && shape.ndim() == 4) shape[2] = shape[3] = image;
  return shape;
}

models::AnyModel::Inputs inputs_of(const models::ModelInfo& info, i64 batch, i64 image) {
  models::AnyModel::Inputs all;
  i64 seed = kInputSeed;
  for (const models::ModelInput& input : info.inputs) {
    Shape shape = input.shape;
    shape.insert(0, batch);
    all.push_back(input.ids > 0 ? step_indices(shape, seed, input.ids)
                                : step_numbers(resized(shape, image), seed, 1));
    ++seed;
  }
  return all;
}

// [samples, classes] with a label a sample; numbers, whose targets are zeros, as they are.
Tensor rows_of(const models::ModelInfo& info, Tensor y) {
  if (info.output == models::ModelOutput::numbers) return y;
  if (info.output == models::ModelOutput::logits_of_pixels)
    y = transpose(flatten(std::move(y), 2), 1, 2);  // [N, C, H, W] -> [N, H W, C]
  const i64 classes = y.size(-1);
  return reshape(std::move(y), {-1, classes});
}

std::string text_of(const models::AnyModel::Inputs& inputs) {
  std::string text;
  for (const Tensor& x : inputs) {
    std::string one;
    for (const i64 n : x.shape()) one += str(one.empty() ? "" : "x", n);
    text += (text.empty() ? "" : " and ") + one;
  }
  return text;
}

std::unique_ptr<optim::Optimizer> optimizer_of(std::string_view name, const nn::ModuleBase& net) {
  if (name.starts_with("gpt2") || name.starts_with("vit") || name == "seq2seq")
    return std::make_unique<optim::AdamW>(net,
                                          optim::AdamWOptions{.lr = 1e-4, .weight_decay = 0.01});
  return std::make_unique<optim::Sgd>(net, optim::SgdOptions{.lr = 1e-4, .momentum = 0.9});
}

}  // namespace

bool is_named_step(const std::string& name) {
  const std::vector<models::ModelInfo>& all = models::all_models();
  return name == "gpt2_block" ||
         std::any_of(all.begin(), all.end(), [&](const auto& m) { return m.name == name; });
}

std::vector<std::string> named_step_models() {
  std::vector<std::string> names{"gpt2_block"};
  for (const models::ModelInfo& m : models::all_models()) names.emplace_back(m.name);
  return names;
}

StepModel make_named_step(const StepOptions& o) {
  const std::string& name = o.model;
  Usual usual{name.c_str(), 16, 0};
  if (name == "gpt2_block") usual.batch = 4;
  for (const Usual& u : kUsual)
    if (name == u.model) usual = u;
  const models::ModelInfo info = info_of(name);
  const models::AnyModel net = info.make(info.classes);
  set_named_numbers(net);
  without_dropout(net);
  models::AnyModel::Inputs inputs =
      inputs_of(info, o.batch > 0 ? o.batch : usual.batch, o.image > 0 ? o.image : usual.image);
  if (o.channels_last) {
    if (inputs[0].ndim() != 4)
      throw UsageError(
          str("channels_last is of pictures, and '", name, "' takes ", text_of(inputs)));
    inputs[0] = contiguous(inputs[0], MemoryFormat::channels_last);
  }
  StepModel m;
  m.shape = text_of(inputs);
  m.net = net;
  m.logits = [net, inputs, info](const Tensor& x) {
    models::AnyModel::Inputs all = inputs;
    all[0] = x;
    return rows_of(info, net(all));
  };
  m.is_regression = info.output == models::ModelOutput::numbers;
  FlopCount count;
  {
    const NoGrad no_grad;
    const profiler::ObserverScope watch(count);
    const Tensor y = m.logits(inputs[0]);
    m.batch = {inputs[0], m.is_regression ? zeros(y.shape()) : step_labels(y.size(0), y.size(1))};
  }
  m.flops = 3 * count.flops;
  m.check_steps = kCheckSteps;
  m.clip = 1;
  m.optimizer = optimizer_of(name, net);
  return m;
}

}  // namespace wt::bench
