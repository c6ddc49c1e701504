// Who keeps a tensor: each kind of holder is named, with operator and line, and counted once.
#include "warptape/autograd/why_alive.h"

#include "warptape/autograd/autocast.h"
#include "warptape/autograd/checkpoint.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/factories.h"
#include "warptape/nn/layers.h"
#include "warptape/optim/optimizer.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using memory::why_alive;

namespace {

std::string at(int line) { return " <- why_alive_test.cpp:" + std::to_string(line); }
bool says_nothing_of(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) == std::string::npos;
}

}  // namespace

TEST_CASE("why_alive: a tensor that only its variables keep", "[memory]") {
  const LeakGuard guard;
  const Tensor x = ones({64, 32});
  CHECK(why_alive(x) ==
        "[64, 32] f32 cpu, 8192 bytes of activation, made by factory\n  handles: 1 (variables, "
        "containers, modules; "
        "one of them was asked about)");
  const Tensor same = x, view = x.t();
  const std::string text = why_alive(x);
  CHECK(mentions(text, "handles: 2 "));
  CHECK(mentions(text, "other tensors over the same bytes (views, detach()): 1"));
  CHECK(mentions(message_of([] { (void)why_alive(Tensor()); }),
                 "[why_alive] the tensor is undefined"));
}

TEST_CASE("trap T16: why_alive: a graph that saved it keeps it, whatever variable is gone",
          "[memory][trap]") {
  const LeakGuard guard;
  const Tensor w = ones({8}, {.requires_grad = true});
  const Tensor x = ones({8});
  const int product = __LINE__ + 1;
  Tensor y = w * x;
  const int end = __LINE__ + 1;
  Tensor loss = sum(square(y));
  std::string text = why_alive(x);
  CHECK(mentions(text, "handles: 1 "));
  CHECK(mentions(text, "saved by mul" + at(product) +
                           " for its backward, in a graph that ends in sum" + at(end)));
  // The name is used for something else: the graph still has the bytes.
  CHECK(mentions(why_alive(y), "made by mul" + at(product)));
  CHECK(mentions(why_alive(y), "saved by square" + at(end)));
  CHECK(says_nothing_of(text, "other tensors"));
  loss.backward();
  text = why_alive(x);
  CHECK(says_nothing_of(text, "saved by"));
  CHECK(mentions(text, "handles: 1 "));
}

TEST_CASE("why_alive: an operator that reads its own output", "[memory]") {
  const Tensor w = ones({8}, {.requires_grad = true});
  const int line = __LINE__ + 1;
  const Tensor y = tanh(w);
  CHECK(mentions(why_alive(y), "read by the backward of tanh" + at(line) + ", which made it"));
  CHECK(mentions(why_alive(y), "handles: 1 "));
}

TEST_CASE("why_alive: a leaf, a checkpoint's input, autocast's cache, an optimizer's arena",
          "[memory]") {
  const LeakGuard guard;
  nn::Linear fc{8, 8};
  const Tensor x = ones({4, 8});
  const Tensor weight = fc.weight;
  {
    const int line = __LINE__ + 1;
    const Tensor y = checkpoint([fc](const Tensor& in) mutable { return tanh(fc(in)); }, x);
    CHECK(mentions(why_alive(x), "an input of checkpoint" + at(line)));
    CHECK(mentions(why_alive(weight), "a leaf of checkpoint" + at(line)));
    CHECK(mentions(why_alive(weight), ", a leaf"));
  }
  CHECK(says_nothing_of(why_alive(x), "checkpoint"));
  {
    const AutocastScope autocast(DType::bf16);
    (void)fc(x);
    CHECK(mentions(why_alive(weight), "the cache of the autocast scope"));
  }
  CHECK(says_nothing_of(why_alive(weight), "autocast"));
  optim::Sgd opt{fc};
  CHECK(mentions(why_alive(weight), "the arena of an optimizer"));
}
