// Normalisation layers: names, modes, running statistics, and those under a step that skips.
#include "warptape/nn/norms.h"

#include <array>
#include <cmath>

#include "warptape/autograd/checkpoint.h"
#include "warptape/autograd/ops/channel_norm.h"
#include "warptape/autograd/ops/dropout.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/norm.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/random.h"
#include "warptape/nn/init.h"
#include "warptape/nn/loss.h"
#include "warptape/optim/train_step.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {

Tensor normal(const Shape& shape, u64 seed, DType t = f32) {
  manual_seed(seed);
  Tensor x = empty(shape, {.dtype = t});
  nn::init::normal_(x);
  return x;
}

struct Pair {
  Tensor x, y;
  i64 size() const { return x.size(0); }
  Pair narrow(i64 begin, i64 n) const { return {x.narrow(0, begin, n), y.narrow(0, begin, n)}; }
  std::array<Tensor*, 2> tensors() { return {&x, &y}; }
};

struct Net : nn::Module<Net> {
  nn::Param w = add("w", normal({4, 6}, 3));
  nn::BatchNorm1d norm = add("norm", nn::BatchNorm1d{6});
  nn::BatchNorm1d average = add("average", nn::BatchNorm1d{6, {.momentum = std::nullopt}});
  nn::GroupNorm groups = add("groups", nn::GroupNorm{2, 6});
  nn::RMSNorm rms = add("rms", nn::RMSNorm{6});
  Tensor forward(Tensor x) {
    Tensor h = dropout(norm(matmul(x, w)), 0.25, is_training());
    return rms(groups(average(relu(h))));
  }
};
nn::Loss loss_of(Net& net, const Pair& b) {
  const Tensor e = sub(net(b.x), b.y);
  return {sum(mul(e, e)), double(b.size())};
}

// All that a step may change, but for the count of attempts.
struct State {
  std::vector<Values> tensors;
  Generator random;
  friend bool operator==(const State&, const State&) = default;
};
State state_of(const Net& net, const optim::Optimizer& opt) {
  State s{{}, generator()};
  for (const auto& t : net.state_dict()) s.tensors.push_back(values(t.tensor));
  for (const auto& t : opt.state())
    if (t.name.find("attempted") == std::string::npos) s.tensors.push_back(values(t.tensor));
  return s;
}

}  // namespace

TEST_CASE("BatchNorm has PyTorch's names, defaults and shapes", "[layers]") {
  nn::BatchNorm2d norm{3};
  std::vector<std::string> names;
  for (const auto& t : norm.state_dict()) names.push_back(t.name);
  CHECK(names == std::vector<std::string>{"weight", "bias", "running_mean", "running_var",
                                          "num_batches_tracked"});
  CHECK(norm.named_parameters().size() == 2);
  CHECK(norm.named_buffers().size() == 3);
  CHECK(values(norm.running_var) == Values(3, 1));
  CHECK(norm.num_batches_tracked->dtype() == DType::i64);
  CHECK(norm.num_batches_tracked->ndim() == 0);
  CHECK(nn::BatchNorm1d{3, {.affine = false, .track_running_stats = false}}.state_dict().empty());
  CHECK(mentions(message_of([&] {
                   (void)norm(ones({2, 3, 4}));
                 }),
                 "[BatchNorm2d] x must have 4 axes, got [2, 3, 4]"));
  CHECK(mentions(message_of([] {
                   (void)nn::BatchNorm1d{3}(ones({2, 3, 4, 5}));
                 }),
                 "[BatchNorm1d] x must have 2 or 3 axes"));
  CHECK(mentions(message_of([&] {
                   (void)norm(ones({2, 4, 2, 2}));
                 }),
                 "[batch_norm] weight must be [4], one a channel, got [3]"));
  CHECK(mentions(message_of([] { (void)nn::BatchNorm1d{0}; }), "channels must be at least 1"));
}

TEST_CASE("BatchNorm moves its statistics in training and uses them in evaluation", "[layers]") {
  const LeakGuard guard;
  nn::BatchNorm1d norm{2, {.momentum = 0.5, .dtype = f64}};
  const Tensor x = tensor({{1.0, 10.0}, {3.0, 30.0}}, {.dtype = f64});
  (void)norm(x);
  CHECK(values(norm.running_mean) == Values{1, 10});
  CHECK(values(norm.running_var) == Values{0.5 + 0.5 * 2, 0.5 + 0.5 * 200});
  CHECK(norm.num_batches_tracked->item() == 1);
  norm.eval();
  const Values y = values(norm(x));
  CHECK(std::fabs(y[3] - (30 - 10) / std::sqrt(100.5 + 1e-5)) < 1e-14);
  CHECK(norm.num_batches_tracked->item() == 1);
  CHECK(values(norm.running_mean) == Values{1, 10});
  CHECK_NOTHROW(norm(x.narrow(0, 0, 1)));
  norm.train();
  CHECK_THROWS_AS(norm(x.narrow(0, 0, 1)), ShapeError);
  CHECK(norm.num_batches_tracked->item() == 1);  // refused before anything was written

  nn::BatchNorm1d average{2, {.momentum = std::nullopt, .dtype = f64}};
  (void)average(x);
  (void)average(mul(x, 4));
  (void)average(mul(x, 7));
  const Values mean = values(average.running_mean), var = values(average.running_var);
  CHECK(std::fabs(mean[0] - 8) < 1e-14);
  CHECK(std::fabs(var[0] - (2 + 32 + 98) / 3.0) < 1e-13);

  nn::BatchNorm1d own{2, {.track_running_stats = false}};
  own.eval();
  CHECK(values(own(x.to(f32))) ==
        values(batch_norm(x.to(f32), {.weight = ones({2}), .bias = zeros({2}), .training = true})));
}

