// ViT beside timm's, the encoder-decoder Transformer beside one around PyTorch's nn.Transformer.
#include "warptape/autograd/compare.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/nn/seq2seq.h"
#include "warptape/nn/vision_transformer.h"
#include "warptape/tests/nn/models/torch_model.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt_test;
using models::Seq2Seq;
using models::VisionTransformer;

namespace {

models::Seq2SeqOptions tiny() {
  return {.source_vocabulary = 19,
          .target_vocabulary = 17,
          .channels = 16,
          .heads = 4,
          .encoder_layers = 2,
          .decoder_layers = 2,
          .feed_forward = 20,
          .dropout = 0,
          .longest = 12,
          .padding = 1};
}

struct Pair {
  Tensor source, target;
};
// With padding (1) behind two of the sentences.
Pair sentences() {
  Pair p{hashed_ids({3, 8}, "source", 19), hashed_ids({3, 6}, "x", 17)};
  p.source[1].slice(0, {5, 8}).fill_(1);
  p.target[2].slice(0, {4, 6}).fill_(1);
  p.source.select(1, 0).fill_(2);
  p.target.select(1, 0).fill_(2);
  return p;
}

}  // namespace

TEST_CASE("ViT-S/16: timm's names, count and outputs", "[models][torch]") {
  const LeakGuard guard;
  check_whole<VisionTransformer>(
      "vit_small_patch16_224", [] { return models::vit_small_patch16_224(); },
      [](VisionTransformer& net) {
        return net(hashed({1, 3, 224, 224}).to(f32));
      });
}

TEST_CASE("a small ViT: timm's gradients and five steps of training", "[models][torch]") {
  check_small<VisionTransformer>(
      {.reference = "vit_narrow"},
      [] {
        return VisionTransformer(
            {.classes = 10, .image_size = 16, .patch = 4, .channels = 24, .layers = 2, .heads = 3});
      },
      [](VisionTransformer& net) {
        return net(hashed({4, 3, 16, 16}));
      },
      hashed_classes());
}

TEST_CASE("the encoder-decoder Transformer: PyTorch's names, gradients and training",
          "[models][torch]") {
  {
    const DefaultDevice meta(Device::meta(DeviceKind::cpu));
    check_names("seq2seq", Seq2Seq({.source_vocabulary = 10000, .target_vocabulary = 10000}));
  }
  check_small<Seq2Seq>(
      {.reference = "seq2seq_small"}, [] { return Seq2Seq(tiny()); },
      [](Seq2Seq& net) {
        const Pair p = sentences();
        return net(p.source, p.target);
      },
      hashed_classes());
}

TEST_CASE("a Transformer's halves give what the whole gives, and no place sees a later one",
          "[models]") {
  const LeakGuard guard;
  Seq2Seq net(tiny());
  const NoGrad no_grad;
  const Pair p = sentences();
  const Tensor whole = net(p.source, p.target);
  CHECK(allclose(net.decode(p.target, net.encode(p.source), p.source), whole));
  const Tensor begun = p.target.slice(1, {0, 3});
  CHECK(allclose(net(p.source, begun), whole.slice(1, {0, 3}), {.rtol = 1e-4, .atol = 1e-5}));
}

TEST_CASE("places are told apart by sines and cosines", "[models]") {
  const models::PositionalEncoding places(4, 7, 0);
  const Values table = values(places.pos_embedding);
  const double slow = std::exp(-std::log(10000.0) / 2);  // of the second pair
  for (int p = 0; p < 7; ++p) {
    CHECK(std::abs(table[size_t(4 * p)] - std::sin(p)) < 1e-6);
    CHECK(std::abs(table[size_t(4 * p + 1)] - std::cos(p)) < 1e-6);
    CHECK(std::abs(table[size_t(4 * p + 2)] - std::sin(p * slow)) < 1e-6);
  }
}

TEST_CASE("transformers refuse what does not fit", "[models]") {
  VisionTransformer vit(
      {.classes = 10, .image_size = 16, .patch = 4, .channels = 24, .layers = 1, .heads = 3});
  CHECK(mentions(message_of([&] {
                   (void)vit(zeros({1, 3, 16, 20}));
                 }),
                 "pictures must be [N, 3, 16, 16], got [1, 3, 16, 20]"));
  CHECK_THROWS_AS(VisionTransformer({.image_size = 20, .patch = 16}), ShapeError);
  CHECK_THROWS_AS(VisionTransformer({.heads = 5}), ShapeError);
  Seq2Seq net(tiny());
  const auto ids = [](const Shape& s) { return zeros(s, {.dtype = DType::i64}); };
  CHECK(mentions(message_of([&] {
                   (void)net(ids({1, 13}), ids({1, 2}));
                 }),
                 "13 tokens in a row are more than the 12 places"));
  CHECK(mentions(message_of([&] { (void)net(ids({13}), ids({1, 2})); }), "source must be [N, T]"));
  CHECK(mentions(message_of([] { Seq2Seq({.source_vocabulary = 4}); }), ".target_vocabulary"));
}
