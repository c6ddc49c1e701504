// One prologue: what every operator checks before it does anything, and how it says so.
#include "warptape/autograd/compare.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/composite_pointwise.h"
#include "warptape/autograd/ops/gather.h"
#include "warptape/autograd/ops/index.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/memory.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

TEST_CASE("Prologue: operands must be defined, and the message shows all of them",
          "[wall][prologue]") {
  const Tensor x = ones({2, 3});
  const int line = __LINE__ + 1;
  const std::string text = message_of([&] { (void)(x + Tensor()); });
  CHECK(
      text.starts_with("UsageError: [add] operand 1 is undefined (never assigned, or moved "
                       "from)"));
  CHECK(mentions(text, "\n  operand 0: [2, 3] f32 cpu\n  operand 1: undefined"));
  CHECK(mentions(text, "\n  at prologue_test.cpp:" + std::to_string(line)));
}

TEST_CASE("Prologue: a 0-d tensor of the cpu may be beside a device's", "[wall][prologue]") {
  const Device d = Device::simt();
  const Tensor x = tensor({{1.0, 2.0}, {3.0, 4.0}}), there = x.to(d);
  for (const DType t : {f64, f32, f16, bf16, DType::i64, DType::i32, DType::u8, DType::boolean}) {
    CAPTURE(dtype_name(t));
    const Tensor two = tensor(2.0).to(t);
    const SyncGuard guard(OnSync::error);
    const std::vector<Tensor> here{x * two, two - x, where(gt(x, two), x, two), maximum(two, x),
                                   masked_fill(x, gt(x, two), two.to(f32))};
    const std::vector<Tensor> mixed{there * two, two - there, where(gt(there, two), there, two),
                                    maximum(two, there),
                                    masked_fill(there, gt(there, two), two.to(f32))};
    for (size_t k = 0; k < here.size(); ++k) {
      CAPTURE(k);
      CHECK(mixed[k].device() == d);
      CHECK(mixed[k].dtype() == here[k].dtype());
    }
    const SyncGuard look(OnSync::allow);
    for (size_t k = 0; k < here.size(); ++k) CHECK(values(mixed[k]) == values(here[k]));
  }
  const Tensor half = tensor(0.5);
  CHECK(values(lerp(there, there + 2, half)) == values(x + 1));
  CHECK(values(addcmul(there, there, half)) == values(x + x * 0.5));
  CHECK((there[0][0] * half).device() == d);  // both 0-d: the device's
  CHECK((half * there[0][0]).device() == d);
  CHECK(values(there.clone().mul_(half)) == values(x * 0.5));
  CHECK_THROWS_AS(half.clone().mul_(there[0][0]), PlacementError);  // what is written stays
  CHECK((ones({2}, {.device = Device::meta()}) + half).shape() == Shape{2});

  // Its gradient comes back to the cpu, and so do second ones.
  Tensor a = tensor(2.0, {.requires_grad = true}), w = there.clone().requires_grad_();
  sum(w * a * a).backward();
  CHECK(a.grad().device() == Device::cpu());
  CHECK(values(a.grad()) == Values{40});
  CHECK(values(w.grad()) == Values{4, 4, 4, 4});
  const Tensor ga = grad(sum(w * exp(a)), a, {.create_graph = true});
  CHECK(ga.device() == Device::cpu());
  CHECK(allclose(grad(ga, a), ga));
}

TEST_CASE("Prologue: operands must be on one device", "[wall][prologue]") {
  const Tensor x = ones({2}), y = ones({2}, {.device = Device::simt()}),
               m = empty({2}, {.device = Device::meta()});
  const std::string text = message_of([&] { (void)mul(x, y); });
  CHECK(text.starts_with("PlacementError: [mul] operands are on cpu and simt"));
  CHECK(mentions(text, "Try .to(Device)"));
  const std::vector<std::function<void()>> calls{
      [&] { (void)(x + m); },
      [&] { (void)(x + y[0]); },  // a 0-d tensor of another device does not come along
      [&] { (void)where(gt(x, 0), x, y); },
      [&] {
        (void)cat({x, y});
      },
      [&] { (void)x.matmul(y); },
      [&] { (void)mse_loss(x, y); },
      [&] {
        (void)embedding(tensor({0}), ones({2, 2}, {.device = Device::simt()}));
      },
      [&] {
        (void)cross_entropy(ones({2, 2}), tensor({0, 1}, {.device = Device::simt()}));
      },
  };
  for (const auto& call : calls) CHECK_THROWS_AS(call(), PlacementError);
}

TEST_CASE("Prologue: types promote as in PyTorch, or are refused by name", "[wall][prologue]") {
  CHECK((tensor({1, 2}) + tensor({0.5, 1.0})).dtype() == f32);
  CHECK((tensor({1}, {.dtype = f16}) + tensor({1}, {.dtype = bf16})).dtype() == f32);
  CHECK((tensor({1}, {.dtype = f16}) + 2.5).dtype() == f16);                          // a number
  CHECK((tensor({1}, {.dtype = f16}) + tensor(2.5, {.dtype = f64})).dtype() == f16);  // 0-d
  CHECK((tensor({1}) + tensor(2.5, {.dtype = f64})).dtype() == f64);  // a higher category
  CHECK((tensor({true}) + 1).dtype() == DType::i64);
  CHECK((tensor({true}) + tensor({1}, {.dtype = DType::u8})).dtype() == DType::u8);
  const std::string text = message_of([] { (void)tensor({1.0}).matmul(tensor({1})); });
  CHECK(text.starts_with("DtypeError: [matmul] operands differ in dtype"));
  CHECK(mentions(text, "Try .to(f32) on the other one"));
}

TEST_CASE("Prologue: the owner of what an operator allocates is on its storage",
          "[wall][prologue][memory]") {
  const Tensor x = ones({2});
  const Tensor y = exp(x);
  CHECK(std::string(y.impl()->storage->owner->name) == "exp");
  const Tensor w = leaf({1, 2});
  sum(exp(w)).backward();
  CHECK(std::string(w.grad().impl()->storage->owner->name).starts_with("exp"));
}

TEST_CASE("Prologue: every operator is listed once, with its facts", "[wall][prologue]") {
  // That the list is complete is checked against the sources in op_cases/ops_test.cpp.
  int views = 0, in_place = 0;
  for (const OpInfo* i : all_ops()) {
    CHECK(i->name != nullptr);
    views += i->view;
    in_place += i->in_place;
    if (i->in_place) CHECK(std::string(i->name).ends_with("_"));
  }
  CHECK(views >= 8);
  CHECK(in_place >= 5);
}
