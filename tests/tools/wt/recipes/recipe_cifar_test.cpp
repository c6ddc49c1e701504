// The recipe cifar with the networks that are known by name: what training is shown of the images,
// how the speed-run network begins, and that a run learns and goes on as if nothing had happened.
#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include "warptape/autograd/ops/arrange.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/data/cifar.h"
#include "warptape/data/resident.h"
#include "warptape/nn/cifar_speedrun.h"
#include "warptape/nn/models.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/support/captured_output.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/tiny_data.h"
#include "warptape/tools/wt/recipes/recipes.h"
#include "warptape/tools/wt/training/run_metrics.h"
#include "warptape/tools/wt/training/train.h"

using namespace wt;
using namespace wt::tools;

namespace {

std::unique_ptr<Recipe> made(const std::vector<std::string>& set) {
  manual_seed(5);
  return find_recipe("cifar").make(Settings(set));
}

double largest(const Tensor& t) { return max(abs(t)).item(); }

// Which window of `image`, with four pixels around it, `seen` is.
std::string view_of(const Tensor& seen, const Tensor& image) {
  const std::vector<float> s = seen.to_vector<float>(), w = image.to_vector<float>();
  const auto is = [&](i64 top, i64 left, bool mirrored) {
    for (i64 c = 0; c < 3; ++c)
      for (i64 y = 0; y < 32; ++y)
        for (i64 x = 0; x < 32; ++x) {
          const i64 from_y = y + top, from_x = x + left, to_x = mirrored ? 31 - x : x;
          if (from_y < 0 || from_y > 31 || from_x < 0 || from_x > 31) continue;
          if (std::abs(s[size_t((c * 32 + y) * 32 + to_x)] -
                       w[size_t((c * 32 + from_y) * 32 + from_x)]) > 1e-5f)
            return false;
        }
    return true;
  };
  for (i64 top = -4; top <= 4; ++top)
    for (i64 left = -4; left <= 4; ++left)
      for (const bool mirrored : {false, true})
        if (is(top, left, mirrored)) return str(top, " ", left, mirrored ? " mirrored" : "");
  return "none";
}

data::BatchAt first(i64 epoch, i64 count) { return {.seed = 5, .epoch = epoch, .count = count}; }

}  // namespace

TEST_CASE("cifar: the model is the one of the setting, with its own parameters' names") {
  CHECK(made({})->settings() == "model=cnn width=32 dropout=0.25 flip=true");
  const auto resnet = made({"model=resnet18"});
  CHECK(resnet->settings() ==
        "model=resnet18 width=64 flip=true crop=4 cutout=0 label_smoothing=0");
  CHECK(resnet->model().parameter_count() ==
        models::resnet18({.classes = 10, .cifar_stem = true}).parameter_count());
  CHECK(resnet->model().parameter("layer4.1.conv2.weight")->size(0) == 512);
  const auto speedrun = made({"model=speedrun", "width=8"});
  CHECK(speedrun->settings() ==
        "model=speedrun width=8 flip=true crop=2 cutout=0 label_smoothing=0.2");
  CHECK(speedrun->model().parameter("layers.3.conv2.weight")->size(0) == 32);
  CHECK(speedrun->defaults().schedule == "triangle");
  CHECK(mentions(message_of([] { made({"model=resnet19"}); }), "did you mean 'resnet18'"));
  CHECK(mentions(message_of([] {
                   made({"model=resnet18", "dropout=0.1"});
                 }),
                 "no setting 'dropout'"));
}

TEST_CASE("cifar: training is shown windows of the images, anew in each epoch, alike on devices") {
  const TempDir dir;
  wt_test::write_tiny_cifar(dir, 8);
  const auto recipe = made({"model=resnet18", "width=4"});
  const RecipeData d = recipe->load(dir.path);
  const data::AnyDataset there = d.resident(ready(Device::simt()));
  REQUIRE(d.train.is_resident());
  const data::Batch one = d.train.batch_at(first(0, 16)), two = d.train.batch_at(first(1, 16));
  CHECK(largest(one.x - two.x) > 0.5);
  CHECK(largest(one.x - there.batch_at(first(0, 16)).x.to(Device::cpu())) < 1e-6);
  std::vector<i64> samples(16);
  std::iota(samples.begin(), samples.end(), 0);
  const data::Batch whole = data::Cifar10(dir.path).batch(samples);
  std::set<std::string> views;
  for (i64 i = 0; i < 16; ++i) {
    const std::string view = view_of(one.x.select(0, i), whole.x.select(0, i));
    CHECK(view != "none");
    views.insert(view);
  }
  CHECK(views.size() > 8);
  // What is judged is never touched.
  const data::Batch held = d.held_out.batch(samples = {0, 1, 2});
  CHECK(largest(held.x - data::Cifar10(dir.path, {.train = false}).batch(samples).x) == 0);
  const RecipeData plain =
      made({"model=resnet18", "width=4", "crop=0", "flip=false"})->load(dir.path);
  CHECK(!plain.train.is_resident());
}

