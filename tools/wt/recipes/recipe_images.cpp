// fashion, and what it has in common with cifar.
#include <numeric>

#include "warptape/autograd/ops/arrange.h"
#include "warptape/autograd/ops/dropout.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/factories.h"
#include "warptape/data/dataset.h"
#include "warptape/data/synthetic.h"
#include "warptape/nn/layers.h"
#include "warptape/tools/wt/recipes/image_recipe.h"

namespace wt::tools {
namespace {

struct ConvBlock : nn::Module<ConvBlock> {
  nn::Conv2d conv;
  nn::BatchNorm2d norm;
  ConvBlock(i64 in, i64 out)
      : conv(add("conv", nn::Conv2d{in, out, {.kernel = 3, .padding = 1, .bias = false}})),
        norm(add("norm", nn::BatchNorm2d{out, {.activation = Activation::relu}})) {
    set_type("ConvBlock");
  }
  Tensor forward(Tensor x) { return norm(conv(std::move(x))); }
};

// x [N, C, S, S] -> logits [N, 10]
nn::Sequential make_cnn(const CnnShape& s) {
  nn::Sequential net;
  i64 channels = s.channels, size = s.size;
  for (const i64 width : s.widths) {
    for (i64 i = 0; i < s.depth; ++i) {
      net.push_back(ConvBlock{channels, width});
      channels = width;
    }
    net.push_back(nn::MaxPool2d{2});
    size /= 2;
  }
  net.push_back(nn::Flatten{});
  net.push_back(nn::Linear{channels * size * size, s.hidden});
  net.push_back(nn::ReLU{});
  net.push_back(nn::Dropout{s.dropout});
  net.push_back(nn::Linear{s.hidden, kImageClasses});
  return net;
}

nn::Sequential make_mlp(i64 inputs) {
  return nn::Sequential{nn::Flatten{}, nn::Linear{inputs, 256},
                        nn::ReLU{},    nn::Linear{256, 128},
                        nn::ReLU{},    nn::Linear{128, kImageClasses}};
}

constexpr i64 kSyntheticTrain = 4000, kSyntheticHeldOut = 1000;

}  // namespace

models::AnyModel small_image_model(Settings& s, const std::string& model, CnnShape c) {
  const i64 width = s.integer("width", c.widths[0], 1, 1024);
  c.dropout = s.real("dropout", c.dropout, 0, 0.9);
  if (model == "mlp") return any_model(make_mlp(c.channels * c.size * c.size));
  for (i64& w : c.widths) w = w * width / 32;
  return any_model(make_cnn(c));
}

data::Batch meta_images(i64 batch, const Shape& image) {
  return {
      empty({batch, image[0], image[1], image[2]}, {.dtype = DType::f32, .device = Device::meta()}),
      empty({batch}, {.dtype = DType::i64, .device = Device::meta()})};
}

Tensor some_mirrored(const Tensor& images) {
  const Tensor drawn = dropout(ones({images.size(0), 1, 1, 1}, {.device = images.device()}), 0.5);
  return where(gt(drawn, 0), flip(images, {-1}), images);
}

RecipeData synthetic_images(const Shape& image) {
  const auto images = [&](i64 samples, i64 first) {
    return data::SyntheticImages{{.samples = samples,
                                  .classes = kImageClasses,
                                  .channels = image[0],
                                  .height = image[1],
                                  .width = image[2],
                                  .first = first}};
  };
  const data::SyntheticImages train = images(kSyntheticTrain, 0);
  return {train, images(kSyntheticHeldOut, kSyntheticTrain), {}, [train](Device d) {
            std::vector<i64> all(size_t(train.size()));
            std::iota(all.begin(), all.end(), 0);
            const data::Batch b = train.batch(all);
            return data::AnyDataset(data::TensorDataset(b.x.to(d), b.y.to(d)));
          }};
}

i64 synthetic_images_bytes(const Shape& image) {
  return kSyntheticTrain * (numel_of(image) * item_size(DType::f32) + item_size(DType::i64));
}

namespace {

class Fashion : public Images<data::FashionMnist> {
 public:
  explicit Fashion(Settings s)
      : Images(small_image_model(s, s.choice("model", {"cnn", "mlp"}),
                                 {.channels = 1,
                                  .size = 28,
                                  .widths = {32, 64},
                                  .depth = 1,
                                  .hidden = 128,
                                  .dropout = 0.25}),
               "fashion needs --data FOLDER with the IDX files of Fashion-MNIST or MNIST"),
        digits_(s.choice("classes", {"fashion", "digits"}) == "digits"),
        flip_(s.flag("flip", false)) {
    set_settings(s, "fashion");
  }
  Tensor logits(const Tensor& x) override {
    return net_(flip_ && net_.is_training() ? some_mirrored(x) : x);
  }
  Shape image_shape() const override { return {1, 28, 28}; }
  std::vector<std::string> class_names() const override {
    if (!digits_) return Images::class_names();
    return {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
  }
  RecipeDefaults defaults() const override {
    return {.batch = 64, .epochs = 5, .lr = 1e-3, .weight_decay = 0.01, .warmup = 100};
  }

 private:
  bool digits_, flip_;
};

}  // namespace

std::unique_ptr<Recipe> make_fashion(Settings s) { return std::make_unique<Fashion>(std::move(s)); }

}  // namespace wt::tools
