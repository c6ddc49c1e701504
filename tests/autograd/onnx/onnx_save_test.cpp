// What a written file says: names, operators, sizes; and what cannot be written.
#include "warptape/autograd/autocast.h"
#include "warptape/autograd/onnx/model.h"
#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/autograd/onnx/round_trip.h"
#include "warptape/tests/support/errors.h"

using namespace wt;

namespace {

struct Net : nn::Module<Net> {
  nn::Conv2d conv1 = add("conv1", nn::Conv2d{2, 4, {.kernel = 3, .padding = 1}});
  nn::BatchNorm2d bn1 = add("bn1", nn::BatchNorm2d{4});
  nn::Dropout drop = add("drop", nn::Dropout{0.5});
  nn::Linear fc = add("fc", nn::Linear{4 * 2 * 2, 3});
  Tensor forward(Tensor x) {
    x = max_pool2d(relu(bn1(conv1(std::move(x)))), 2);
    return fc(drop(flatten(std::move(x), 1)));
  }
};

onnx::ModelProto model_in(const std::string& path) {
  return onnx::parse_model(path, slurp(path), {});
}
std::vector<std::string> operators_of(const onnx::ModelProto& m) {
  std::vector<std::string> all;
  for (const onnx::NodeProto& n : m.graph.nodes) all.push_back(n.op_type);
  return all;
}

template <class F, size_t N>
std::string refusal(F&& f, const Tensor (&in)[N], const onnx::SaveOptions& o = {}) {
  const TempDir dir;
  spit(dir / "f.onnx", "as it was");
  const std::string said = message_of([&] { onnx::save(dir / "f.onnx", f, in, o); });
  CHECK(slurp(dir / "f.onnx") == (said.empty() ? slurp(dir / "f.onnx") : "as it was"));
  CHECK(dir.count() == 1);
  return said;
}

}  // namespace

TEST_CASE("onnx save: names, operators and sizes of a small network") {
  const TempDir dir;
  manual_seed(1);
  Net net;
  net.eval();
  const Tensor x = randn({2, 2, 4, 5});
  onnx::save(dir / "net.onnx", net, {x},
             {.input_names = {"image"},
              .output_names = {"scores"},
              .dynamic_axes = {{"image", {{0, "batch"}}}}});
  const onnx::ModelProto m = model_in(dir / "net.onnx");
  CHECK(m.ir_version == 8);
  CHECK(m.opset == 17);
  CHECK(m.producer == "warptape");
  CHECK(operators_of(m) == std::vector<std::string>{"Conv", "BatchNormalization", "Relu", "MaxPool",
                                                    "Reshape", "Gemm", "Identity"});
  std::map<std::string, Tensor> constants;
  for (const onnx::TensorProto& t : m.graph.initializers) constants[t.name] = t.value;
  for (const auto& [name, t] : onnx::names_of(net)) {
    if (name == "bn1.num_batches_tracked") continue;  // nobody reads it
    INFO(name);
    REQUIRE(constants.contains(name));
    CHECK(constants[name].to_vector<float>() == t.to_vector<float>());
  }
  REQUIRE(m.graph.inputs.size() == 1);
  CHECK(m.graph.inputs[0].name == "image");
  CHECK(m.graph.inputs[0].shape[0].name == "batch");
  CHECK(m.graph.inputs[0].shape[1].size == 2);
  REQUIRE(m.graph.outputs.size() == 1);
  CHECK(m.graph.outputs[0].name == "scores");
  CHECK(m.graph.outputs[0].shape[0].name == "batch");
  CHECK(m.graph.outputs[0].shape[1].size == 3);
  CHECK(m.graph.nodes[0].name == "/conv1/conv2d/Conv");
  // Any batch.
  const onnx::Graph g = onnx::load(dir / "net.onnx");
  for (const i64 batch : {1, 3, 7}) {
    const Tensor other = randn({batch, 2, 4, 5});
    wt_test::check_near(g(other), net(other).detach(), 1e-6);
  }
}

