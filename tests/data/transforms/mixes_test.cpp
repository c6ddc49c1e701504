// MixUp and CutMix: batches with soft labels, and what they are for.
#include "warptape/data/mixes.h"

#include <cmath>

#include "warptape/core/graph.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/warptape.h"

using namespace wt;
using namespace wt_test;

namespace {

std::vector<double> values(const Tensor& t) {
  return t.to(Device::cpu()).contiguous().to(DType::f64).to_vector<double>();
}

Tensor labels_of(std::vector<i64> v, Device d = Device::cpu()) { return tensor(v).to(d); }

}  // namespace

TEST_CASE("MixUp and CutMix: the same on every device, in every layout", "[data]") {
  const Tensor images = rand({4, 3, 6, 5}), labels = labels_of({2, 0, 1, 1});
  const data::MixUp up{.alpha = 0.4, .classes = 3, .label_smoothing = 0.1};
  const data::CutMix cut{.classes = 3};
  const data::MixUpOrCutMix both{.classes = 3, .per_sample = true};
  const auto check = [&](const auto& mix) {
    const data::MixCall call{.seed = 7, .epoch = 1, .batch = 3};
    const data::Mixed want = mix(images, labels, call);
    CHECK(want.images.shape() == images.shape());
    CHECK(want.targets.shape() == Shape{4, 3});
    for (const double row : values(want.targets.sum(1))) CHECK(std::abs(row - 1) < 1e-6);
    for (const Device d : kernel_devices()) {
      const data::Mixed got = mix(images.to(d), labels.to(d), call);
      CHECK(got.images.device() == d);
      CHECK(values(got.images) == values(want.images));
      CHECK(values(got.targets) == values(want.targets));
      const Tensor last = images.to(d).permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
      const data::Mixed same = mix(last, labels.to(d), call);
      CHECK(same.images.strides()[1] == 1);
      CHECK(values(same.images) == values(want.images));
      const Tensor gaps = cat({images, images}, 3).to(d).slice(3, {0, 5});
      CHECK(values(mix(gaps, labels.to(d), call).images) == values(want.images));
      const Tensor cursor = labels_of({1, 3}, d);
      CHECK(values(mix(images.to(d), labels.to(d), {.seed = 7, .cursor = cursor}).images) ==
            values(want.images));
    }
    CHECK(values(mix(images, labels, {.seed = 8}).images) !=
          values(mix(images, labels, {.seed = 9}).images));
    CHECK(mix(images.to(DType::bf16), labels).images.dtype() == DType::bf16);
    CHECK(mix(images.narrow(0, 0, 0), labels.narrow(0, 0, 0)).targets.shape() == Shape{0, 3});
  };
  check(up), check(cut), check(both);
}

TEST_CASE("MixUp: a label's smoothing alone is cross_entropy's", "[data]") {
  const Tensor logits = rand({4, 3}), labels = labels_of({2, 0, 1, 1});
  const data::MixUp none{.classes = 3, .label_smoothing = 0.2, .p = 0};
  const auto [x, y] = none(rand({4, 1, 2, 2}), labels);
  const double want = cross_entropy(logits, labels, {.label_smoothing = 0.2}).item(),
               got = cross_entropy(logits, y).item();
  CHECK(std::abs(got - want) < 1e-6);
}

TEST_CASE("MixUp: a model learns from mixed batches", "[data]") {
  manual_seed(3);
  const i64 n = 32;
  std::vector<i64> classes;
  for (i64 i = 0; i < n; ++i) classes.push_back(i % 2);
  const Tensor labels = labels_of(classes),
               images = rand({n, 1, 4, 4}) + (labels.to(f32) * 0.5).reshape({n, 1, 1, 1});
  nn::Linear model(16, 2);
  optim::AdamW adam(model, {.lr = 0.05});
  const data::MixUpOrCutMix mix{.mixup_alpha = 0.2, .classes = 2};
  for (i64 step = 0; step < 150; ++step) {
    const auto [x, y] = mix(images, labels, {.batch = step});
    adam.zero_grad();
    cross_entropy(model(x.reshape({n, 16})), y).backward();
    adam.step();
  }
  const Tensor right = eq(model(images.reshape({n, 16})).argmax(1), labels);
  CHECK(right.to(f32).mean().item() > 0.9);
}

TEST_CASE("MixUp and CutMix: what cannot be mixed is refused in words", "[data]") {
  const Tensor images = rand({2, 1, 3, 3}), labels = labels_of({0, 1});
  const auto why = [&](const data::MixUp& mix, const Tensor& x, const Tensor& y,
                       const data::MixCall& call = {}) {
    return message_of([&] { (void)mix(x, y, call); });
  };
  const data::MixUp mix{.classes = 2};
  CHECK(mentions(why({}, images, labels), "[MixUp] classes must be"));
  CHECK(mentions(why({.alpha = 0, .classes = 2}, images, labels), "alpha"));
  CHECK(mentions(why({.classes = 2, .label_smoothing = 2}, images, labels), "[0, 1], got 2"));
  CHECK(mentions(why({.classes = 2, .p = -1}, images, labels), "probability"));
  CHECK(mentions(why(mix, images[0], labels), "[N, C, H, W]"));
  CHECK(mentions(why(mix, images.to(DType::u8), labels), "ToTensor"));
  CHECK(mentions(why(mix, images, labels.to(f32)), "labels must be i64, got f32"));
  CHECK(mentions(why(mix, images, labels_of({0, 1, 1})), "each of 2 images"));
  CHECK(mentions(why(mix, images, labels_of({0, 2})), "label 2 of sample 1 is outside [0, 2)"));
  CHECK(mentions(why(mix, images, labels, {.cursor = labels_of({0, 1, 2})}), "cursor"));
  CHECK(mentions(message_of([&] { (void)data::CutMix{}(images, labels); }), "[CutMix]"));
  CHECK(mentions(message_of([&] { (void)data::MixUpOrCutMix{}(images, labels); }),
                 "[MixUpOrCutMix]"));
  for (const Device d : kernel_devices()) {
    if (d == Device::cpu()) continue;
    CHECK(mentions(message_of([&] {
                     (void)mix(images.to(d), labels_of({0, 2}, d)).targets.to_vector<float>();
                   }),
                   "outside"));
    CHECK_THROWS_AS(mix(images.to(d), labels), PlacementError);
  }
}

TEST_CASE("MixUp: a captured one keeps its labels", "[data][capture]") {
  for (const Device d : kernel_devices()) {
    if (d == Device::cpu()) continue;
    const data::MixUp up{.alpha = 0.4, .classes = 3};
    const Tensor images = rand({4, 1, 3, 3}, {.device = d});
    const auto targets = [&](const Tensor& labels) {
      return up(images, labels, {.seed = 2}).targets;
    };
    const std::vector<double> want = values(targets(labels_of({2, 0, 1, 1}, d)));
    Graph graph{d};
    Tensor labels = labels_of({2, 0, 1, 1}, d), out;
    for (int i = 0; i < 2; ++i) graph.warm_up([&] { out = targets(labels); });
    graph.capture([&] { out = targets(labels); });
    labels = {};
    std::vector<Tensor> others;
    for (int i = 0; i < 8; ++i) others.push_back(full({4}, 2, {.dtype = DType::i64, .device = d}));
    graph.replay();
    CHECK(values(out) == want);
  }
}
