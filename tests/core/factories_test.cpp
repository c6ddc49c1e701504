// Factories: values, dtypes, devices, refusals, and memory that is not ours.
#include "warptape/core/factories.h"

#include "warptape/autograd/ops/shape.h"
#include "warptape/core/memory.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

TEST_CASE("factories: values and default dtypes are PyTorch's", "[wall][factories]") {
  const LeakGuard guard;
  CHECK(tensor({1, 2}).dtype() == DType::i64);  // integer literals make i64
  CHECK(tensor({1, 2.5}).dtype() == f32);       // float literals the default dtype
  CHECK(tensor({true, false}).dtype() == DType::boolean);
  CHECK(tensor({true, 3}).dtype() == DType::i64);
  CHECK(tensor(3.0).ndim() == 0);
  CHECK(tensor({{1, 2}, {3, 4}}).shape() == Shape{2, 2});
  CHECK(tensor({{1}, {2}, {3}}).shape() == Shape{3, 1});  // a column, no list
  CHECK(tensor({{1.0}, {2.0}}, {.dtype = f64}).shape() == Shape{2, 1});
  CHECK(tensor({{1.0, 2.0}}).shape() == Shape{1, 2});
  CHECK(tensor({{1, 2.5}}).dtype() == f32);
  CHECK(tensor({{true}, {false}}).dtype() == DType::boolean);
  CHECK(tensor({{{0.0, 1.0}}}).shape() == Shape{1, 1, 2});
  CHECK(tensor({{{1}, {2}}, {{3}, {4}}}).shape() == Shape{2, 2, 1});  // columns, no rows
  CHECK(values(tensor({{{1, 2.5}, {3, 4}}})) == Values{1, 2.5, 3, 4});
  CHECK(tensor({{{1, 2.5}}}).dtype() == f32);
  CHECK(tensor({{{true}}}).dtype() == DType::boolean);
  CHECK(mentions(message_of([] {
                   (void)tensor({{{1, 2}}, {{3, 4}, {5, 6}}});
                 }),
                 "matrices of 1 and 2 rows"));
  CHECK(mentions(message_of([] { (void)tensor({{{1, 2}, {3}}}); }), "rows of 2 and 1 values"));
  CHECK(tensor(std::vector<float>{1, 2}).dtype() == f32);
  CHECK(tensor(std::vector<u8>{1, 2}).dtype() == DType::u8);
  CHECK(tensor(std::vector<double>{1, 2}, {.dtype = f16}).dtype() == f16);
  CHECK(values(zeros({2})) == Values{0, 0});
  CHECK(values(ones({2})) == Values{1, 1});
  CHECK(full({2}, 7).dtype() == DType::i64);
  CHECK(full({2}, 7.0).dtype() == f32);
  CHECK(full({}, true).dtype() == DType::boolean);
  CHECK(values(eye(2)) == Values{1, 0, 0, 1});
  CHECK(arange(3).dtype() == DType::i64);
  CHECK(values(arange(3)) == Values{0, 1, 2});
  CHECK(values(arange(1, 2, 0.25)) == Values{1, 1.25, 1.5, 1.75});
  CHECK(values(arange(5, 0, -2)) == Values{5, 3, 1});
  CHECK(arange(5, 0).numel() == 0);
  CHECK(values(linspace(0, 1, 5)) == Values{0, 0.25, 0.5, 0.75, 1});
  CHECK(values(linspace(3, 9, 1)) == Values{3});
  CHECK(empty({2, 0, 3}).numel() == 0);
  CHECK(zeros({0}).shape() == Shape{0});
  for (const Tensor& t : {zeros({3}), ones({3}), full({3}, 2.0), arange(3)})
    CHECK(t.version() == 0);
}

TEST_CASE("factories: the likes take shape, dtype and device", "[wall][factories]") {
  const Tensor like = zeros({2, 3}, {.dtype = f16, .device = Device::simt()});
  for (const Tensor& t : {empty_like(like), zeros_like(like), ones_like(like), full_like(like, 3),
                          rand_like(like), randn_like(like)}) {
    CHECK(t.shape() == like.shape());
    CHECK(t.dtype() == f16);
    CHECK(t.device() == Device::simt());
    CHECK_FALSE(t.requires_grad());
  }
  CHECK(values(full_like(like, 3)) == Values(6, 3));
}

