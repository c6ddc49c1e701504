// What training holds in memory, and what takes less of it: operators in place, values that are
// given up, no graph where nobody differentiates, parts of a batch, a 16-bit forward. Each is
// measured.
//
//   example_memory_tricks [--steps N]
//
// docs/articles.md has its lines beside PyTorch's; docs/memory.md goes on from here. The
// Transformer that learns with Adagrad until it copies exactly is in transformer_gen.cpp.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "warptape/autograd/leak_watch.h"
#include "warptape/autograd/why_alive.h"
#include "warptape/core/async_copy.h"
#include "warptape/core/memory_fit.h"
#include "warptape/nn/seq2seq.h"
#include "warptape/warptape.h"

using namespace wt;

static double megabytes(i64 bytes) { return double(bytes) / 1e6; }

// The most that `f` holds beyond what is there already.
template <class F>
static i64 peak_of(F&& f) {
  const Device cpu = Device::cpu();
  memory::reset_peak(cpu);
  const i64 before = memory::stats(cpu).live;
  f();
  return memory::stats(cpu).peak - before;
}

// Two layers with activations between: each way of writing them has a peak of its own.
struct Block : nn::Module<Block> {
  nn::Linear up = add("up", nn::Linear{64, 256}), down = add("down", nn::Linear{256, 64});
  // A name for each value: all are there until the end.
  Tensor keeping(const Tensor& x) {
    const Tensor a = up(x);
    const Tensor b = relu(a);
    const Tensor c = down(b);
    const Tensor d = relu(c);
    return d;
  }
  // inplace=True: the activation writes into what the layer gave.
  Tensor in_place(const Tensor& x) {
    Tensor a = up(x);
    a.relu_();
    Tensor c = down(a);
    c.relu_();
    return c;
  }
  // One name, given up at each use: what is legal in place happens there by itself.
  Tensor forward(Tensor x) {
    x = up(std::move(x));
    x = relu(std::move(x));
    x = down(std::move(x));
    return relu(std::move(x));
  }
};

// Returns by how much the three ways' gradients differ.
static double in_place(Block& block) {
  const Tensor x = randn({512, 64});
  std::vector<Tensor> gradients;
  const auto run = [&](const char* name, auto&& forward) {
    block.zero_grad();
    Tensor loss;
    const i64 peak = peak_of([&] { loss = sum(square(forward(x))); });
    std::printf("  %-24s %.2f MB\n", name, megabytes(peak));
    loss.backward();
    gradients.push_back(block.up.weight->grad().clone());
  };
  run("a name for each value", [&](const Tensor& t) { return block.keeping(t); });
  run("inplace=True", [&](const Tensor& t) { return block.in_place(t); });
  run("one name, given up", [&](const Tensor& t) { return block(t); });
  double difference = 0;
  for (const Tensor& g : gradients)
    difference = std::max(difference, amax(wt::abs(g - gradients[0]), Dims::all()).item());

  Tensor y = tensor({1.0, 2.0}, {.requires_grad = true}) * 1.0;
  const Tensor squared = square(y);  // its backward wants y as it is now
  y.relu_();
  try {
    sum(squared).backward();
    std::printf("  the value that was lost went unnoticed\n");
  } catch (const UsageError& e) {
    const std::string text = e.what();
    std::printf("  in place where it is needed: %s\n", text.substr(0, text.find('\n')).c_str());
  }
  return difference;
}

static void without_gradients(Block& block) {
  const auto deep = [&] {
    Tensor x = randn({512, 64});
    for (int i = 0; i < 10; ++i) x = block(std::move(x));
  };
  const i64 training = peak_of(deep);
  const i64 testing = peak_of([&] {
    const NoGrad no_grad;
    const nn::EvalScope eval(block);
    deep();
  });
  std::printf("ten blocks forward: %.2f MB, under no_grad %.2f MB\n", megabytes(training),
              megabytes(testing));
}

