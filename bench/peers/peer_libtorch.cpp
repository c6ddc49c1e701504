// The same rows with the C++ side of PyTorch: no Python in the loop. Built by setup.sh from
// the wheel. usage: peer_libtorch [--threads N] [--window-s S] [--data DIR]
// [--bench NAME]...
#include <torch/torch.h>
#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace {

constexpr int kWindows = 11;
constexpr int kChain = 100;
constexpr int kCheckSteps = 20;
constexpr double kLearningRate = 0.01;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Same hash and same order as common.py's uniform().
std::vector<float> uniform(int64_t n, int64_t seed, double scale) {
  std::vector<float> out(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t hash = static_cast<uint64_t>(i + 1 + seed * 1000003) * 2654435761ULL;
    out[static_cast<size_t>(i)] = static_cast<float>(
        (static_cast<double>(hash & 0xffffffffULL) / 4294967296.0 * 2 - 1) * scale);
  }
  return out;
}

torch::Tensor filled(std::vector<int64_t> shape, int64_t seed, double scale) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  std::vector<float> values = uniform(n, seed, scale);
  return torch::from_blob(values.data(), shape, torch::kFloat32).clone();
}

struct Timing {
  std::vector<double> us;
  int64_t calls = 1;
};

template <class Step>
Timing windows(double window_s, Step step) {
  Timing t;
  double took = 0;
  for (int i = 0; i < 3; ++i) step();  // the first calls allocate and page in
  while (took < window_s / 4) {        // doubles as the warm-up
    t.calls *= 2;
    const double start = now();
    for (int64_t i = 0; i < t.calls; ++i) step();
    took = now() - start;
  }
  t.calls = std::max<int64_t>(1, std::llround(static_cast<double>(t.calls) * window_s / took));
  for (int w = 0; w < kWindows; ++w) {
    const double start = now();
    for (int64_t i = 0; i < t.calls; ++i) step();
    t.us.push_back((now() - start) / static_cast<double>(t.calls) * 1e6);
  }
  return t;
}

std::string quoted_or_null(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return "null";
  std::string out = "\"";
  for (const char* c = value; *c; ++c) {
    if (*c == '"' || *c == '\\') out += '\\';
    out += *c;
  }
  return out + "\"";
}

void emit(const char* bench, const std::string& shape, Timing t, int threads, double divide,
          double flop, double check_loss, const char* impl = "libtorch") {
  for (double& v : t.us) v /= divide;
  std::sort(t.us.begin(), t.us.end());
  auto at = [&](double p) {
    const double x = p * (static_cast<double>(t.us.size()) - 1);
    const size_t low = static_cast<size_t>(x), high = std::min(low + 1, t.us.size() - 1);
    return t.us[low] + (t.us[high] - t.us[low]) * (x - static_cast<double>(low));
  };
  std::printf(
      "{\"bench\": \"%s\", \"impl\": \"%s\", \"device\": \"cpu\", \"shape\": \"%s\", "
      "\"dtype\": \"f32\", "
      "\"median_us\": %.5f, \"p10_us\": %.5f, \"p90_us\": %.5f, \"min_us\": %.5f, \"gb_s\": null, ",
      bench, impl, shape.c_str(), at(0.5), at(0.1), at(0.9), t.us.front());
  if (flop > 0) {
    std::printf("\"tflop_s\": %.5f, ", flop / at(0.5) / 1e6);
  } else {
    std::printf("\"tflop_s\": null, ");
  }
  std::printf(
      "\"roof\": null, \"ratio\": null, \"peak_bytes\": null, \"commit\": %s, \"machine\": %s, "
      "\"driver\": null, \"threads\": %d, \"windows\": %d, \"calls\": %lld, ",
      quoted_or_null("PEERS_COMMIT").c_str(), quoted_or_null("PEERS_MACHINE").c_str(), threads,
      kWindows, static_cast<long long>(t.calls));
  if (std::isnan(check_loss)) {
    std::printf("\"check_loss\": null, ");
  } else {
    std::printf("\"check_loss\": %.9g, ", check_loss);
  }
  std::printf("\"versions\": {\"libtorch\": \"%s\"}}\n", TORCH_VERSION);
  std::fflush(stdout);
}