TEST_CASE("onnx save: axes of any size, several of them") {
  const TempDir dir;
  manual_seed(2);
  const Tensor w = randn({8, 8});
  const auto f = [&](const Tensor& x, const Tensor& y) {
    const Tensor heads = linear(x, w).reshape({x.size(0), x.size(1), 2, 4}).transpose(1, 2);
    const Tensor a = scaled_dot_product_attention(heads, heads, heads, {.causal = true});
    const Tensor joined = a.transpose(1, 2).reshape({x.size(0), x.size(1), 8});
    const Tensor last = joined.slice(1, {x.size(1) - 2, x.size(1)}).mean({1});
    return std::pair(cat({joined, y}, 1), last.unsqueeze(1).expand({x.size(0), 3, 8}));
  };
  onnx::save(dir / "f.onnx", f, {randn({2, 5, 8}), randn({2, 3, 8})},
             {.dynamic_axes = {{"input_0", {{0, "batch"}, {1, "time"}}},
                               {"input_1", {{0, "batch"}, {1, "more"}}}}});
  const onnx::Graph g = onnx::load(dir / "f.onnx");
  CHECK(g.results()[0].shape == std::vector<i64>{-1, -1, 8});
  CHECK(g.results()[1].shape == std::vector<i64>{-1, 3, 8});
  const Tensor x = randn({3, 9, 8}), y = randn({3, 1, 8});
  const std::vector<Tensor> got = g.run({x, y});
  const auto want = f(x, y);
  wt_test::check_near(got[0], want.first, 2e-6);
  wt_test::check_near(got[1], want.second, 2e-6);
}

TEST_CASE("onnx save: axes of size 1 are told from each other by the second size") {
  manual_seed(5);
  const TempDir dir;
  using F = Tensor (*)(const Tensor&);
  const auto go = [&](F f, const Shape& example, const Shape& other) {
    onnx::save(dir / "f.onnx", f, {randn(example)}, {.dynamic_axes = {{"input", {{0, "n"}}}}});
    const Tensor x = randn(other);
    wt_test::check_near(onnx::load(dir / "f.onnx")(x), f(x), 0);
  };
  go([](const Tensor& t) { return t.squeeze(-1); }, {1, 3, 1}, {4, 3, 1});
  go([](const Tensor& t) { return t.squeeze(-1).squeeze(-1); }, {1, 3, 1, 1}, {4, 3, 1, 1});
  go([](const Tensor& t) { return t.select(1, 0); }, {1, 1, 3}, {4, 1, 3});
  go([](const Tensor& t) { return t.select(1, -1); }, {1, 1, 1}, {4, 1, 1});
  go([](const Tensor& t) { return flip(t, {0}); }, {1, 3}, {4, 3});
  wt_test::round_trip("squeeze_last", [](const Tensor& t) { return t.squeeze(-1); },
                      {randn({1, 3, 1})});
  // Two axes of one name, which change places.
  onnx::save(dir / "t.onnx", [](const Tensor& t) { return t.t(); }, {randn({1, 1})},
             {.dynamic_axes = {{"input", {{0, "n"}, {1, "n"}}}}});
  const Tensor square = randn({3, 3});
  wt_test::check_near(onnx::load(dir / "t.onnx")(square), square.t(), 0);
}

TEST_CASE("onnx save: slices with steps, and what is expanded, of any size") {
  manual_seed(6);
  const TempDir dir;
  using F = Tensor (*)(const Tensor&);
  const auto go = [&](F f, i64 example) {
    onnx::save(dir / "f.onnx", f, {randn({example, 2})}, {.dynamic_axes = {{"input", {{0, "n"}}}}});
    for (const i64 n : {5, 6, 7}) {
      const Tensor x = randn({n, 2});
      wt_test::check_near(onnx::load(dir / "f.onnx")(x), f(x), 0);
    }
  };
  for (const i64 n : {4, 5}) {
    go([](const Tensor& t) { return t.slice(0, {0, t.size(0), 2}); }, n);
    go([](const Tensor& t) { return t.slice(0, {1, t.size(0), 3}); }, n);
    go([](const Tensor& t) { return t.slice(0, {1, t.size(0) - 1}); }, n);
    go([](const Tensor& t) { return t.slice(0, {0, 4, 3}); }, n);
  }
  go([](const Tensor& t) { return pad(t.unsqueeze(2).expand({t.size(0), 2, 3}), {1, -2}); }, 2);
  CHECK(mentions(refusal(
                     [](const Tensor& t) {
                       return t.expand({3, 4}).slice(0, {1, 2});
                     },
                     {randn({1, 4})}),
                 "slice, of an expanded axis"));
}

