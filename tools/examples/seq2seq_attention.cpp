// A recurrent encoder and decoder with additive attention (Bahdanau et al., 2015, arXiv:1409.0473)
// that learn to write a sequence backwards, with teacher forcing.
//
//   example_seq2seq_attention [--steps N] [--device cpu|simt|cuda]
#include "same_start.h"

using namespace wt;

struct Seq2Seq : nn::Module<Seq2Seq> {
  i64 tokens, hidden;
  nn::Embedding embed = add("embed", nn::Embedding{tokens, hidden});
  nn::GRU encoder = add("encoder", nn::GRU{hidden, hidden, {.batch_first = true}});
  nn::GRU decoder = add("decoder", nn::GRU{2 * hidden, hidden, {.batch_first = true}});
  nn::Linear query = add("query", nn::Linear{hidden, hidden});
  nn::Linear key = add("key", nn::Linear{hidden, hidden, {.bias = false}});
  nn::Linear score = add("score", nn::Linear{hidden, 1, {.bias = false}});
  nn::Linear head = add("head", nn::Linear{2 * hidden, tokens});
  Seq2Seq(i64 of_tokens, i64 of_hidden) : tokens(of_tokens), hidden(of_hidden) {}

  // Tokens [N, S] and [N, T], the latter one late -> logits [N, T, tokens].
  Tensor forward(Tensor source, const Tensor& target) {
    nn::GruResult now = encoder(embed(std::move(source)));
    const Tensor memory = now.output, keys = key(memory);
    std::vector<Tensor> logits;
    for (const Tensor& token : split(target, 1, 1)) {
      const Tensor scores = score(tanh(query(now.h[-1]).unsqueeze(1) + keys));
      const Tensor context = sum(softmax(scores, 1) * memory, 1, {.keep_dim = true});
      now = decoder(cat({embed(token), context}, -1), now.h);
      logits.push_back(head(cat({now.output, context}, -1)));
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
