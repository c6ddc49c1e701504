// A Transformer of 4 + 4 layers with 8 heads learns to write what it has read, with Adagrad and a
// batch of 16, until it generates every new sentence exactly; and what memory such a model takes.
//
//   example_transformer_gen [--steps N]
#include <cstdio>
#include <cstring>
#include <string>

#include "warptape/core/memory_fit.h"
#include "warptape/nn/beam_search.h"
#include "warptape/nn/seq2seq_decoder.h"
#include "warptape/warptape.h"

using namespace wt;

constexpr i64 kBatch = 16, kWords = 8, kBegin = 1, kEnd = 2, kTokens = 14;  // words are 3 to 13

// begin, words, end: [n, kWords + 2].
static Tensor sentences(i64 n) {
  const Tensor words = (rand({n, kWords}) * double(kTokens - 3)).to(int64) + 3;
  return cat({full({n, 1}, kBegin), words, full({n, 1}, kEnd)}, 1);
}

// Sentences of n that are not generated exactly.
static i64 wrong_of(models::Seq2Seq& net, i64 n, bool show) {
  const Tensor source = sentences(n);
  models::Seq2SeqDecoder decoder(net, source);
  const auto made =
      models::greedy_search(n, [&](auto tokens, auto rows) { return decoder.next(tokens, rows); },
                            {.begin = kBegin, .end = kEnd, .max_length = kWords + 2});
  i64 wrong = 0;
  for (i64 i = 0; i < n; ++i)
    wrong += source[i].slice(0, {1, kWords + 1}).to_vector<i64>() != made[size_t(i)];
  if (!show) return wrong;
  for (const auto& [name, words] :
       {std::pair("read     ", source[0].slice(0, {1, kWords + 1}).to_vector<i64>()),
        std::pair("generated", made[0])}) {
    std::printf("%s", name);
    for (const i64 w : words) std::printf(" %2d", int(w));
    std::printf("\n");
  }
  return wrong;
}

static Loss loss_of(models::Seq2Seq& net, const Tensor& source, const Tensor& target) {
  const Tensor logits = net(source, target.slice(1, {0, -1}));
  return cross_entropy(logits.flatten(0, 1), target.slice(1, {1, target.size(1)}).flatten());
}

// What a batch of 16 of this many tokens takes with the article's layers and heads, in MB.
static double predicted(i64 tokens, bool training) {
  return double(memory::predict(Device::cpu(),
                                [&] {
                                  models::Seq2Seq net({.source_vocabulary = 10000,
                                                       .target_vocabulary = 10000,
                                                       .feed_forward = 2048});
                                  const Tensor text = zeros({kBatch, tokens}, {.dtype = int64});
                                  if (!training) {
                                    const NoGrad no_grad;
                                    net.eval();
                                    (void)net(text, text);
                                    return;
                                  }
                                  optim::Adagrad opt{net};
                                  loss_of(net, text, text).backward();
                                  opt.step();
                                })
                    .peak) /
         1e6;
}

int main(int argc, char** argv) {
  const int steps = argc == 3 && std::strcmp(argv[1], "--steps") == 0 ? std::stoi(argv[2]) : 3000;
  manual_seed(1);
  models::Seq2Seq net({.source_vocabulary = kTokens,
                       .target_vocabulary = kTokens,
                       .channels = 64,
                       .feed_forward = 128,
                       .dropout = 0,
                       .longest = kWords + 2});
  optim::Adagrad opt{net, {.lr = 0.02}};
  opt.set_schedule(optim::warmup(100, optim::constant()));
  memory::reset_peak(Device::cpu());
  i64 wrong = -1;
  for (int step = 1; step <= steps && wrong != 0; ++step) {
    const Tensor text = sentences(kBatch);
    const auto loss = loss_of(net, text, text);
    opt.zero_grad();
    loss.backward();
    opt.step({.grad_factor = optim::clip_factor(opt, 1.0)});
    if (step % 100 != 0 && step != steps) continue;
    wrong = wrong_of(net, 100, false);
    std::printf("step %4d  loss %.4f  sentences of 100 that are not copied: %d\n", step,
                loss.item(), int(wrong));
  }
  const double peak = double(memory::stats(Device::cpu()).peak) / 1e6;
  std::printf("peak of this training: %.1f MB\n", peak);
  std::printf(
      "512 channels, 2048 in the feed-forward layers, a vocabulary of 10000, a batch of 16, "
      "predicted; the article has 12000 MB in training and 15000 in testing:\n");
  for (const i64 tokens : {128, 1024})
    std::printf("  %4d tokens: %6.0f MB in training, %5.0f in testing\n", int(tokens),
                predicted(tokens, true), predicted(tokens, false));
  std::printf("not copied at the end: %d\n", int(wrong_of(net, 100, true)));
  return 0;
}