TEST_CASE("GroupNorm and RMSNorm are their operators with ones and zeros", "[layers]") {
  const Tensor x = normal({2, 6, 5}, 1);
  nn::GroupNorm groups{3, 6, {.eps = 0.25}};
  CHECK(values(groups(x)) ==
        values(group_norm(x, 3, {.weight = ones({6}), .bias = zeros({6}), .eps = 0.25})));
  CHECK(nn::GroupNorm{3, 6, {.affine = false}}.parameter_count() == 0);
  CHECK_THROWS_AS((nn::GroupNorm{4, 6}), ShapeError);
  nn::RMSNorm rms{5};
  CHECK(rms.named_parameters()[0].name == "weight");
  CHECK(values(rms(x)) == values(rms_norm(x, {5}, ones({5}))));
  nn::RMSNorm plain{{6, 5}, {.eps = 0.5, .elementwise_affine = false}};
  CHECK(values(plain(x)) == values(rms_norm(x, {6, 5}, {.eps = 0.5})));
  CHECK(mentions(message_of([] { nn::RMSNorm none{Shape{}}; }), "[RMSNorm]"));
}

TEST_CASE(
    "A step is a transaction: one that skips leaves running statistics, random state and "
    "parameters as they were",
    "[wall][transaction]") {
  const LeakGuard guard;
  const i64 micro_batches = GENERATE(1, 3);
  manual_seed(1);
  Net net;
  optim::AdamW opt(net, {.lr = 0.01});
  TrainStep step{net, opt, {.micro_batches = micro_batches, .on_nonfinite = NonFinite::skip}};
  const Pair batch{normal({12, 4}, 5), normal({12, 6}, 6)};
  manual_seed(2);
  const auto run = [&](const Pair& b) {
    return step(b, [&](const Pair& part) { return loss_of(net, part); });
  };
  CHECK(!run(batch).skipped());
  CHECK(net.norm.num_batches_tracked->item() == double(micro_batches));
  const State before = state_of(net, opt);
  Pair bad = batch;
  bad.x = batch.x.clone();
  Tensor last = bad.x[11];
  last.fill_(NAN);
  CHECK(run(bad).skipped());
  CHECK(state_of(net, opt) == before);
  CHECK(!run(batch).skipped());
  CHECK(net.norm.num_batches_tracked->item() == 2.0 * double(micro_batches));
  // What the skipped step left out is what a run without it does.
  const State after = state_of(net, opt);
  manual_seed(1);
  Net other;
  optim::AdamW other_opt(other, {.lr = 0.01});
  TrainStep other_step{other, other_opt, {.micro_batches = micro_batches}};
  manual_seed(2);
  for (int i = 0; i < 2; ++i)
    other_step(batch, [&](const Pair& part) { return loss_of(other, part); });
  for (size_t i = 0; i < after.tensors.size(); ++i) {
    const State s = state_of(other, other_opt);
    if (s.tensors[i].size() > 1) CHECK(s.tensors[i] == after.tensors[i]);
  }
  // A callback that throws half way.
  const State ready = state_of(net, opt);
  int calls = 0;
  CHECK_THROWS_AS(step(batch,
                       [&](const Pair& part) -> nn::Loss {
                         nn::Loss loss = loss_of(net, part);
                         if (++calls == micro_batches) throw std::runtime_error("the user's");
                         return loss;
                       }),
                  std::runtime_error);
  CHECK(state_of(net, opt) == ready);
}

TEST_CASE("BatchNorm under checkpoint: statistics move once, gradients are the same bits",
          "[wall][recompute]") {
  const LeakGuard guard;
  const Tensor x = normal({6, 4}, 5);
  std::vector<Values> grads[2];
  for (const bool recompute : {false, true}) {
    manual_seed(1);
    Net net;
    manual_seed(9);
    auto f = [net](const Tensor& v) mutable { return net(v); };
    Tensor y = recompute ? checkpoint(f, x) : f(x);
    const Values mean = values(net.norm.running_mean), var = values(net.average.running_var);
    CHECK(net.norm.num_batches_tracked->item() == 1);
    sum(mul(y, y)).backward();
    CHECK(values(net.norm.running_mean) == mean);
    CHECK(values(net.average.running_var) == var);
    CHECK(net.norm.num_batches_tracked->item() == 1);
    for (const Tensor& p : net.parameters()) grads[recompute].push_back(values(p.grad()));
    grads[recompute].push_back(mean);
  }
  CHECK(grads[0] == grads[1]);
}
