// GPT-2 beside Hugging Face's, and what its files need to load.
#include "warptape/nn/gpt2.h"

#include "warptape/autograd/compare.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/random.h"
#include "warptape/tests/nn/models/torch_model.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt_test;
using models::Gpt2;
using models::Gpt2Options;

namespace {

Gpt2Options tiny(i64 pad_to = 1) {
  return {.vocabulary = 51,
          .context = 16,
          .channels = 24,
          .layers = 2,
          .heads = 3,
          .dropout = 0,
          .pad_vocabulary_to = pad_to};
}

}  // namespace

TEST_CASE("GPT-2 of full size: Hugging Face's names and counts", "[models][torch]") {
  const DefaultDevice meta(Device::meta(DeviceKind::cpu));
  check_names("gpt2", models::gpt2());
  check_names("gpt2_medium", models::gpt2_medium());
  CHECK(models::gpt2()(zeros({2, 7}, {.dtype = DType::i64})).shape() == Shape{2, 7, 50257});
}

TEST_CASE("a small GPT-2: Hugging Face's outputs, gradients and five steps of training",
          "[models][torch]") {
  check_small<Gpt2>(
      {.reference = "gpt2_small"}, [] { return Gpt2(tiny()); },
      [](Gpt2& net) {
        return net(hashed_ids({2, 12}, "x", 51));
      },
      hashed_classes());
}

TEST_CASE("a padded vocabulary changes no logit, and files without the padding load", "[models]") {
  const LeakGuard guard;
  manual_seed(1);
  Gpt2 plain(tiny()), padded(tiny(64));
  CHECK(padded.transformer.wte.weight->shape() == Shape{64, 24});
  CHECK(padded.lm_head.weight->same_as(padded.transformer.wte.weight));
  padded.load_state_dict(models::gpt2_state(plain.state_dict(), tiny(64)));
  const Tensor ids = hashed_ids({2, 9}, "x", 51);
  const NoGrad no_grad;
  CHECK(padded(ids).shape() == Shape{2, 9, 51});
  CHECK(allclose(padded(ids), plain(ids)));
}

TEST_CASE("the Hub's files of GPT-2 load: names without the prefix, masks as buffers", "[models]") {
  const LeakGuard guard;
  Gpt2 from(tiny()), to(tiny());
  std::vector<nn::NamedTensor> file;
  for (nn::NamedTensor t : from.state_dict())
    if (t.name.starts_with("transformer.")) file.push_back({t.name.substr(12), t.tensor});
  file.push_back({"h.0.attn.bias", ones({1, 1, 16, 16})});
  file.push_back({"h.1.attn.masked_bias", zeros({})});
  CHECK_THROWS_AS(to.load_state_dict(file), UsageError);
  CHECK(to.load_state_dict(models::gpt2_state(file, tiny())).complete());
  const Tensor ids = hashed_ids({1, 5}, "x", 51);
  const NoGrad no_grad;
  CHECK(equal(to(ids), from(ids)));
}

TEST_CASE("GPT-2 begins as its authors' : what blocks add is smaller", "[models]") {
  manual_seed(1);
  const Gpt2 net({.vocabulary = 51, .context = 16, .channels = 64, .layers = 8, .heads = 4});
  const auto std_of = [](const Tensor& t) { return std::sqrt(mean(square(t)).item()); };
  CHECK(std::abs(std_of(net.parameter("transformer.h.3.attn.c_attn.weight")) / 0.02 - 1) < 0.04);
  CHECK(std::abs(std_of(net.parameter("transformer.h.3.mlp.c_proj.weight")) / (0.02 / 4) - 1) <
        0.04);
  CHECK(std_of(net.parameter("transformer.h.3.mlp.c_proj.bias")) == 0);
}

TEST_CASE("GPT-2 refuses what does not fit", "[models]") {
  Gpt2 net(tiny());
  const auto says = [&](const Tensor& ids) { return message_of([&] { (void)net(ids); }); };
  CHECK(mentions(says(zeros({1, 17}, {.dtype = DType::i64})), "more than the context of 16"));
  CHECK(mentions(says(zeros({17}, {.dtype = DType::i64})), "tokens must be [N, T]"));
  CHECK_THROWS_AS(net(full({1, 2}, 51, {.dtype = DType::i64})), IndexError);
  CHECK_THROWS_AS(Gpt2({.channels = 10, .heads = 3}), ShapeError);
  CHECK_THROWS_AS(Gpt2({.pad_vocabulary_to = 0}), ShapeError);
}
