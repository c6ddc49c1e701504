// A small GPT on bytes: pre-norm blocks of causal attention and an MLP (Radford et al., 2019).
//
//   example_gpt [--steps N] [--data FILE]
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "warptape/warptape.h"

using namespace wt;

constexpr i64 kContext = 64, kChannels = 64, kHeads = 4, kLayers = 2, kBytes = 256;

struct Block : nn::Module<Block> {
  nn::LayerNorm norm1 = add("norm1", nn::LayerNorm{kChannels});
  nn::Linear qkv = add("qkv", nn::Linear{kChannels, 3 * kChannels});
  nn::Linear out = add("out", nn::Linear{kChannels, kChannels});
  nn::LayerNorm norm2 = add("norm2", nn::LayerNorm{kChannels});
  nn::Linear up = add("up", nn::Linear{kChannels, 4 * kChannels});
  nn::Linear down = add("down", nn::Linear{4 * kChannels, kChannels});

  Tensor forward(Tensor x) {  // [N, T, C]
    const i64 n = x.size(0), t = x.size(1);
    const auto heads = [&](const Tensor& y) {
      return y.reshape({n, t, kHeads, kChannels / kHeads}).transpose(1, 2);
    };
    const std::vector<Tensor> parts = chunk(qkv(norm1(x)), 3, -1);
    Tensor y = scaled_dot_product_attention(heads(parts[0]), heads(parts[1]), heads(parts[2]),
                                            {.causal = true});
    x = x + out(std::move(y).transpose(1, 2).reshape({n, t, kChannels}));
    return x + down(gelu(up(norm2(x))));
  }
};

struct Gpt : nn::Module<Gpt> {
  nn::Embedding token = add("token", nn::Embedding{kBytes, kChannels});
  nn::Embedding place = add("place", nn::Embedding{kContext, kChannels});
  std::vector<Block> blocks;
  nn::LayerNorm norm = add("norm", nn::LayerNorm{kChannels});
  nn::Linear head = add("head", nn::Linear{kChannels, kBytes});
  Gpt() {
    for (i64 i = 0; i < kLayers; ++i) blocks.push_back(add("block" + std::to_string(i), Block{}));
  }
  Tensor forward(Tensor x) {  // [N, T] bytes as i64 -> logits [N, T, 256]
    Tensor h = token(x) + place(arange(x.size(1)));
    for (Block& b : blocks) h = b(std::move(h));
    return head(norm(std::move(h)));
  }
};

static std::string text_of(const char* path) {
  if (!path) {
    std::string rhyme = "Twinkle, twinkle, little star, how I wonder what you are! ";
    for (int i = 0; i < 6; ++i) rhyme += rhyme;
    return rhyme;
  }
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

int main(int argc, char** argv) {
  std::map<std::string, const char*> options;
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  const int steps = options.count("--steps") ? std::atoi(options["--steps"]) : 300;
  const std::string text = text_of(options["--data"]);

  manual_seed(1);
  const Tensor bytes = tensor(std::vector<u8>(text.begin(), text.end())).to(DType::i64);
  const Tensor windows = bytes.unfold(0, kContext + 1, 1);  // a view: every place in the text
  Gpt net;
  optim::AdamW opt{net, {.lr = 3e-3}};
  TrainStep step{net, opt, {.clip_norm = 1.0, .schedule = optim::warmup(20, optim::cosine(steps))}};
  for (int i = 0; i < steps; ++i) {
    const Tensor starts = (rand({16}) * double(windows.size(0))).to(DType::i64);
    const Tensor w = index_select(windows, 0, starts);
    const data::Batch batch{w.slice(1, {0, kContext}).contiguous(),
                            w.slice(1, {1, kContext + 1}).contiguous()};
    const StepResult r = step(batch, [&](const data::Batch& b) {
      return cross_entropy(net(b.x).reshape({-1, kBytes}), b.y.reshape({-1}));
    });
    if (i % 20 == 0 || i + 1 == steps)
      std::printf("step %4d  loss %.3f nats a byte\n", i, r.loss());
  }
  return 0;
}