TEST_CASE("cifar: the speed-run network begins with a convolution that whitens its data") {
  const TempDir dir;
  wt_test::write_tiny_cifar(dir, 8);
  const auto recipe = made({"model=speedrun", "width=4"});
  const data::AnyDataset train = recipe->load(dir.path).train;
  recipe->begin(train);
  models::CifarSpeedrun wanted({.width1 = 4, .width2 = 16, .width3 = 16});
  std::vector<i64> all(size_t(train.size()));
  std::iota(all.begin(), all.end(), 0);
  wanted.whiten_by(train.batch(all).x);
  CHECK(largest(recipe->model().parameter("whiten.weight") - wanted.whiten.weight) == 0);
}

TEST_CASE("cifar: the loss is smoothed, evaluations are not") {
  const auto recipe = made({"model=speedrun", "width=4", "label_smoothing=0.3"});
  recipe->model().eval();
  const data::Batch b{rand({4, 3, 32, 32}), tensor({1, 2, 3, 4})};
  const Tensor y = recipe->logits(b.x);
  const double wanted = cross_entropy(y, b.y, {.label_smoothing = 0.3}).item();
  CHECK(std::abs(recipe->loss(b).item() - wanted) < 1e-6);
  CHECK(std::abs(wanted - cross_entropy(y, b.y).item()) > 1e-6);
}

TEST_CASE("row 82: cifar with ResNet-18 learns, and goes on from a checkpoint with the same bits") {
  const TempDir dir;
  wt_test::write_tiny_cifar(dir, 16);
  for (const char* model : {"model=resnet18", "model=speedrun"}) {
    CAPTURE(model);
    TrainOptions o;
    o.recipe = "cifar";
    o.set = {model, "width=4", "crop=0", "label_smoothing=0"};  // the bands are 3 pixels high
    o.device = "cpu";
    o.data = dir.path;
    o.out = dir / model;
    o.batch = 16;
    o.steps = 20;
    o.lr = 0.02;
    o.warmup = 0;
    o.save_every = 4;
    o.keep = 50;
    o.quiet = true;
    const auto run = [&] {
      const CapturedOutput output;
      REQUIRE(train(o) == 0);
      return output.text();
    };
    const std::string text = run();
    const double loss = std::stod(text.substr(text.find("\"train_loss\":") + 13));
    CHECK(loss < 1.7);  // of ln 10 = 2.3, after four epochs
    const std::string last = o.out + "/ckpt/step-000020.safetensors", whole = slurp(last);
    REQUIRE(!whole.empty());
    for (const char* step : {"12", "16", "20"})
      std::filesystem::remove(o.out + "/ckpt/step-0000" + step + ".safetensors");
    o.resume = true;
    run();
    CHECK(slurp(last) == whole);
  }
}

TEST_CASE(
    "a rate of --schedule triangle rises from a fifth over 23 % of the steps and falls to 7 %") {
  const TempDir dir;
  wt_test::write_tiny_cifar(dir, 4);
  TrainOptions o;
  o.recipe = "cifar";
  o.set = {"model=mlp"};
  o.device = "cpu";
  o.data = dir.path;
  o.out = dir / "run";
  o.batch = 10;
  o.steps = 100;
  o.lr = 1e-3;
  o.schedule = "triangle";
  o.log_every = 1;
  o.quiet = true;
  {
    const CapturedOutput output;
    REQUIRE(train(o) == 0);
  }
  const std::vector<wt::tools::StepRecord> steps = read_metrics(o.out + "/metrics.jsonl").steps;
  REQUIRE(steps.size() == 100);
  const auto is = [&](size_t step, double factor) {
    return std::abs(steps[step].lr / o.lr - factor) < 1e-9;
  };
  CHECK(is(0, 0.2));
  CHECK(is(23, 1));
  CHECK(is(99, 1 - 0.93 * 76 / 77));
}

TEST_CASE("fashion and cifar: some images are mirrored in training, none is when it is judged",
          "[images]") {
  manual_seed(7);
  for (const char* name : {"fashion", "cifar"}) {
    CAPTURE(name);
    const auto r = tools::find_recipe(name).make(
        tools::Settings({"model=mlp", "width=8", "dropout=0", "flip=true"}));
    const Shape image = r->image_shape();
    const Tensor x = rand({32, image[0], image[1], image[2]});
    r->model().eval();
    const std::vector<float> as_it_is = r->logits(x).to_vector<float>(),
                             mirrored = r->logits(flip(x, {-1})).to_vector<float>();
    CHECK(as_it_is != mirrored);
    r->model().train();
    const std::vector<float> seen = r->logits(x).to_vector<float>();
    int kept = 0, turned = 0;
    for (size_t i = 0; i < 32; ++i) {
      const auto same = [&](const std::vector<float>& of) {
        return std::equal(seen.begin() + std::ptrdiff_t(10 * i),
                          seen.begin() + std::ptrdiff_t(10 * i + 10),
                          of.begin() + std::ptrdiff_t(10 * i));
      };
      kept += same(as_it_is);
      turned += same(mirrored);
    }
    CHECK(kept + turned == 32);
    CHECK(kept > 4);
    CHECK(turned > 4);
  }
}