struct Check {
  Timing timing;
  double loss;
};

// Whole steps, with the loss after kCheckSteps of them; clips the norm of `clipped` to one.
template <class Loss>
Check measure_steps(double window_s, torch::optim::Optimizer& optimizer, Loss loss_of,
                    const std::vector<torch::Tensor>& clipped = {}) {
  const auto step = [&] {
    torch::Tensor loss = loss_of();
    optimizer.zero_grad();  // resets to undefined, as set_to_none
    loss.backward();
    if (!clipped.empty()) torch::nn::utils::clip_grad_norm_(clipped, 1.0);
    optimizer.step();
  };
  for (int i = 0; i < kCheckSteps; ++i) step();
  const double loss = loss_of().template item<double>();
  return {windows(window_s, step), loss};
}

void tape_add(int threads, double window_s) {
  const torch::Tensor one = torch::ones({1});
  torch::Tensor leaf = torch::ones({1}, torch::requires_grad());
  const Timing t = windows(window_s, [&] {
    torch::Tensor x = leaf;
    for (int i = 0; i < kChain; ++i) x = x + one;
    x.backward();
    leaf.mutable_grad().reset();
  });
  emit("tape_add", "chain100 [1]", t, threads, kChain, 0, NAN);
}

struct Spec {
  const char* bench;
  std::vector<int64_t> sizes;
  int64_t batch;
  bool mse;
};

void mlp(const Spec& spec, int threads, double window_s) {
  const auto& sizes = spec.sizes;
  std::vector<torch::Tensor> weights, biases, parameters;
  double per_step = 0;
  for (size_t i = 0; i + 1 < sizes.size(); ++i) {
    const double scale = 1 / std::sqrt(static_cast<double>(sizes[i]));
    const int64_t seed = 2 * static_cast<int64_t>(i);
    // nn.Linear's layout: [out, in]
    weights.push_back(
        filled({sizes[i], sizes[i + 1]}, seed + 1, scale).t().contiguous().requires_grad_());
    biases.push_back(filled({sizes[i + 1]}, seed + 2, scale).requires_grad_());
    parameters.push_back(weights.back());
    parameters.push_back(biases.back());
    per_step += static_cast<double>(sizes[i] * sizes[i + 1]) * (i == 0 ? 2 : 3);
  }
  const torch::Tensor x = filled({spec.batch, sizes.front()}, 101, 1.0);
  torch::Tensor target;
  if (spec.mse) {
    target = filled({spec.batch, sizes.back()}, 102, 1.0);
  } else {
    target = torch::arange(spec.batch, torch::kInt64) * 7 % sizes.back();
  }
  torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(kLearningRate));
  auto loss_of = [&] {
    torch::Tensor h = x;
    for (size_t i = 0; i + 1 < weights.size(); ++i) {
      h = torch::relu(torch::linear(h, weights[i], biases[i]));
    }
    h = torch::linear(h, weights.back(), biases.back());
    return spec.mse ? torch::mse_loss(h, target) : torch::cross_entropy_loss(h, target);
  };
  const auto [t, check] = measure_steps(window_s, optimizer, loss_of);
  std::string shape;
  for (int64_t s : sizes) shape += (shape.empty() ? "" : "-") + std::to_string(s);
  shape += " b" + std::to_string(spec.batch);
  emit(spec.bench, shape, t, threads, 1, 2.0 * static_cast<double>(spec.batch) * per_step, check);
}

