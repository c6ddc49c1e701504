// What layers refuse, and how they say it; what they do apart from PyTorch's numbers.
#include <algorithm>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/random.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {
// Constructors name the user's line as operators do.
bool refuses(const std::string& text, const std::string& part) {
  return mentions(text, part) && mentions(text, "\n  at layers_errors_test.cpp:");
}
}  // namespace
#define REFUSES(text, ...) CHECK(refuses(message_of([&] { (void)(__VA_ARGS__); }), text))

TEST_CASE("convolutions refuse numbers that do not fit", "[layers]") {
  const LeakGuard guard;
  REFUSES("[Conv2d] kernel is not given", nn::Conv2d{1, 2, {.stride = 2}});
  REFUSES("[Conv1d] in_channels must be at least 1, got 0", nn::Conv1d{0, 2, {.kernel = 3}});
  REFUSES("[Conv1d] out_channels must be at least 1, got -2", nn::Conv1d{1, -2, {.kernel = 3}});
  REFUSES("[Conv2d] groups 2 does not divide both 4 and 3 channels",
          nn::Conv2d{4, 3, {.kernel = 3, .groups = 2}});
  REFUSES("[Conv2d] kernel has 3 numbers, needs 1 or 2", nn::Conv2d{1, 1, {.kernel = {1, 2, 3}}});
  REFUSES("[Conv3d] stride must be at least 1, got 0",
          nn::Conv3d{1, 1, {.kernel = 1, .stride = {1, 0, 1}}});
  REFUSES("[Conv2d] padding must be at least 0, got -1",
          nn::Conv2d{1, 1, {.kernel = 1, .padding = -1}});
  REFUSES("[Conv2d] Padding::same needs stride 1, got 2",
          nn::Conv2d{1, 1, {.kernel = 1, .stride = 2, .padding = Padding::same}});
  REFUSES("[ConvTranspose2d] dilation must be at least 1, got 0",
          nn::ConvTranspose2d{1, 1, {.kernel = 1, .dilation = 0}});
  nn::Conv2d conv{3, 2, {.kernel = 3}};
  REFUSES("[conv2d]", conv(ones({1, 4, 5, 5})));
  nn::Conv2d mirrored{1, 1, {.kernel = 3, .padding = 1, .padding_mode = PadMode::reflect}};
  REFUSES("[Conv2d] x must have 3 or 4 axes, got [5, 5]", mirrored(ones({5, 5})));
}

TEST_CASE("trap T2: integers into a layer of floats: the error says which cast", "[layers][trap]") {
  const LeakGuard guard;
  nn::Linear fc{3, 1};
  REFUSES("[linear] operands differ in dtype\n  operand 0: [3] i64 cpu", fc(tensor({1, 2, 3})));
  REFUSES("Try .to(f32) on the first one", fc(tensor({1, 2, 3})));
  REFUSES("[conv1d]", nn::Conv1d{1, 2, {.kernel = 1}}(tensor({1, 2, 3}).reshape({1, 1, 3})));
  CHECK_NOTHROW((void)fc(tensor({1., 2., 3.})));
  CHECK_NOTHROW((void)fc(tensor({1, 2, 3}).to(f32)));
}

// That the result of to() must be used is for the compiler: tests/compile_fail/traps.cpp.
TEST_CASE("trap T13: a model on a device refuses a tensor that stayed behind", "[layers][trap]") {
  const LeakGuard guard;
  nn::Linear fc{3, 1};
  fc.to(Device::simt());
  const Tensor x = ones({2, 3});
  (void)x.to(Device::simt());  // as `x.to(gpu)` of PyTorch: x itself is where it was
  REFUSES("[linear] operands are on cpu and simt\n  operand 0: [2, 3] f32 cpu", fc(x));
  REFUSES("Try .to(Device) on one of them", fc(x));
  CHECK(fc(x.to(Device::simt())).device() == Device::simt());
}

