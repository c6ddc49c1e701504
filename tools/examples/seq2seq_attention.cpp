// A recurrent encoder and decoder with additive attention (Bahdanau et al., 2015, arXiv:1409.0473)
// that learn to write a sequence backwards, with teacher forcing.
//
//   example_seq2seq_attention [--steps N]
#include "same_start.h"

using namespace wt;

struct Seq2Seq : nn::Module<Seq2Seq> {
  nn::Embedding embed;
  nn::GRU encoder, decoder;
  nn::Linear query, key, score, head;
  Seq2Seq(i64 tokens, i64 hidden)
      : embed(add("embed", nn::Embedding{tokens, hidden})),
        encoder(add("encoder", nn::GRU{hidden, hidden, {.batch_first = true}})),
        decoder(add("decoder", nn::GRU{2 * hidden, hidden, {.batch_first = true}})),
        query(add("query", nn::Linear{hidden, hidden})),
        key(add("key", nn::Linear{hidden, hidden, {.bias = false}})),
        score(add("score", nn::Linear{hidden, 1, {.bias = false}})),
        head(add("head", nn::Linear{2 * hidden, tokens})) {}

  // Tokens [N, S] and [N, T], the latter one late -> logits [N, T, tokens].
  Tensor forward(Tensor source, const Tensor& target) {
    auto [memory, h] = encoder(embed(std::move(source)));
    const Tensor keys = key(memory);
    std::vector<Tensor> logits;
    for (const Tensor& token : split(target, 1, 1)) {
      const Tensor scores = score(tanh(query(h[-1]).unsqueeze(1) + keys));
      const Tensor context = sum(softmax(scores, 1) * memory, 1, {.keep_dim = true});
      const auto [output, next] = decoder(cat({embed(token), context}, -1), h);
      logits.push_back(head(cat({output, context}, -1)));
      h = next;
    }
    return cat(logits, 1);
  }
};

int main(int argc, char** argv) {
  Losses losses(torch_losses::seq2seq_attention, argc, argv);
  const i64 tokens = 12, n = 16, length = 7;
  Seq2Seq net(tokens, 24);
  same_start(net);
  const Tensor source = ((1 + numbers({n, length}, 100)) * 5).to(int64) + 2;  // 1: the beginning
  const Tensor target = source.flip(1);
  const Tensor seen = cat({ones({n, 1}, {.dtype = int64}), target.slice(1, {0, -1})}, 1);

  optim::Adam opt{net, {.lr = 5e-3}};
  for (int step = 0; step < losses.steps(); ++step) {
    const auto loss = cross_entropy(net(source, seen).flatten(0, 1), target.flatten());
    opt.zero_grad();
    loss.backward();
    opt.step({.grad_factor = optim::clip_factor(opt, 1.0)});
    losses.add(loss.item());
  }
  return losses.compare();
}
