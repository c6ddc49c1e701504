// fashion: an MLP on images of the MNIST family.
#include "warptape/autograd/ops_loss.h"
#include "warptape/autograd/ops_pointwise.h"
#include "warptape/autograd/ops_reduce.h"
#include "warptape/core/factories.h"
#include "warptape/nn/layers.h"
#include "warptape/tools/recipes.h"

namespace wt::tools {
namespace {

struct ImageMlp : nn::Module<ImageMlp> {
  nn::Linear fc1 = add("fc1", nn::Linear{784, 256});
  nn::Linear fc2 = add("fc2", nn::Linear{256, 128});
  nn::Linear fc3 = add("fc3", nn::Linear{128, 10});
  ImageMlp() { set_type("ImageMlp"); }
  // x [B, 784] -> logits [B, 10]
  Tensor forward(Tensor x) {
    x = relu(fc1(std::move(x)));
    x = relu(fc2(std::move(x)));
    return fc3(std::move(x));
  }
};

class Fashion : public Recipe {
 public:
  explicit Fashion(const RecipeOptions& o) {
    batch_ = o.batch ? o.batch : defaults().batch;
    if (o.data.empty())
      throw UsageError("fashion needs --data FOLDER with the IDX files of Fashion-MNIST or MNIST");
    if (o.shapes_only) {
      data_bytes_ = data::FashionMnist::bytes_of(o.data, {.train = true}) +
                    data::FashionMnist::bytes_of(o.data, {.train = false});
      return;
    }
    const data::FashionMnist train(o.data, {.train = true, .flatten = true});
    loader_.emplace(train, data::LoaderOptions{.batch = batch_, .shuffle = true, .seed = o.seed});
    test_.emplace(o.data, data::FashionMnistOptions{.train = false, .flatten = true});
  }

  nn::ModuleBase& model() override { return net_; }
  Loss loss(const data::Batch& b) override { return cross_entropy(net_(b.x), b.y); }
  bool next(data::Batch& b) override { return loader_->next(b); }
  i64 batches_per_epoch() const override { return loader_->size(); }
  data::LoaderState position() const override { return loader_->state(); }
  void set_position(const data::LoaderState& s) override { loader_->set_state(s); }
  data::Batch shape_batch() const override {
    return {empty({batch_, 784}, {.dtype = DType::f32, .device = Device::meta()}),
            empty({batch_}, {.dtype = DType::i64, .device = Device::meta()})};
  }
  i64 dataset_bytes() const override { return data_bytes_; }

  EvalResult evaluate(Device d) override {
    const nn::EvalScope eval(net_);
    const NoGrad no_grad;
    const i64 n = test_->size();
    double sum = 0, right = 0;
    for (i64 at = 0; at < n; at += 500) {
      std::vector<i64> pick;
      for (i64 i = at; i < std::min<i64>(at + 500, n); ++i) pick.push_back(i);
      const data::Batch b = test_->batch(pick).to(d);
      const Tensor logits = net_(b.x);
      const std::vector<i64> guess = argmax(logits, 1).to_vector<i64>(),
                             want = b.y.to_vector<i64>();
      for (size_t i = 0; i < guess.size(); ++i) right += guess[i] == want[i];
      sum += cross_entropy(logits, b.y).sum.item();
    }
    return {sum / double(n), right / double(n)};
  }

  Defaults defaults() const override {
    return {.batch = 64, .epochs = 5, .lr = 1e-3, .weight_decay = 0.01, .warmup = 100, .evals = 5};
  }
  const char* item() const override { return "images"; }

 private:
  i64 batch_;
  i64 data_bytes_ = 0;
  ImageMlp net_;
  std::optional<data::Loader<data::FashionMnist>> loader_;
  std::optional<data::FashionMnist> test_;
};

}  // namespace

std::unique_ptr<Recipe> make_fashion(const RecipeOptions& o) {
  return std::make_unique<Fashion>(o);
}

}  // namespace wt::tools
