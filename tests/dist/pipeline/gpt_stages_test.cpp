// Row 87: a GPT that learns text, and the same one cut into two stages.
#include <cmath>

#include "warptape/nn/gpt2.h"
#include "warptape/optim/train_step.h"
#include "warptape/tests/dist/pipeline/pipeline_net.h"
#include "warptape/tests/optim/train_step_net.h"
#include "warptape/tests/support/catch.h"

using namespace wt;
using namespace wt_test;

namespace {

constexpr i64 kTokens = 12;
const models::Gpt2Options kSmall{
    .vocabulary = kTokens, .context = 8, .channels = 16, .layers = 2, .heads = 2, .dropout = 0};

// Lines of one text, which counts up by 5 round and round: x [n, 8], y the next token of each.
Samples text(i64 n) {
  manual_seed(3);
  const Tensor begin = randint(0, kTokens, {n, 1});
  const Tensor line = remainder(begin + 5 * arange(9), kTokens);
  return {line.narrow(1, 0, 8).clone(), line.narrow(1, 1, 8).clone()};
}

// Its blocks as steps of their own, with a head of its own: a tied one would be in both stages.
nn::Sequential blocks() {
  manual_seed(1);
  return nn::Sequential{nn::Embedding{kTokens, kSmall.channels},
                        models::Gpt2Block{kSmall},
                        models::Gpt2Block{kSmall},
                        nn::LayerNorm{kSmall.channels},
                        nn::Linear{kSmall.channels, kTokens},
                        [](const Tensor& y) { return y.transpose(1, 2); }};  // [n, classes, T]
}

}  // namespace

TEST_CASE("row 87: a GPT learns which token follows") {
  manual_seed(2);
  models::Gpt2 net(kSmall);
  optim::AdamW opt{net, {.lr = 1e-2}};
  const auto loss_of = [&](const Samples& s) {
    return cross_entropy(net(s.x).flatten(0, 1), s.y.flatten());
  };
  CHECK(loss_of(text(16)).item() > 2);  // log 12 = 2.48
  const Samples s = text(16);
  for (int step = 0; step < 60; ++step) {
    opt.zero_grad();
    loss_of(s).backward();
    opt.step();
  }
  CHECK(loss_of(text(16)).item() < 0.2);
}

TEST_CASE("row 87: a GPT in two stages is trained as the whole is, to the bit") {
  constexpr int kSteps = 3;
  constexpr i64 kParts = 2;
  const Samples s = text(6);
  nn::Sequential net = blocks();
  optim::AdamW opt{net, {.lr = 0.05}};
  TrainStep step{net, opt, {.micro_batches = kParts}};
  Trained whole;
  for (int i = 0; i < kSteps; ++i)
    whole.losses.push_back(
        step(Pair{s.x, s.y}, [&](const Pair& p) { return class_loss(net(p.x), p.y); }).loss());
  whole.add(net);
  const Trained parts = train_in_stages(
      2, {.micro_batches = kParts}, kSteps,
      [](int rank) { return dist::partition(blocks(), 2)[size_t(rank)]; }, s);
  CHECK(whole.losses.front() > whole.losses.back());
  REQUIRE(parts.losses.size() == whole.losses.size());
  for (size_t i = 0; i < whole.losses.size(); ++i)  // a quotient is rounded in two ways
    CHECK(std::abs(parts.losses[i] - whole.losses[i]) <= 1e-15 * whole.losses[i]);
  CHECK(parts.weights == whole.weights);
  CHECK(parts.weights.size() == whole.weights.size());
}