// Channels first, or last ("nhwc" of the Python peer).
void cnn(int threads, double window_s, bool nhwc) {
  const std::vector<std::vector<int64_t>> shapes = {
      {32, 1, 3, 3}, {64, 32, 3, 3}, {128, 9216}, {10, 128}};
  const auto format = nhwc ? torch::MemoryFormat::ChannelsLast : torch::MemoryFormat::Contiguous;
  std::vector<torch::Tensor> parameters;
  for (size_t i = 0; i < shapes.size(); ++i) {
    int64_t fan_in = 1;
    for (size_t d = 1; d < shapes[i].size(); ++d) fan_in *= shapes[i][d];
    const double scale = 1 / std::sqrt(static_cast<double>(fan_in));
    const int64_t seed = 2 * static_cast<int64_t>(i);
    torch::Tensor weight = filled(shapes[i], seed + 1, scale);
    if (shapes[i].size() == 4) weight = weight.contiguous(format);
    parameters.push_back(weight.requires_grad_());
    parameters.push_back(filled({shapes[i][0]}, seed + 2, scale).requires_grad_());
  }
  const torch::Tensor x = filled({64, 1, 28, 28}, 101, 1.0).contiguous(format);
  const torch::Tensor target = torch::arange(64, torch::kInt64) * 7 % 10;
  torch::optim::AdamW optimizer(parameters, torch::optim::AdamWOptions(1e-4).weight_decay(0));
  const auto& p = parameters;
  auto loss_of = [&] {
    torch::Tensor h = torch::relu(torch::conv2d(x, p[0], p[1]));
    h = torch::relu(torch::conv2d(h, p[2], p[3]));
    h = torch::max_pool2d(h, {2, 2}).flatten(1);
    h = torch::relu(torch::linear(h, p[4], p[5]));
    return torch::cross_entropy_loss(torch::linear(h, p[6], p[7]), target);
  };
  const auto [t, check] = measure_steps(window_s, optimizer, loss_of);
  const double flop =
      2.0 * 64 * (2.0 * 32 * 9 * 26 * 26 + 3.0 * (64.0 * 288 * 24 * 24 + 9216 * 128 + 1280));
  emit("mnist_cnn", "1-32-64 k3 pool 9216-128-10 b64", t, threads, 1, flop, check,
       nhwc ? "libtorch nhwc" : "libtorch");
}

// The CNN of `wt train fashion` without dropout.
void fashion(int threads, double window_s, bool nhwc) {
  const auto format = nhwc ? torch::MemoryFormat::ChannelsLast : torch::MemoryFormat::Contiguous;
  std::vector<torch::Tensor> parameters, means, variances;
  const auto put = [&](torch::Tensor t) { parameters.push_back(t.requires_grad_()); };
  int64_t seed = 0;
  const auto weight = [&](std::vector<int64_t> shape, double fan_in) {
    torch::Tensor t = filled(shape, ++seed, 1 / std::sqrt(fan_in));
    put(shape.size() == 4 ? t.contiguous(format) : t);
  };
  const auto norm = [&](int64_t channels) {
    put(torch::ones({channels}));
    put(torch::zeros({channels}));
    means.push_back(torch::zeros({channels}));
    variances.push_back(torch::ones({channels}));
  };
  weight({32, 1, 3, 3}, 9);
  norm(32);
  weight({64, 32, 3, 3}, 288);
  norm(64);
  weight({128, 3136}, 3136);
  weight({128}, 3136);
  weight({10, 128}, 128);
  weight({10}, 128);
  const torch::Tensor x = filled({64, 1, 28, 28}, 101, 1.0).contiguous(format);
  const torch::Tensor target = torch::arange(64, torch::kInt64) * 7 % 10;
  torch::optim::AdamW optimizer(parameters, torch::optim::AdamWOptions(1e-4).weight_decay(0.01));
  const auto& p = parameters;
  const auto block = [&](const torch::Tensor& h, size_t i) {
    torch::Tensor y = torch::conv2d(h, p[3 * i], {}, 1, 1);
    y = torch::batch_norm(y, p[3 * i + 1], p[3 * i + 2], means[i], variances[i], true, 0.1, 1e-5,
                          false);
    return torch::max_pool2d(torch::relu(y), {2, 2});
  };
  auto loss_of = [&] {
    torch::Tensor h = block(block(x, 0), 1).flatten(1);
    h = torch::relu(torch::linear(h, p[6], p[7]));
    return torch::cross_entropy_loss(torch::linear(h, p[8], p[9]), target);
  };
  const auto [t, check] = measure_steps(window_s, optimizer, loss_of);
  const double flop =
      2.0 * 64 * (2.0 * 32 * 9 * 784 + 3.0 * (64.0 * 288 * 196 + 3136 * 128 + 1280));
  emit("fashion_cnn", "1-32-64 k3 bn pool 3136-128-10 b64", t, threads, 1, flop, check,
       nhwc ? "libtorch nhwc" : "libtorch");
}

