// The models through an ONNX file and back: small ones of each family, by names that PyTorch has.
#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/nn/models.h"
#include "warptape/tests/autograd/onnx/round_trip.h"

using namespace wt;
using wt_test::round_trip;

namespace {

// Statistics that are not the identity.
template <class M>
void settle(M& net) {
  const NoGrad no_grad;
  for (const nn::NamedTensor& t : net.named_buffers()) {
    Tensor buffer = t.tensor;
    if (t.name.ends_with("running_mean")) buffer.copy_(rand(buffer.shape()) - 0.5);
    if (t.name.ends_with("running_var")) buffer.copy_(rand(buffer.shape()) + 0.5);
  }
  net.eval();
}
onnx::SaveOptions any_batch() { return {.dynamic_axes = {{"input", {{0, "batch"}}}}}; }

template <class M>
void go(const char* name, M net, const Tensor& x) {
  settle(net);
  round_trip(name, net, {x}, any_batch(), 1e-5);
  // With another batch than the example's.
  const TempDir dir;
  onnx::save(dir / "m.onnx", net, {x}, any_batch());
  const onnx::Graph g = onnx::load(dir / "m.onnx");
  const NoGrad no_grad;
  const Tensor more = cat({x, flip(x, {0}), x}, 0), want = net(more);
  wt_test::check_near(g(more), want, 1e-5);
  // From an example of batch 1, whose size is that of many an axis.
  onnx::save(dir / "one.onnx", net, {x.slice(0, {0, 1})}, any_batch());
  wt_test::check_near(onnx::load(dir / "one.onnx")(more), want, 1e-5);
  size_t known = 0;
  for (const auto& [key, t] : g.constants())
    for (const auto& [own, tensor] : onnx::names_of(net)) known += own == key;
  CHECK(known >= net.named_parameters().size());
}

}  // namespace

TEST_CASE("onnx models: of pictures") {
  manual_seed(1);
  const Tensor x = randn({2, 3, 32, 32});
  go("resnet18", models::resnet18({.classes = 7, .width = 8, .cifar_stem = true}), x);
  go("resnet50", models::resnet50({.classes = 7, .width = 8}), x);
  go("mobilenet_v2", models::mobilenet_v2({.classes = 7, .width = 0.25}), x);
  go("mobilenet_v3_small", models::mobilenet_v3_small({.classes = 7, .width = 0.25}), x);
  go("vit",
     models::vit_small_patch16_224(
         {.classes = 7, .image_size = 32, .channels = 24, .layers = 2, .heads = 3}),
     x);
  go("unet", models::Unet({.width = 4}), x);
  go("unet_bilinear", models::Unet({.width = 4, .bilinear = true}), x);
}

TEST_CASE("onnx models: of tokens, points and numbers") {
  manual_seed(2);
  go("gpt2",
     models::gpt2({.vocabulary = 50,
                   .context = 16,
                   .channels = 24,
                   .layers = 2,
                   .heads = 3,
                   .pad_vocabulary_to = 32}),
     randint(0, 50, {2, 9}, {.dtype = int64}));
  go("pinn", models::Pinn(), randn({5, 2}));
  models::PointNet points{{.classes = 5, .feature_transform = true}};
  settle(points);
  round_trip(
      "pointnet", [&](const Tensor& x) { return points(x).output; }, {randn({2, 3, 20})},
      {.names = onnx::names_of(points)}, 1e-5);
}