TEST_CASE("other layers refuse numbers and shapes that do not fit", "[layers]") {
  const LeakGuard guard;
  REFUSES("[InstanceNorm2d] x must have 3 or 4 axes, got [2, 3]",
          nn::InstanceNorm2d{3}(ones({2, 3})));
  REFUSES("[InstanceNorm1d] x [2, 4, 5] has 4 channels, needs 3",
          nn::InstanceNorm1d{3}(ones({2, 4, 5})));
  REFUSES("[InstanceNorm1d] channels must be at least 1, got 0", nn::InstanceNorm1d{0});
  REFUSES("[LocalResponseNorm] size must be at least 1, got 0", nn::LocalResponseNorm{0});
  REFUSES("[LocalResponseNorm] x must have at least 3 axes",
          nn::LocalResponseNorm{2}(ones({2, 3})));
  REFUSES("[Dropout2d] p must be in [0, 1], got 2", nn::Dropout2d{2});
  REFUSES("[Dropout2d] x must have 3 or 4 axes, got [2, 3]", nn::Dropout2d{}(ones({2, 3})));
  REFUSES("[Hardtanh] low must be below high, got 2 and 1", nn::Hardtanh{2, 1});
  REFUSES("[RReLU] lower must not be above upper, got 1 and 0.5", nn::RReLU{1, 0.5});
  REFUSES("[CELU] alpha must not be 0", nn::CELU{0});
  REFUSES("[Softplus] beta must be above 0, got 0", nn::Softplus{0});
  REFUSES("[Softshrink] lambda must be at least 0, got -1", nn::Softshrink{-1});
  REFUSES("[GLU] axis -1 of [2, 3] has an odd size, 3", nn::GLU{}(ones({2, 3})));
  REFUSES("[Softmax2d] x must have 3 or 4 axes", nn::Softmax2d{}(ones({2, 3})));
  REFUSES("[PReLU] x [2, 4] has 4 channels, weight has 3 parameters",
          nn::PReLU{{.num_parameters = 3}}(ones({2, 4})));
  REFUSES("[PReLU] num_parameters must be at least 1", nn::PReLU{{.num_parameters = 0}});
  REFUSES("[AdaptiveMaxPool1d] sizes has 2 numbers, needs 1",
          nn::AdaptiveMaxPool1d{{1, 2}}(ones({1, 4})));
  REFUSES("[AdaptiveMaxPool1d] x must have 2 or 3 axes", nn::AdaptiveMaxPool1d{1}(ones({4})));
  REFUSES("[Unflatten] axis 1 of [2, 6] has 6 elements, which do not fit [4, -1]",
          nn::Unflatten{1, {4, -1}}(ones({2, 6})));
  REFUSES("which do not fit [-1, -1]", nn::Unflatten{1, {-1, -1}}(ones({2, 6})));
  REFUSES("[Embedding] padding_idx -5 is outside [-4, 4)",
          nn::Embedding{4, 2, {.padding_idx = -5}});
  REFUSES("[Embedding] a table has 2 axes, got [3]", nn::Embedding::from_pretrained(ones({3})));
  REFUSES("[Embedding] padding_idx 4 is outside [-4, 4)",
          nn::Embedding::from_pretrained(ones({4, 2}), true, 4));
  REFUSES("use of an undefined tensor", nn::Embedding::from_pretrained(Tensor()));
  REFUSES("[EmbeddingBag] sizes must be at least 1, got 0 and 2", nn::EmbeddingBag{0, 2});
  REFUSES("[EmbeddingBag] padding_idx 4 is outside [-4, 4)",
          nn::EmbeddingBag{4, 2, {.padding_idx = 4}});
  REFUSES("[EmbeddingBag] a table has 2 axes, got [3]",
          nn::EmbeddingBag::from_pretrained(ones({3})));
  REFUSES("[max_pool2d]", nn::MaxPool2d{2}(ones({3})));
}