TEST_CASE("onnx save: pooling of any size rounds up where it was asked to") {
  manual_seed(7);
  const TempDir dir;
  const Tensor x = randn({1, 1, 7, 5});
  const auto go = [&](auto f) {
    onnx::save(dir / "f.onnx", f, {randn({1, 1, 4, 4})},
               {.dynamic_axes = {{"input", {{2, "height"}, {3, "width"}}}}});
    wt_test::check_near(onnx::load(dir / "f.onnx")(x), f(x), 1e-6);
  };
  go([](const Tensor& t) { return max_pool2d(t, 2, {.ceil_mode = true}); });
  go([](const Tensor& t) { return max_pool2d(t, 2); });
  go([](const Tensor& t) { return avg_pool2d(t, 2, {.ceil_mode = true}); });
}

TEST_CASE("onnx save: numbers that depend on a dynamic size are refused") {
  const onnx::SaveOptions any{.dynamic_axes = {{"input", {{0, "n"}}}}};
  const Tensor x = ones({3, 4});
  CHECK(mentions(refusal([](const Tensor& t) { return t / double(t.size(0)); }, {x}, any),
                 "div, a number depends on a size that is dynamic"));
  CHECK(mentions(
      refusal([](const Tensor& t) { return t + arange(t.size(0), {.dtype = f32}).unsqueeze(1); },
              {x}, any),
      "add, a constant of shape [3, 1] depends on a size that is dynamic"));
  CHECK(
      mentions(refusal([](const Tensor& t) { return t.size(0) > 4 ? relu(t) : neg(t); }, {x}, any),
               "runs other operators"));
  const auto says = [&](auto f) { return refusal(f, {x}, any); };
  CHECK(mentions(says([](const Tensor& t) { return clamp(t, 0.0, double(t.size(0))); }),
                 "clamp, a bound depends on a size"));
  CHECK(mentions(says([](const Tensor& t) { return leaky_relu(t, 1.0 / double(t.size(0))); }),
                 "leaky_relu, its slope depends on a size"));
  CHECK(mentions(says([](const Tensor& t) { return elu(t, double(t.size(0))); }), "elu, alpha"));
  CHECK(mentions(says([](const Tensor& t) { return softplus(t, double(t.size(0))); }), "beta"));
  CHECK(mentions(says([](const Tensor& t) { return nan_to_num(t, {.nan = double(t.size(0))}); }),
                 "nan_to_num, a number"));
  CHECK(mentions(says([](const Tensor& t) { return one_hot(t.to(int64), t.size(0)); }),
                 "one_hot, the number of classes"));
  CHECK(mentions(says([](const Tensor& t) {
                   return pad(t, {0, t.size(0)});
                 }),
                 "pad, a pad depends on a size"));
  CHECK(mentions(says([](const Tensor& t) {
                   return pad(t, {0, 1}, {.value = double(t.size(0))});
                 }),
                 "pad, a number depends on a size"));
  CHECK(mentions(says([](const Tensor& t) {
                   return upsample(t.reshape({1, 4, t.size(0)}).slice(2, {0, 2}),
                                   {.size = {2 * t.size(0)}, .mode = UpsampleMode::nearest});
                 }),
                 "resize_axis, its size depends on a size"));
  CHECK(mentions(
      refusal([](const Tensor& t) { return t; }, {x}, {.dynamic_axes = {{"input", {{2, "n"}}}}}),
      "'input' has 2 axes, not 2"));
  CHECK(mentions(
      refusal([](const Tensor& t) { return t; }, {x}, {.dynamic_axes = {{"inptu", {{0, "n"}}}}}),
      "'inptu', which is neither an input nor a result"));
}

TEST_CASE("onnx save: operators without a form are named all at once, with lines and modules") {
  struct Odd : nn::Module<Odd> {
    nn::Linear fc = add("fc", nn::Linear{4, 4});
    Tensor forward(const Tensor& x) {
      const Tensor y = cdist(fc(x), x);
      return relu(y) + atan2(x, x).sum() + argsort(cumprod(x, 1)).sum();
    }
  } net;
  const std::string said = refusal(net, {rand({4, 4})});
  CHECK(mentions(said, "without a form in ONNX (opset 17)"));
  CHECK(mentions(said, "cdist, at onnx_save_test.cpp:"));
  CHECK(mentions(said, "atan2, at onnx_save_test.cpp:"));
  CHECK(mentions(said, "cumprod, at onnx_save_test.cpp:"));
  CHECK(said.find("relu") == std::string::npos);
  CHECK(said.find("linear") == std::string::npos);
}

