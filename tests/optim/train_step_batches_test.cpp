// TrainStep and batches of any type: arrays of tensors, a tensor, structs of the user's.
#include <array>

#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/data/combine.h"
#include "warptape/data/loader.h"
#include "warptape/optim/train_step.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;

namespace {

using Triple = std::array<Tensor, 3>;  // x, y, weight

struct SumAndWeight {
  Tensor sum, weight;
};

struct Net : nn::Module<Net> {
  nn::Param w = add("w", ones({4, 1}, {.dtype = f64}));
  Tensor forward(const Tensor& x) { return matmul(x, w); }
};

// 10 samples that no two weigh alike.
Triple triple() {
  const Tensor x = arange(40).to(f64).reshape({10, 4}) * 0.01;
  return {x, x.narrow(1, 0, 1) * 3.0, (arange(10).to(f64) + 1.0).reshape({10, 1})};
}
SumAndWeight weighted_squares(Net& net, const Tensor& x, const Tensor& y, const Tensor& weight) {
  return {sum(square(net(x) - y) * weight), sum(weight)};
}

// w after three steps.
template <class B, class F>
std::vector<double> train(const B& batch, F loss_of, i64 micro_batches = 1,
                          Device d = Device::cpu()) {
  Net net;
  net.to(d);
  optim::Sgd opt{net, {.lr = 0.5}};
  TrainStep step{net, opt, {.micro_batches = micro_batches}};
  for (int i = 0; i < 3; ++i) step(batch, [&](const B& part) { return loss_of(net, part); });
  return net.w.tensor().to_vector<double>();
}
std::vector<double> by_hand() {
  const auto [x, y, weight] = triple();
  Tensor w = ones({4, 1}, {.dtype = f64});
  for (int i = 0; i < 3; ++i) {
    const Tensor e = (matmul(x, w) - y) * weight;
    w = w - 0.5 * (2.0 * matmul(x.t(), e) / sum(weight));
  }
  return w.to_vector<double>();
}
void check_close(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) < 1e-12);
}

// The weight comes first and all are members of a list.
struct Listed {
  std::vector<Tensor> parts;
  std::span<Tensor> tensors() { return parts; }
  i64 size() const { return parts[1].size(0); }
  Listed narrow(i64 begin, i64 n) const {
    Listed part = *this;
    for (Tensor& t : part.parts) t = t.narrow(0, begin, n);
    return part;
  }
};

}  // namespace

TEST_CASE("train step: arrays of tensors, cut into micro-batches and moved to the device") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  NEEDS_OPERATORS(d);
  const LeakGuard leaks;
  const auto loss_of = [&](Net& net, const Triple& b) {
    const auto& [x, y, weight] = b;
    for (const Tensor& t : b) CHECK(t.device() == d);
    return weighted_squares(net, x, y, weight);
  };
  const std::vector<double> want = by_hand();
  for (const i64 parts : {1, 2, 3, 100}) {
    CAPTURE(parts);
    check_close(train(triple(), loss_of, parts, d), want);
  }
}

TEST_CASE("train step: lists, structs and single tensors as batches") {
  const LeakGuard leaks;
  const std::vector<double> want = by_hand();
  const auto [x, y, weight] = triple();
  for (const i64 parts : {1, 3}) {
    CAPTURE(parts);
    check_close(train(
                    std::vector<Tensor>{x, y, weight},
                    [](Net& net, const std::vector<Tensor>& b) {
                      return weighted_squares(net, b[0], b[1], b[2]);
                    },
                    parts),
                want);
    check_close(train(
                    Listed{{weight, x, y}},
                    [](Net& net, const Listed& b) {
                      return weighted_squares(net, b.parts[1], b.parts[2], b.parts[0]);
                    },
                    parts),
                want);
    const auto of_tensor = [](Net& net, const Tensor& rows) {
      return SumAndWeight{sum(square(net(rows))), full({}, double(rows.size(0)), {.dtype = f64})};
    };
    check_close(train(x, of_tensor, parts), train(Triple{x}, [&](Net& net, const Triple& b) {
                  CHECK(!b[1].defined());  // what is not there stays so
                  return of_tensor(net, b[0]);
                }));
  }
}

TEST_CASE("train step: an array that cannot be cut is refused, and used whole") {
  const LeakGuard leaks;
  const auto loss_of = [](Net& net, const Triple& b) {
    return SumAndWeight{sum(square(matmul(b[2], net(b[0]) - b[1]))),
                        sum(ones({10}, {.dtype = f64}))};
  };
  const auto [x, y, weight] = triple();
  const Triple odd{x, y, ones({1, 10}, {.dtype = f64})};
  Net net;
  optim::Sgd opt{net, {.lr = 0.5}};
  TrainStep whole{net, opt}, cut{net, opt, {.micro_batches = 2}};
  const auto step = [&](TrainStep& s) { s(odd, [&](const Triple& b) { return loss_of(net, b); }); };
  const std::vector<double> before = net.w.tensor().to_vector<double>();
  const std::string error = message_of([&] { step(cut); });
  CHECK(mentions(error, "ShapeError: [TrainStep] micro-batches are cut along the first axis"));
  CHECK(mentions(error, "which has 10 samples\n  [1, 10] f64 cpu"));
  CHECK(mentions(error, "Try a batch type with narrow(begin, n) of its own"));
  CHECK(net.w.tensor().to_vector<double>() == before);
  CHECK(opt.applied() == 0);
  step(whole);
  CHECK(net.w.tensor().to_vector<double>() != before);
  CHECK_THROWS_AS(whole(std::vector<Tensor>(), [](const auto&) { return SumAndWeight(); }),
                  UsageError);
}

TEST_CASE("train step: what a loader of collated batches gives") {
  const LeakGuard leaks;
  const auto [x, y, weight] = triple();
  data::Loader loader{data::TensorsDataset{x, y, weight}, {.batch = 10}};
  Triple batch;
  REQUIRE(loader.next(batch));
  check_close(
      train(
          batch, [](Net& net, const Triple& b) { return weighted_squares(net, b[0], b[1], b[2]); },
          2),
      by_hand());
}