// A small GPT: bench/gpt_step.cpp and peer_torch.py have the same.
class Gpt {
 public:
  static constexpr int64_t kLayers = 4, kHeads = 4, kChannels = 128, kContext = 64, kBatch = 12,
                           kBytes = 256;
  std::vector<torch::Tensor> parameters;

  Gpt() {
    put(filled({kBytes, kChannels}, 1, 0.5));
    put(filled({kContext, kChannels}, 2, 0.5));
    for (int64_t l = 0; l < kLayers; ++l) {
      norm();
      linear_of(kChannels, 3 * kChannels);
      linear_of(kChannels, kChannels);
      norm();
      linear_of(kChannels, 4 * kChannels);
      linear_of(4 * kChannels, kChannels);
    }
    norm();
    linear_of(kChannels, kBytes);
  }

  torch::Tensor operator()(const torch::Tensor& x) {
    at_ = 0;
    const torch::Tensor &tokens = next(), &positions = next();
    torch::Tensor h = torch::embedding(tokens, x) + positions;
    for (int64_t l = 0; l < kLayers; ++l) {
      h = h + attend(normed(h));
      h = h + product(torch::gelu(product(normed(h))));
    }
    return product(normed(h)).view({-1, kBytes});
  }

 private:
  void put(torch::Tensor t) { parameters.push_back(t.requires_grad_()); }
  void norm() {
    put(torch::ones({kChannels}));
    put(torch::zeros({kChannels}));
  }
  void linear_of(int64_t in, int64_t out) {
    const double scale = 1 / std::sqrt(static_cast<double>(in));
    const int64_t seed = static_cast<int64_t>(parameters.size()) + 1;
    put(filled({out, in}, seed, scale));
    put(filled({out}, seed + 1, scale));
  }
  const torch::Tensor& next() { return parameters[at_++]; }
  torch::Tensor normed(const torch::Tensor& x) {
    const torch::Tensor &weight = next(), &bias = next();
    return torch::layer_norm(x, {kChannels}, weight, bias);
  }
  torch::Tensor product(const torch::Tensor& x) {
    const torch::Tensor &weight = next(), &bias = next();
    return torch::linear(x, weight, bias);
  }
  torch::Tensor attend(const torch::Tensor& x) {
    const int64_t n = x.size(0);
    const std::vector<torch::Tensor> qkv = product(x).split(kChannels, 2);
    auto heads = [&](const torch::Tensor& t) {
      return t.view({n, kContext, kHeads, kChannels / kHeads}).transpose(1, 2);
    };
    const torch::Tensor y = at::scaled_dot_product_attention(
        heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), {}, 0.0, /*is_causal=*/true);
    return product(y.transpose(1, 2).reshape({n, kContext, kChannels}));
  }

  size_t at_ = 0;
};

