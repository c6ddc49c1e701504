// The meta device: shapes and no bytes, what it prices, and what it must refuse.
#include "warptape/autograd/ops/dropout.h"
#include "warptape/autograd/ops/index.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/ops/softmax.h"
#include "warptape/core/memory.h"
#include "warptape/core/random.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {
const TensorOptions kMeta{.device = Device::meta()};
}

TEST_CASE("Meta: operators have shapes, dtypes and errors, and touch no byte", "[wall][meta]") {
  const LeakGuard guard;
  const i64 live = memory::stats(Device::cpu()).live;
  const i64 huge = i64(1) << 33;  // 32 GiB a tensor
  const Tensor x = empty({huge, 4}, kMeta), w = empty({8, 4}, kMeta);
  const Tensor y = softmax(linear(x, w), 1);
  CHECK(y.shape() == Shape{huge, 8});
  CHECK(y.device().is_meta);
  CHECK((x + 1.5).dtype() == f32);
  CHECK(gt(x, 0).dtype() == DType::boolean);
  CHECK(x[{Slice{0, 10}}].t().reshape({40}).shape() == Shape{40});
  CHECK(cat({x, x}).size(0) == 2 * huge);
  CHECK(dropout(x, 0.5).shape() == x.shape());
  CHECK(embedding(zeros({3}, {.dtype = DType::i64, .device = Device::meta()}), w).shape() ==
        Shape{3, 4});
  CHECK(cross_entropy(y, empty({huge}, {.dtype = DType::i64, .device = Device::meta()}))
            .sum.shape() == Shape{});
  CHECK_THROWS_AS((void)(x + empty({3}, kMeta)), ShapeError);
  CHECK_THROWS_AS((void)linear(x, empty({8, 5}, kMeta)), ShapeError);
  CHECK_THROWS_AS((void)(x + ones({4})), PlacementError);  // not with real ones
  CHECK(memory::stats(Device::cpu()).live == live);
}

TEST_CASE("Meta: factories, in-place members and random draws need no values", "[wall][meta]") {
  const LeakGuard guard;
  Tensor x = zeros({3}, kMeta);
  x.fill_(2).add_(ones({3}, kMeta));
  x.relu_();
  x.index_put_({0}, ones({}, kMeta));
  CHECK(x.version() == 4);
  // A draw on meta counts as one elsewhere: what follows has the same numbers.
  manual_seed(3);
  (void)rand({5});
  const Generator real = generator();
  manual_seed(3);
  CHECK(rand({5}, kMeta).shape() == Shape{5});
  CHECK(randperm(4, kMeta).dtype() == DType::i64);
  manual_seed(3);
  (void)rand({5}, kMeta);
  CHECK(generator() == real);
}

TEST_CASE("Meta: item, to_vector and to(real) throw and say why", "[wall][meta]") {
  const Tensor x = empty({}, kMeta);
  const int line = __LINE__ + 1;
  const std::string text = message_of([&] { (void)x.item(); });
  CHECK(mentions(text, "[item] a meta tensor has no values"));
  CHECK(mentions(text, "meta_test.cpp:" + std::to_string(line)));
  CHECK_THROWS_AS((void)x.to_vector<float>(), PlacementError);
  CHECK_THROWS_AS((void)x.data<float>(), PlacementError);
  CHECK(mentions(message_of([&] { (void)x.to(Device::cpu()); }), "no values to move to cpu"));
  CHECK(ones({2}).to(Device::meta()).shape() == Shape{2});
}

TEST_CASE("Meta: a backward has the shapes, and the memory, of a real one", "[wall][meta]") {
  const LeakGuard guard;
  const auto peak = [](Device d) {
    (void)empty({1}, {.device = d});
    const i64 before = memory::stats(d).live;
    memory::reset_peak(d);
    Tensor w = empty({64, 32}, {.device = d, .requires_grad = true});
    if (!d.is_meta) w = zeros({64, 32}, {.device = d, .requires_grad = true});
    memory::reset_peak(d);
    const Tensor x = zeros({16, 32}, {.device = d});
    sum(softmax(gelu(linear(x, w)), 1)).backward();
    CHECK(w.grad().shape() == w.shape());
    return memory::stats(d).peak - before;
  };
  for (const DeviceKind k : {DeviceKind::cpu, DeviceKind::simt})
    CHECK(peak(Device::meta(k)) == peak(Device{k, false, 0}));
}

TEST_CASE("Meta: a model is built and run without a byte, then takes values", "[wall][meta]") {
  const LeakGuard guard;
  struct Net : nn::Module<Net> {
    nn::Linear fc = add("fc", nn::Linear{4, 3});
    nn::Buffer seen = add_buffer("seen", zeros({}));
    Tensor forward(Tensor x) { return fc(std::move(x)); }
  };
  const Net real;
  const i64 live = memory::stats(Device::cpu()).live;
  const Net net = [] {
    const DefaultDevice meta(Device::meta());
    return Net();
  }();
  CHECK(memory::stats(Device::cpu()).live == live);
  CHECK(net(empty({2, 4}, kMeta)).shape() == Shape{2, 3});
  CHECK(mentions(message_of([&] { net.to(Device::cpu()); }), "no values"));
  const Tensor handle = net.fc.weight;
  net.load_state_dict(real.state_dict());
  CHECK(handle.device() == Device::cpu());  // the same handles
  CHECK(values(handle) == values(real.fc.weight));
  CHECK_FALSE(handle.impl()->storage == real.fc.weight->impl()->storage);
  const Tensor x = ones({2, 4});
  CHECK(values(net(x)) == values(real(x)));
  sum(net(x)).backward();
  CHECK(values(handle.grad()) == Values(12, 2));
}
