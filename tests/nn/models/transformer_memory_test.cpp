// The article's Transformer: 4 + 4 layers, 8 heads, a batch of 16, Adagrad. That it learns to copy
// exactly is the test of tools/examples/transformer_gen.cpp (row 86).
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/core/memory_fit.h"
#include "warptape/nn/seq2seq.h"
#include "warptape/optim/clip.h"
#include "warptape/optim/optimizer.h"
#include "warptape/tests/support/catch.h"

using namespace wt;
using models::Seq2Seq;

namespace {

constexpr i64 kBatch = 16;

Loss loss_of(Seq2Seq& net, const Tensor& source, const Tensor& target) {
  const i64 n = target.size(1);
  const Tensor logits = net(source, target.slice(1, {0, n - 1}));
  return cross_entropy(reshape(logits, {-1, logits.size(-1)}),
                       reshape(target.slice(1, {1, n}), {-1}));
}

void train_step(Seq2Seq& net, optim::Optimizer& opt, const Tensor& text) {
  const Loss loss = loss_of(net, text, text);
  opt.zero_grad();
  loss.backward();
  opt.step({.grad_factor = optim::clip_factor(opt, 1.0)});
}

// Bytes of a step of training, or of testing, with the article's layers and heads.
i64 predicted(i64 tokens, bool training) {
  return memory::predict(
             Device::cpu(),
             [&] {
               Seq2Seq net(
                   {.source_vocabulary = 10000, .target_vocabulary = 10000, .feed_forward = 2048});
               const Tensor text = zeros({kBatch, tokens}, {.dtype = DType::i64});
               if (!training) {
                 const NoGrad no_grad;
                 net.eval();
                 (void)net(text, text);
                 return;
               }
               optim::Adagrad opt{net};
               train_step(net, opt, text);
             })
      .peak;
}

}  // namespace

TEST_CASE("row 86: what a batch of 16 takes beside the article's 12 and 15 GB") {
  // Measured where it is small, predicted where it is the article's.
  const auto once = [] {
    Seq2Seq net({.source_vocabulary = 100, .target_vocabulary = 100, .channels = 64});
    optim::Adagrad opt{net};
    train_step(net, opt, zeros({kBatch, 24}, {.dtype = DType::i64}));
  };
  const i64 told = memory::predict(Device::cpu(), once).peak;
  memory::reset_peak(Device::cpu());
  const i64 before = memory::stats(Device::cpu()).live;
  once();
  const i64 measured = memory::stats(Device::cpu()).peak - before;
  CHECK(double(std::abs(told - measured)) < 0.03 * double(measured));
  const i64 training = predicted(1024, true), testing = predicted(1024, false);
  std::printf("1024 tokens: %.0f MB in training, %.0f MB in testing\n", double(training) / 1e6,
              double(testing) / 1e6);
  CHECK(training < 12'000'000'000);
  CHECK(testing < training / 4);
}