TEST_CASE("onnx save: what a list of operators cannot say is refused") {
  Net net;  // in training mode: dropout draws, statistics move
  CHECK(refusal(net, {ones({2, 2, 4, 5})}) != "");
  net.drop.eval();
  std::vector<std::vector<double>> before, after;
  const auto buffers = [&](std::vector<std::vector<double>>& to) {
    for (const nn::NamedTensor& t : net.named_buffers())
      to.push_back(t.tensor.to(f64).to_vector<double>());
  };
  buffers(before);
  CHECK(mentions(refusal(net, {rand({2, 2, 4, 5})}), "running statistics in training mode?"));
  buffers(after);
  CHECK(before.size() == 3);
  CHECK(after == before);  // a refused save moves nothing
  const Tensor x = ones({3});
  CHECK(mentions(refusal([](const Tensor& t) { return t * t.sum().item(); }, {x}), "item"));
  CHECK(refusal([](const Tensor& t) { return t + rand({3}); }, {x}) != "");
  Tensor kept = ones({3});
  CHECK(mentions(refusal(
                     [&](const Tensor& t) {
                       kept.add_(t);
                       return kept;
                     },
                     {x}),
                 "a tensor that was there before is written"));
  CHECK(kept.to_vector<float>() == std::vector<float>{1, 1, 1});
  Tensor grid = tensor({1.F, 2.F, 3.F, 4.F}).reshape({2, 2});
  CHECK(refusal(
            [&](const Tensor& t) {
              grid.select(1, 1).fill_(9);
              grid.mul_(2);
              grid.select(0, 1).add_(t.sum());
              return grid;
            },
            {x}) != "");
  CHECK(grid.to_vector<float>() == std::vector<float>{1, 2, 3, 4});
  // Nor one whose function throws.
  CHECK_THROWS_AS(onnx::save("f.onnx",
                             [&](const Tensor& t) {
                               kept.add_(t);
                               return matmul(t, t.reshape({1, 3}));
                             },
                             {x}),
                  ShapeError);
  CHECK(kept.to_vector<float>() == std::vector<float>{1, 1, 1});
  CHECK(mentions(refusal(
                     [](const Tensor& t) {
                       Tensor y = t * 2;
                       y.slice(0, {0, 1}).fill_(0);
                       return y;
                     },
                     {x}),
                 "is read after it was written in another way"));
  CHECK(mentions(refusal([](const Tensor&) { return Tensor(); }, {x}), "an undefined tensor"));
  CHECK(mentions(refusal([](const Tensor& t) { return t; }, {Tensor()}), ""));
  CHECK(mentions(refusal([](const Tensor& t) { return t; }, {x.to(Device::meta())}), "meta"));
  CHECK(mentions(refusal([](const Tensor& t) { return t; }, {x}, {.input_names = {"a", "b"}}),
                 "2 names for 1 inputs"));
  CHECK(mentions(refusal([](const Tensor& t) { return t; }, {x},
                         {.input_names = {"a"}, .output_names = {"a"}}),
                 "'a' stands twice"));
  CHECK_THROWS_AS(onnx::save("/nowhere/f.onnx", [](const Tensor& t) { return t; }, {x}),
                  CheckpointError);
}

TEST_CASE("onnx save: constants of the function are folded, tensors with names are not") {
  const TempDir dir;
  const Tensor w = rand({3, 3});
  const auto f = [&](const Tensor& x) {
    const Tensor mask = tril(ones({3, 3}));
    return matmul(x, w * mask) + arange(3, {.dtype = f32}) * 2;
  };
  onnx::save(dir / "f.onnx", f, {rand({2, 3})}, {.names = {{"w", w}}});
  const onnx::ModelProto m = model_in(dir / "f.onnx");
  CHECK(operators_of(m) == std::vector<std::string>{"Mul", "MatMul", "Add", "Identity"});
  REQUIRE(m.graph.initializers.size() == 3);
  CHECK(m.graph.initializers[0].name == "w");
  wt_test::round_trip("named", f, {rand({2, 3})}, {.names = {{"w", w}}});
}

TEST_CASE("onnx save: under autocast the casts are in the file") {
  const TempDir dir;
  const Tensor w = rand({4, 3});
  const auto f = [&](const Tensor& x) {
    const AutocastScope low(bf16);
    return linear(x, w);
  };
  onnx::save(dir / "f.onnx", f, {rand({2, 3})});
  const onnx::Graph g = onnx::load(dir / "f.onnx");
  CHECK(g.results()[0].dtype == bf16);
  const Tensor x = rand({2, 3});
  wt_test::check_near(g(x), f(x), 0);
}
