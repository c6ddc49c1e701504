// Images that need no file: what the optimizer race runs on without --data.
#include "warptape/core/factories.h"
#include "warptape/data/synthetic.h"
#include "warptape/nn/layers.h"
#include "warptape/tools/wt/measure/race.h"

namespace wt::tools {
namespace {

constexpr i64 kSide = 16, kPatterns = 10, kTrain = 4000, kHeldOut = 1000;

nn::Sequential make_net(bool cnn, i64 width) {
  if (!cnn) {
    return nn::Sequential{nn::Flatten{}, nn::Linear{kSide * kSide, 4 * width},
                          nn::ReLU{},    nn::Linear{4 * width, 2 * width},
                          nn::ReLU{},    nn::Linear{2 * width, kPatterns}};
  }
  return nn::Sequential{nn::Conv2d{1, width / 2, {.kernel = 3, .padding = 1}},
                        nn::ReLU{},
                        nn::MaxPool2d{2},
                        nn::Conv2d{width / 2, width, {.kernel = 3, .padding = 1}},
                        nn::ReLU{},
                        nn::MaxPool2d{2},
                        nn::Flatten{},
                        nn::Linear{width * kSide * kSide / 16, kPatterns}};
}

class Synthetic : public Recipe {
 public:
  explicit Synthetic(Settings s)
      : noise_(s.real("noise", 2.5, 0, 100)),
        net_(make_net(s.choice("model", {"cnn", "mlp"}) == "cnn", s.integer("width", 16, 2, 512))) {
    set_settings(s, "synthetic");
  }

  nn::ModuleBase& model() override { return net_; }
  Tensor logits(const Tensor& x) override { return net_(x); }
  RecipeData load(const std::string& data) override {
    if (!data.empty() && data != kSyntheticData)
      throw UsageError("recipe=synthetic takes no --data");
    return {images(kTrain, 0), images(kHeldOut, kTrain)};
  }
  i64 dataset_bytes(const std::string&) const override { return 0; }  // made as they are asked for
  data::Batch shape_batch(i64 batch) const override {
    return {empty({batch, 1, kSide, kSide}, {.dtype = DType::f32, .device = Device::meta()}),
            empty({batch}, {.dtype = DType::i64, .device = Device::meta()})};
  }
  RecipeDefaults defaults() const override {
    return {.batch = 64, .steps = 300, .lr = 2e-3, .weight_decay = 0.01};
  }
  const char* item() const override { return "images"; }
  Shape image_shape() const override { return {1, kSide, kSide}; }

 private:
  data::SyntheticImages images(i64 samples, i64 first) const {
    return data::SyntheticImages{{.samples = samples,
                                  .classes = kPatterns,
                                  .channels = 1,
                                  .height = kSide,
                                  .width = kSide,
                                  .noise = noise_,
                                  .first = first}};
  }
  double noise_;
  nn::Sequential net_;
};

}  // namespace

std::unique_ptr<Recipe> make_synthetic(Settings s) {
  return std::make_unique<Synthetic>(std::move(s));
}

}  // namespace wt::tools