TEST_CASE("factories: options reach every one of them", "[wall][factories]") {
  const TensorOptions o{.dtype = f64, .device = Device::simt(), .requires_grad = true};
  for (const Tensor& t : {empty({2}, o), zeros({2}, o), ones({2}, o), full({2}, 1, o), eye(2, o),
                          arange(2, o), linspace(0, 1, 2, o), rand({2}, o), randn({2}, o),
                          normal(0, 1, {2}, o), tensor({1, 2}, o), tensor(1, o)}) {
    CHECK(t.dtype() == f64);
    CHECK(t.device() == Device::simt());
    CHECK(t.requires_grad());
    CHECK(t.is_leaf());
  }
  CHECK_THROWS_AS((void)zeros({2}, {.dtype = DType::i64, .requires_grad = true}), DtypeError);
}

TEST_CASE("factories: what makes no sense is refused", "[wall][factories]") {
  CHECK_THROWS_AS((void)zeros({-1}), ShapeError);
  CHECK_THROWS_AS((void)eye(-1), ShapeError);
  CHECK_THROWS_AS((void)arange(0, 1, 0), UsageError);
  CHECK_THROWS_AS((void)linspace(0, 1, -1), ShapeError);
  CHECK_THROWS_AS((void)randint(3, 3, {2}), UsageError);
  CHECK_THROWS_AS((void)randperm(-1), ShapeError);
  CHECK_THROWS_AS((void)rand({2}, {.dtype = DType::i64}), DtypeError);
  CHECK(mentions(message_of([] { (void)tensor({{1, 2}, {3}}); }), "rows of 2 and 1 values"));
  CHECK(mentions(message_of([] { (void)zeros({i64(1) << 62, 8}); }), "overflows 64 bits"));
}

TEST_CASE("factories: from_blob with a deleter calls it when the last tensor dies",
          "[wall][streams][factories]") {
  const LeakGuard guard;
  static double data[6] = {1, 2, 3, 4, 5, 6};
  int calls = 0;
  const auto deleter = [](void* n) { ++*static_cast<int*>(n); };
  Tensor view;
  {
    Tensor t = from_blob(data, {2, 3}, deleter, &calls, {.dtype = f64});
    CHECK(t.data<double>() == data);
    view = t[1];
    t.fill_(7);
    CHECK(data[0] == 7);
  }
  CHECK(calls == 0);  // the view still lives
  CHECK(values(view) == Values{7, 7, 7});
  view = Tensor();
  CHECK(calls == 1);
}

TEST_CASE("factories: shown memory starts at version 0, whatever its header held before",
          "[factories]") {
  float data[2] = {};
  {
    Tensor t = from_blob(data, {2}, borrow);
    t.fill_(1);
    CHECK(t.version() == 1);
  }
  CHECK(from_blob(data, {2}, borrow).version() == 0);
}

TEST_CASE("factories: from_blob refuses what it cannot show, and then deletes nothing",
          "[wall][streams][factories]") {
  alignas(8) static float data[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  int calls = 0;
  const auto deleter = [](void* n) { ++*static_cast<int*>(n); };
  CHECK_THROWS_AS((void)from_blob(nullptr, {2}, deleter, &calls), UsageError);
  CHECK_THROWS_AS((void)from_blob(data, {2}, deleter, &calls, {}, {-1}), ShapeError);
  CHECK_THROWS_AS((void)from_blob(data, {2}, deleter, &calls, {}, {1, 1}), ShapeError);
  CHECK_THROWS_AS((void)from_blob(reinterpret_cast<char*>(data) + 1, {2}, borrow), UsageError);
  CHECK(calls == 0);
  CHECK(values(from_blob(data, {2, 2}, borrow, {}, {4, 2})) == Values{0, 2, 4, 6});
  CHECK(from_blob(nullptr, {0}, borrow).numel() == 0);
}
