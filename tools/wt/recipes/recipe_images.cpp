// fashion and cifar: images of ten classes.
#include <numeric>

#include "warptape/autograd/ops/arrange.h"
#include "warptape/autograd/ops/dropout.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/data/cifar.h"
#include "warptape/data/resident.h"
#include "warptape/data/synthetic.h"
#include "warptape/nn/layers.h"
#include "warptape/tools/wt/recipes/recipes.h"

namespace wt::tools {
namespace {

constexpr i64 kClasses = 10;

// Stages of convolutions, each with half the pixels of the one before, and one hidden layer.
struct CnnShape {
  i64 channels, size;       // of the images
  std::vector<i64> widths;  // channels of each stage
  i64 depth;                // convolutions a stage
  i64 hidden;
  double dropout;
};

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
  net.push_back(nn::Linear{s.hidden, kClasses});
  return net;
}

nn::Sequential make_mlp(i64 inputs) {
  return nn::Sequential{nn::Flatten{}, nn::Linear{inputs, 256},  nn::ReLU{}, nn::Linear{256, 128},
                        nn::ReLU{},    nn::Linear{128, kClasses}};
}

// The model that the settings ask for.
nn::Sequential make_model(Settings& s, CnnShape c) {
  const std::string model = s.choice("model", {"cnn", "mlp"});
  const i64 width = s.integer("width", c.widths[0], 1, 1024);
  c.dropout = s.real("dropout", c.dropout, 0, 0.9);
  if (model == "mlp") return make_mlp(c.channels * c.size * c.size);
  for (i64& w : c.widths) w = w * width / 32;
  return make_cnn(c);
}

data::Batch meta_batch(i64 batch, const Shape& image) {
  return {
      empty({batch, image[0], image[1], image[2]}, {.dtype = DType::f32, .device = Device::meta()}),
      empty({batch}, {.dtype = DType::i64, .device = Device::meta()})};
}

constexpr i64 kSyntheticTrain = 4000, kSyntheticHeldOut = 1000;

// --data synthetic: patterns of the same shape that need no file.
RecipeData synthetic_images(const Shape& image) {
  const auto images = [&](i64 samples, i64 first) {
    return data::SyntheticImages{{.samples = samples,
                                  .classes = kClasses,
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

// What fashion and cifar have in common; D is the dataset.
template <class D>
class Images : public Recipe {
 public:
  nn::ModuleBase& model() override { return net_; }
  RecipeData load(const std::string& root) override {
    need(root);
    if (root == kSyntheticData) return synthetic_images(image_shape());
    const D train(root, {.train = true});
    return {train, D(root, {.train = false}), {}, [train](Device d) {
              return data::AnyDataset(train.resident(d));
            }};
  }
  i64 dataset_bytes(const std::string& root) const override {
    need(root);
    if (root == kSyntheticData) return 0;  // made as they are asked for
    return D::bytes_of(root, {.train = true}) + D::bytes_of(root, {.train = false});
  }
  i64 resident_bytes(const std::string& root) const override {
    need(root);
    const i64 pixels = numel_of(image_shape()), label = item_size(DType::i64);
    if (root == kSyntheticData) return kSyntheticTrain * (pixels * item_size(DType::f32) + label);
    return D::bytes_of(root, {.train = true}) / (pixels + 1) * (pixels + label);
  }
  data::Batch shape_batch(i64 batch) const override { return meta_batch(batch, image_shape()); }
  const char* item() const override { return "images"; }
  std::vector<std::string> class_names() const override {
    return {D::class_names().begin(), D::class_names().end()};
  }
  Tensor prepare(const Tensor& images) const override { return D::prepare(images); }

 protected:
  Images(Settings& s, const CnnShape& shape, const char* wanted)
      : net_(make_model(s, shape)), wanted_(wanted) {}
  nn::Sequential net_;

 private:
  void need(const std::string& root) const {
    if (root.empty()) throw UsageError(str(wanted_));
  }
  const char* wanted_;
};

class Fashion : public Images<data::FashionMnist> {
 public:
  explicit Fashion(Settings s)
      : Images(s,
               {.channels = 1,
                .size = 28,
                .widths = {32, 64},
                .depth = 1,
                .hidden = 128,
                .dropout = 0.25},
               "fashion needs --data FOLDER with the IDX files of Fashion-MNIST or MNIST"),
        digits_(s.choice("classes", {"fashion", "digits"}) == "digits") {
    set_settings(s, "fashion");
  }
  Tensor logits(const Tensor& x) override { return net_(x); }
  Shape image_shape() const override { return {1, 28, 28}; }
  std::vector<std::string> class_names() const override {
    if (!digits_) return Images::class_names();
    return {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
  }
  RecipeDefaults defaults() const override {
    return {.batch = 64, .epochs = 5, .lr = 1e-3, .weight_decay = 0.01, .warmup = 100};
  }

 private:
  bool digits_;
};

class Cifar : public Images<data::Cifar10> {
 public:
  explicit Cifar(Settings s)
      : Images(s,
               {.channels = 3,
                .size = 32,
                .widths = {32, 64, 128},
                .depth = 2,
                .hidden = 128,
                .dropout = 0.25},
               "cifar needs --data FOLDER with data_batch_1.bin ... test_batch.bin of CIFAR-10"),
        flip_(s.flag("flip", true)) {
    set_settings(s, "cifar");
  }
  // In training every other image is mirrored. Which ones dropout draws: its calls are counted on
  // the device, so a captured step draws anew each time.
  Tensor logits(const Tensor& x) override {
    if (!flip_ || !net_.is_training()) return net_(x);
    const Tensor mirrored = gt(dropout(ones({x.size(0), 1, 1, 1}, {.device = x.device()}), 0.5), 0);
    return net_(where(mirrored, flip(x, {-1}), x));
  }
  Shape image_shape() const override { return {3, 32, 32}; }
  RecipeDefaults defaults() const override {
    return {.batch = 64, .epochs = 10, .lr = 2e-3, .weight_decay = 0.05, .warmup = 200};
  }

 private:
  bool flip_;
};

}  // namespace

std::unique_ptr<Recipe> make_fashion(Settings s) { return std::make_unique<Fashion>(std::move(s)); }
std::unique_ptr<Recipe> make_cifar(Settings s) { return std::make_unique<Cifar>(std::move(s)); }

}  // namespace wt::tools
