#include "warptape/autograd/ops/elementwise_loss.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/at_line.h"
#include "warptape/core/factories.h"
#include "warptape/core/suggest.h"
#include "warptape/nn/models.h"
#include "warptape/nn/module_state.h"

namespace wt::models {
namespace {

const Tensor& output_of(const Tensor& y) { return y; }
const Tensor& output_of(const PointNetResult& y) { return y.output; }

void check_count(const nn::ModuleBase& m, size_t wanted, size_t given) {
  if (given != wanted)
    throw UsageError(str("[", m.type(), "] takes ", wanted, wanted == 1 ? " input" : " inputs",
                         ", got ", given, at_line()));
}

template <class M>
AnyModel one(const M& model) {
  return {model, [model](const AnyModel::Inputs& x) mutable {
            check_count(model, 1, x.size());
            return Tensor(output_of(model(x[0])));
          }};
}
template <class M>
AnyModel two(const M& model) {
  return {model, [model](const AnyModel::Inputs& x) mutable {
            check_count(model, 2, x.size());
            return model(x[0], x[1]);
          }};
}

const std::vector<ModelInput> kPicture{{{3, 224, 224}}}, kSmallPicture{{{3, 32, 32}}};
constexpr i64 kImagenet = 1000, kCifar = 10, kWords = 10000, kTokens = 50257;
constexpr const char* kClasses = "classes";

std::vector<nn::NamedTensor> gpt2_state_for(const nn::ModuleBase& model,
                                            const std::vector<nn::NamedTensor>& state) {
  const i64 rows = model.parameter("transformer.wte.weight")->size(0);  // the padded vocabulary
  return gpt2_state(state, {.vocabulary = rows});
}

std::vector<ModelInfo> table() {
  return {
      {"resnet18", "ResNet-18, the ImageNet stem", "torchvision: resnet18", kPicture, kImagenet,
       kClasses, ModelOutput::logits, [](i64 n) { return one(resnet18({.classes = n})); }},
      {"resnet34", "ResNet-34, the ImageNet stem", "torchvision: resnet34", kPicture, kImagenet,
       kClasses, ModelOutput::logits, [](i64 n) { return one(resnet34({.classes = n})); }},
      {"resnet50", "ResNet-50, the ImageNet stem", "torchvision: resnet50", kPicture, kImagenet,
       kClasses, ModelOutput::logits, [](i64 n) { return one(resnet50({.classes = n})); }},
      {"resnet18_cifar", "ResNet-18 for 32 x 32 pixels", "trained here", kSmallPicture, kCifar,
       kClasses, ModelOutput::logits,
       [](i64 n) { return one(resnet18({.classes = n, .cifar_stem = true})); }},
      {"resnet34_cifar", "ResNet-34 for 32 x 32 pixels", "trained here", kSmallPicture, kCifar,
       kClasses, ModelOutput::logits,
       [](i64 n) { return one(resnet34({.classes = n, .cifar_stem = true})); }},
      {"resnet50_cifar", "ResNet-50 for 32 x 32 pixels", "trained here", kSmallPicture, kCifar,
       kClasses, ModelOutput::logits,
       [](i64 n) { return one(resnet50({.classes = n, .cifar_stem = true})); }},
      {"cifar_speedrun", "airbench94's network: whitening, GELU, shifting norms", "trained here",
       kSmallPicture, kCifar, kClasses, ModelOutput::logits,
       [](i64 n) { return one(CifarSpeedrun({.classes = n})); }},
      {"mobilenet_v2", "MobileNetV2", "torchvision: mobilenet_v2", kPicture, kImagenet, kClasses,
       ModelOutput::logits, [](i64 n) { return one(mobilenet_v2({.classes = n})); }},
      {"mobilenet_v3_small", "MobileNetV3 small", "torchvision: mobilenet_v3_small", kPicture,
       kImagenet, kClasses, ModelOutput::logits,
       [](i64 n) { return one(mobilenet_v3_small({.classes = n})); }},
      {"efficientnet_b0", "EfficientNet-B0", "torchvision: efficientnet_b0", kPicture, kImagenet,
       kClasses, ModelOutput::logits, [](i64 n) { return one(efficientnet_b0({.classes = n})); }},
      {"vit_small_patch16_224", "ViT-S/16", "timm: vit_small_patch16_224", kPicture, kImagenet,
       kClasses, ModelOutput::logits,
       [](i64 n) { return one(vit_small_patch16_224({.classes = n})); }},
      {"gpt2",
       "GPT-2 124M, the head tied to the table",
       "Hugging Face: gpt2",
       {{{1024}, kTokens}},
       kTokens,
       "tokens",
       ModelOutput::logits,
       [](i64 n) { return one(gpt2({.vocabulary = n})); },
       gpt2_state_for},
      {"gpt2_medium",
       "GPT-2 355M",
       "Hugging Face: gpt2-medium",
       {{{1024}, kTokens}},
       kTokens,
       "tokens",
       ModelOutput::logits,
       [](i64 n) { return one(gpt2_medium({.vocabulary = n})); },
       gpt2_state_for},
      {"seq2seq",
       "Transformer, 4 + 4 layers, 8 heads",
       "trained here",
       {{{64}, kWords}, {{64}, kWords}},
       kWords,
       "tokens of each language",
       ModelOutput::logits,
       [](i64 n) { return two(Seq2Seq({.source_vocabulary = n, .target_vocabulary = n})); }},
      {"unet",
       "U-Net with five levels",
       "torch.hub: milesial/Pytorch-UNet, unet_carvana",
       {{{3, 256, 256}}},
       2,
       kClasses,
       ModelOutput::logits_of_pixels,
       [](i64 n) { return one(Unet({.classes = n})); }},
      {"pointnet",
       "PointNet on 1024 points",
       "fxia22/pointnet.pytorch",
       {{{3, 1024}}},
       40,
       kClasses,
       ModelOutput::logits,
       [](i64 n) { return one(PointNet({.classes = n})); }},
      {"deepsdf",
       "DeepSDF's auto-decoder with its table of latents",
       "DeepSDF's program, its two files joined",
       {{{}, 100}, {{3}}},
       100,
       "shapes",
       ModelOutput::numbers,
       [](i64 n) { return two(DeepSdf({.shapes = n})); }},
      {"pinn",
       "MLP of 3 x 20 with tanh, of place and time",
       "DeepXDE: FNN",
       {{{2}}},
       1,
       "values of the function",
       ModelOutput::numbers,
       [](i64 n) {
         return one(Pinn({.features = {2, 20, 20, 20, n}}));
       }},
  };
}

}  // namespace

AnyModel::AnyModel(const nn::ModuleBase& model, Call call) : call_(std::move(call)) {
  ModuleBase::operator=(ModuleBase(model));
  state()->type_given = true;  // files are to name the model's class, not this one
}

AnyModel::Inputs ModelInfo::made_up_inputs(i64 batch) const {
  AnyModel::Inputs all;
  for (const ModelInput& input : inputs) {
    Shape shape = input.shape;
    shape.insert(0, batch);
    all.push_back(input.ids > 0 ? zeros(shape, {.dtype = DType::i64}) : rand(shape));
  }
  return all;
}

Loss ModelInfo::made_up_loss(Tensor y) const {
  const TensorOptions like{.dtype = y.dtype(), .device = y.device()};
  if (output == ModelOutput::numbers) return mse_loss(y, zeros(y.shape(), like));
  const int axis = output == ModelOutput::logits ? y.ndim() - 1 : 1;
  const i64 classes = y.size(axis);
  Shape labels = y.shape();
  labels.erase(axis);
  const Tensor none = zeros(labels, {.dtype = DType::i64, .device = y.device()});
  if (output == ModelOutput::logits_of_pixels) return cross_entropy(std::move(y), none);
  return cross_entropy(std::move(y).reshape({-1, classes}), none.flatten());
}

const std::vector<ModelInfo>& all_models() {
  static const std::vector<ModelInfo> models = table();
  return models;
}

const ModelInfo& find_model(std::string_view name) {
  std::vector<std::string_view> names;
  for (const ModelInfo& m : all_models()) {
    if (name == m.name) return m;
    names.push_back(m.name);
  }
  throw UsageError(str("[models] there is no model '", printable(name), "'",
                       did_you_mean(name, names), at_line(), "\n  `wt models` lists them"));
}

AnyModel make(std::string_view name, const MakeOptions& o) {
  const ModelInfo& m = find_model(name);
  if (o.classes < 0)
    throw UsageError(str("[models] ", m.name, ": ", m.classes_are, " must be at least 1, got ",
                         o.classes, at_line()));
  return m.make(o.classes ? o.classes : m.classes);
}

}  // namespace wt::models