torch::Tensor bytes_of(std::vector<int64_t> shape, int64_t seed) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  const torch::Tensor i = torch::arange(1, n + 1, torch::kInt64) + seed * 1000003;
  return torch::bitwise_right_shift(i * 2654435761 % 4294967296, 24).view(shape);
}

void gpt(int threads, double window_s) {
  Gpt net;
  const torch::Tensor x = bytes_of({Gpt::kBatch, Gpt::kContext}, 101);
  const torch::Tensor target = bytes_of({Gpt::kBatch * Gpt::kContext}, 102);
  torch::optim::AdamW optimizer(net.parameters, torch::optim::AdamWOptions(1e-4).weight_decay(0.1));
  const auto [t, check] = measure_steps(
      window_s, optimizer, [&] { return torch::cross_entropy_loss(net(x), target); },
      net.parameters);
  const double c = Gpt::kChannels, attention = Gpt::kLayers * c * (Gpt::kContext + 1);
  const double products = Gpt::kLayers * 12 * c * c + c * Gpt::kBytes;
  const double flop = 2.0 * Gpt::kBatch * Gpt::kContext * (3 * products + 3.5 * attention);
  emit("gpt_small", "L4 H4 C128 T64 V256 b12", t, threads, 1, flop, check);
}

void adam(int threads, double window_s) {
  std::vector<torch::Tensor> parameters, grads;
  for (int64_t i = 0; i < 64; ++i) {
    parameters.push_back(filled({512, 512}, i + 1, 0.05).requires_grad_());
    grads.push_back(filled({512, 512}, i + 1001, 0.01));
  }
  torch::optim::AdamW optimizer(parameters, torch::optim::AdamWOptions(1e-4).weight_decay(0.1));
  auto step = [&] {
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i].mutable_grad() = grads[i];
    torch::nn::utils::clip_grad_norm_(parameters, 1.0);
    optimizer.step();
    optimizer.zero_grad();
  };
  for (int i = 0; i < kCheckSteps; ++i) step();
  double check = 0;
  for (const torch::Tensor& p : parameters)
    check += p.abs().to(torch::kFloat64).mean().item<double>();
  const Timing t = windows(window_s, step);
  emit("adam_step", "64 x 512x512", t, threads, 1, 0, check / 64);
}

}  // namespace

int main(int argc, char** argv) {
  int threads = 1;
  double window_s = 0.1;
  std::vector<std::string> benches;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (i + 1 >= argc) return std::fprintf(stderr, "peer_libtorch: %s needs a value\n", argv[i]), 2;
    if (arg == "--threads") {
      threads = std::atoi(argv[++i]);
    } else if (arg == "--window-s") {
      window_s = std::atof(argv[++i]);
    } else if (arg == "--data") {
      ++i;  // the row `loader` has no libtorch
    } else if (arg == "--bench") {
      benches.push_back(argv[++i]);
    } else {
      return std::fprintf(stderr, "peer_libtorch: unknown option %s\n", argv[i]), 2;
    }
  }
  at::set_num_threads(threads);
  at::set_num_interop_threads(1);
  auto wanted = [&](const char* name) {
    return benches.empty() || std::find(benches.begin(), benches.end(), name) != benches.end();
  };
  if (wanted("tape_add")) tape_add(threads, window_s);
  if (wanted("mlp_tiny")) mlp({"mlp_tiny", {2, 16, 16, 1}, 32, true}, threads, window_s);
  if (wanted("mlp_small")) mlp({"mlp_small", {784, 512, 512, 10}, 128, false}, threads, window_s);
  if (wanted("mnist_cnn")) {
    cnn(threads, window_s, false);
    cnn(threads, window_s, true);
  }
  if (wanted("fashion_cnn")) {
    fashion(threads, window_s, false);
    fashion(threads, window_s, true);
  }
  if (wanted("gpt_small")) gpt(threads, window_s);
  if (wanted("adam_step")) adam(threads, window_s);
  return 0;
}