TEST_CASE("channel dropout drops whole channels, in training only", "[layers][random]") {
  const LeakGuard guard;
  manual_seed(2);
  nn::Dropout2d drop{0.5};
  const Tensor x = ones({40, 10, 3, 2}, {.requires_grad = true});
  const Tensor y = drop(x);
  const Values v = values(y);
  int dropped = 0;
  for (size_t c = 0; c < 400; ++c) {
    CHECK(std::all_of(v.begin() + long(c) * 6, v.begin() + long(c) * 6 + 6,
                      [&](double e) { return e == v[c * 6]; }));
    dropped += v[c * 6] == 0;
    CHECK((v[c * 6] == 0 || v[c * 6] == 2));
  }
  CHECK(dropped > 150);
  CHECK(dropped < 250);
  sum(y).backward();
  CHECK(values(x.grad()) == v);
  drop.eval();
  CHECK(values(drop(x)) == values(x));
  CHECK(nn::Dropout1d{0.5}(ones({3, 4})).shape() == Shape{3, 4});
  CHECK(nn::Dropout3d{0.5}(ones({3, 4, 1, 2})).shape() == Shape{3, 4, 1, 2});
}

TEST_CASE("RReLU draws slopes in training and uses their mean in evaluation", "[layers][random]") {
  const LeakGuard guard;
  manual_seed(7);
  nn::RReLU f{0.25, 0.75};
  Tensor x = full({400}, -2.0, {.dtype = f64, .requires_grad = true});
  const Tensor y = f(x);
  const Values v = values(y);
  CHECK(*std::min_element(v.begin(), v.end()) >= -1.5);
  CHECK(*std::max_element(v.begin(), v.end()) <= -0.5);
  CHECK(*std::max_element(v.begin(), v.end()) - *std::min_element(v.begin(), v.end()) > 0.9);
  sum(y).backward();
  Values slopes;
  for (const double e : v) slopes.push_back(e / -2);
  CHECK(values(x.grad()) == slopes);
  CHECK(values(f(ones({3}))) == Values(3, 1));
  f.eval();
  CHECK(values(f(x)) == Values(400, -1));
}

TEST_CASE("Embedding::from_pretrained is frozen unless told otherwise", "[layers]") {
  const LeakGuard guard;
  const Tensor table = tensor({{1.0, 2.0}, {3.0, 4.0}});
  nn::Embedding e = nn::Embedding::from_pretrained(table);
  CHECK(values(e(tensor({1}))) == Values{3, 4});
  CHECK_FALSE(e.weight->requires_grad());
  CHECK(nn::Embedding::from_pretrained(table.clone(), false).weight->requires_grad());
}

TEST_CASE("NaN passes through activations", "[layers]") {
  const Tensor x = tensor({NAN}, {.dtype = f64});
  const auto passes = [](const Tensor& y) { return y.item() != y.item(); };
  CHECK(passes(nn::ReLU6{}(x)));
  CHECK(passes(nn::Hardshrink{}(x)));
  CHECK(passes(nn::Softshrink{}(x)));
  CHECK(passes(nn::Threshold{0, 1}(x)));
  CHECK(passes(nn::LogSigmoid{}(x)));
  CHECK(passes(nn::SELU{}(x)));
  CHECK(passes(nn::PReLU{{.dtype = f64}}(x)));
}

TEST_CASE("weights of losses move with the module and are in its state", "[layers]") {
  nn::CrossEntropyLoss loss{{.weight = tensor({1.0, 2.0})}};
  REQUIRE(loss.state_dict().size() == 1);
  CHECK(loss.state_dict()[0].name == "weight");
  CHECK(loss.named_parameters().empty());
  loss.to(Device::simt());
  CHECK(loss.weight->device() == Device::simt());
  CHECK(nn::CrossEntropyLoss{}.state_dict().empty());
  // One without state is called inside a module without being registered.
  struct Net : nn::Module<Net> {
    nn::Linear fc = add("fc", nn::Linear{2, 2});
    nn::MSELoss criterion{};
    nn::CrossEntropyLoss other{};
    Tensor forward(Tensor x) { return criterion(fc(x), x).mean(); }
  } net;
  CHECK(net(ones({1, 2})).numel() == 1);
}