// What a name keeps, and what it does not: the graph's own.
static void giving_up(Block& block) {
  const auto live = [] { return memory::stats(Device::cpu()).live; };
  Tensor x = randn({512, 64});
  Tensor y = block(x);
  const i64 before = live();
  x = Tensor();  // del x: the graph still has it, for the gradient of `up`
  const i64 without_x = live();
  y = Tensor();  // del y: with the last tensor of the graph all goes
  std::printf("del of the input freed %.2f MB, of the result %.2f MB\n",
              megabytes(before - without_x), megabytes(without_x - live()));

  Tensor kept = randn({512, 64});
  const Tensor loss = mean(square(block(kept)));
  const std::string why = memory::why_alive(kept);
  std::printf("why it is there: %s\n", why.substr(why.find("saved by")).c_str());

  double total = 0;  // a history of .item(); of the losses themselves it would keep every graph
  memory::LeakWatch watch;
  for (int i = 0; i < 8; ++i) {
    total += mean(square(block(kept))).item();
    watch.step();
  }
  std::printf("mean loss %.4f, leaks: %zu\n", total / 8, watch.leaks().size());
}

// Four parts of a batch before a step: the memory of a part, the gradient of the whole.
static void accumulate(Block& block) {
  constexpr i64 kParts = 4;
  optim::SGD opt{block, {.lr = 0.01}};
  data::TensorDataset set{randn({1024, 64}), randn({1024, 64})};
  for (const i64 size : {256, 64}) {
    data::Loader loader{set, {.batch = size, .shuffle = true, .seed = 1}};
    const i64 parts = size == 64 ? kParts : 1;
    const i64 peak = peak_of([&] {
      for (auto [i, batch] : enumerate(loader)) {
        const Loss loss = mse_loss(block(batch.x), batch.y);
        (loss * (1.0 / double(parts))).backward();
        if ((i + 1) % parts != 0) continue;
        opt.step();
        opt.zero_grad();
      }
    });
    std::printf("  batches of %3d, a step after %d: %.2f MB\n", int(size), int(parts),
                megabytes(peak));
  }
}

// 4 + 4 layers, 8 heads, Adagrad, a batch of 16.
static void transformer(int steps) {
  constexpr i64 kBatch = 16, kTokens = 24;
  models::Seq2Seq net(
      {.source_vocabulary = 100, .target_vocabulary = 100, .channels = 64, .feed_forward = 128});
  optim::Adagrad opt{net, {.lr = 0.01}};
  const Tensor text = randint(3, 100, {kBatch, kTokens});
  const auto train = [&] {
    const Tensor logits = net(text, text.slice(1, {0, -1}));
    const Loss loss = cross_entropy(logits.flatten(0, 1), text.slice(1, {1, kTokens}).flatten());
    opt.zero_grad();
    loss.backward();
    opt.step();
    return loss.item();
  };
  const double first = train();
  double last = first;
  const i64 peak = peak_of([&] {
    for (int i = 1; i < steps; ++i) last = train();
  });
  const i64 testing = peak_of([&] {
    const NoGrad no_grad;
    const nn::EvalScope eval(net);
    (void)net(text, text);
  });
  std::printf(
      "Transformer: loss %.3f, then %.3f; beside weights and state %.1f MB in training, "
      "%.1f MB in testing\n",
      first, last, megabytes(peak), megabytes(testing));
  const memory::Stats held = memory::stats(Device::cpu());
  for (const Category c : {Category::parameter, Category::gradient, Category::optimizer})
    std::printf("  %-10s %.2f MB\n", category_name(c), megabytes(held.by_category[size_t(c)]));
}

int main(int argc, char** argv) {
  const int steps = argc == 3 && std::strcmp(argv[1], "--steps") == 0 ? std::stoi(argv[2]) : 10;
  manual_seed(1);
  const i64 input = memory::predict(Device::cpu(), [] { (void)empty({256, 3, 100, 100}); }).peak;
  std::printf("an input of (256, 3, 100, 100): %.2f MB\n", megabytes(input));

  // Page-locked memory is what a copy beside other work starts from; the result is what counts.
  const Device device = Device::best();
  const Tensor host = pin(randn({256, 64}), device);
  const Tensor moved = copy_async(host, device);
  std::printf("copied to %s, pinned: %d\n", str(moved.device()).c_str(), int(is_pinned(host)));

  Block block;
  std::printf("a forward:\n");
  const double difference = in_place(block);
  block.zero_grad();
  without_gradients(block);
  giving_up(block);
  std::printf("gradients that add up:\n");
  accumulate(block);
  transformer(std::max(steps, 2));
  std::printf("largest difference of the gradients: %.1e\n", difference);
  return 0;
}
