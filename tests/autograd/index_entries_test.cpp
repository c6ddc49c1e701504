// Index lists made at run time, the ellipsis and new axes, against plain shapes and values.
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/index.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/values.h"

using namespace wt;
using wt_test::kernel_devices;

namespace {
Tensor counted(const Shape& s) { return arange(0, numel_of(s)).reshape(s).to(f32); }
}  // namespace

TEST_CASE("index: an ellipsis stands for the axes that the rest leaves") {
  const Tensor x = counted({2, 3, 4});
  CHECK(values(x[{ellipsis, 1}]) == Values{1, 5, 9, 13, 17, 21});
  CHECK(x[{1, ellipsis}].shape() == Shape{3, 4});
  CHECK(x[{1, ellipsis, Slice{0, 2}}].shape() == Shape{3, 2});
  CHECK(values(x[{1, ellipsis, 2, 3}]) == Values{23});  // for none
  CHECK(x[{ellipsis}].shape() == x.shape());
  CHECK(x[{ellipsis}].same_as(x));
  const Tensor places = tensor({0, 2}, {.dtype = int64});
  CHECK(x[{ellipsis, places}].shape() == Shape{2, 3, 2});
  CHECK(values(x[{1, ellipsis, places}]) == Values{12, 14, 16, 18, 20, 22});
  CHECK(values(x[{ellipsis, gt(x[0], 9.0)}]) == Values{10, 11, 22, 23});  // a mask takes two axes
  CHECK(mentions(message_of([&] { (void)x[{ellipsis, 0, ellipsis}]; }), "only one ellipsis"));
  CHECK_THROWS_AS((x[{ellipsis, 0, 0, 0, 0}]), IndexError);
}

TEST_CASE("index: a new axis has size 1, wherever it stands") {
  const Tensor x = counted({2, 3});
  CHECK(x[{newaxis}].shape() == Shape{1, 2, 3});
  CHECK(x[{Slice{}, newaxis, Slice{0, 2}}].shape() == Shape{2, 1, 2});
  CHECK(x[{ellipsis, newaxis}].shape() == Shape{2, 3, 1});
  CHECK(x[{newaxis, 1, newaxis, ellipsis}].shape() == Shape{1, 1, 3});
  CHECK(x[{newaxis, 1}].is_view());
  const Tensor rows = tensor({1, 0, 1}, {.dtype = int64});
  CHECK(x[{rows, newaxis}].shape() == Shape{3, 1, 3});
  CHECK(x[{newaxis, rows, 2}].shape() == Shape{1, 3});
  CHECK(values(x[{newaxis, rows, 2}]) == Values{5, 2, 5});
}

TEST_CASE("index: a list that is made at run time reads and writes like one in braces") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    Tensor x = counted({2, 3, 4}).to(d);
    std::vector<Index> at(2, Index(Slice{}));
    at.push_back(1);
    CHECK(values(x[at]) == values(x[{Slice{}, Slice{}, 1}]));
    CHECK(values(index(x, at)) == values(x[at]));
    at[1] = Index(tensor({2, 0}, {.dtype = int64}).to(d));
    CHECK(x[at].shape() == Shape{2, 2});
    x.index_put_(at, tensor(-1.0).to(d));
    CHECK(values(x[at]) == Values{-1, -1, -1, -1});
    CHECK(values(x).at(5) == 5);
    CHECK(values(index_put(x, at, tensor(7.0).to(d))[at]) == Values{7, 7, 7, 7});
  }
}

TEST_CASE("index: writing past an ellipsis and into a new axis, and its gradient") {
  Tensor x = counted({2, 3});
  x.index_put_({ellipsis, 0}, -1);
  CHECK(values(x) == Values{-1, 1, 2, -1, 4, 5});
  x.index_put_({newaxis, 1, Slice{1, 3}}, tensor({{8.0, 9.0}}));
  CHECK(values(x) == Values{-1, 1, 2, -1, 8, 9});
  const Tensor w = leaf({1, 2});
  const Tensor y = index_put(x, {1, newaxis, Slice{0, 2}}, w * 3);
  CHECK(values(y) == Values{-1, 1, 2, 3, 6, 9});
  CHECK(values(grad(sum(y * y), w)) == Values{18, 36});
}

TEST_CASE("eye: a matrix that is not square, and names of dtypes") {
  const Tensor e = eye(2, 3, {.dtype = int64});
  CHECK(e.dtype() == DType::i64);
  CHECK(values(e) == Values{1, 0, 0, 0, 1, 0});
  CHECK(values(eye(3, 2)) == Values{1, 0, 0, 1, 0, 0});
  CHECK(eye(0, 3).shape() == Shape{0, 3});
  CHECK(eye(2, 0).numel() == 0);
  CHECK_THROWS_AS(eye(2, -1), ShapeError);
  CHECK(zeros({1}, {.dtype = int32}).dtype() == DType::i32);
  CHECK(zeros({1}, {.dtype = uint8}).dtype() == DType::u8);
  CHECK(zeros({1}, {.dtype = boolean}).dtype() == DType::boolean);
}

TEST_CASE("index: a 0-d tensor of integers counts as an integer") {
  for (const Device d : kernel_devices())
    for (const DType t : {DType::i64, DType::i32}) {
      CAPTURE(to_string(d), dtype_name(t));
      const Tensor x = counted({3, 4, 5}).to(d), one = tensor(i64(-2)).to(t).to(d);
      const Tensor two = tensor({2, 0}).to(t).to(d);
      const auto same = [](const Tensor& a, const Tensor& b) {
        return a.shape() == b.shape() && values(a) == values(b);
      };
      CHECK(same(x[{one, Slice{}, two}], x[{1, Slice{}, two}]));
      CHECK(x[{one, Slice{}, two}].shape() == Shape{4, 2});
      CHECK(same(x[{two, Slice{}, one}], x[{two, Slice{}, 3}]));
      CHECK(same(x[{Slice{}, one, two}], x[{Slice{}, 2, two}]));
      CHECK(same(x[{two.flip(0) - 1, one, two}], x[{two.flip(0) - 1, 2, two}]));
      CHECK(same(x[{one}], x[1]));
      CHECK(same(x[{one, one, one}], x[{1, 2, 3}]));
      CHECK(same(x[{ellipsis, one}], x[{ellipsis, 3}]));
      // With an axis between them the others come first still.
      const Tensor y = counted({2, 3, 4, 5}).to(d), row = tensor({0, 1}).to(t).to(d);
      CHECK(same(y[{one, row, Slice{}, two}], y[{0, row, Slice{}, two}]));
      CHECK(same(y[{row, Slice{}, one, two}], y[{row, Slice{}, 2, two}]));
      // Writing, and both gradients.
      const Tensor value = counted({4, 2}).to(d) + 100;
      Tensor by_tensor = x.clone(), by_number = x.clone();
      by_tensor.index_put_({one, Slice{}, two}, value);
      by_number.index_put_({1, Slice{}, two}, value);
      CHECK(same(by_tensor, by_number));
      by_tensor.index_put_({one, Slice{}, two}, value, {.accumulate = true});
      by_number.index_put_({1, Slice{}, two}, value, {.accumulate = true});
      CHECK(same(by_tensor, by_number));
      CHECK(same(index_put(x, {one, Slice{}, two}, value), index_put(x, {1, Slice{}, two}, value)));
      const Tensor leaf = x.clone().requires_grad_(), given = value.clone().requires_grad_();
      const Tensor factors = counted({4, 2}).to(d), all = counted({3, 4, 5}).to(d);
      CHECK(same(grad(sum(leaf[{one, Slice{}, two}] * factors), leaf),
                 grad(sum(leaf[{1, Slice{}, two}] * factors), leaf)));
      const auto put = [&](const Index& first) {
        return grads(sum(index_put(leaf, {first, Slice{}, two}, given) * all), {leaf, given});
      };
      CHECK(same(put(one)[0], put(1)[0]));
      CHECK(same(put(one)[1], put(1)[1]));
    }
  const Tensor x = counted({3, 4});
  CHECK_THROWS_AS((x[{tensor(i64(3))}]), IndexError);
}

TEST_CASE("index: one entry needs no list") {
  const Tensor x = counted({3, 4}), rows = tensor({2, 0});
  CHECK(values(x[rows]) == values(x[{rows}]));
  CHECK(values(x[gt(x, 8)]) == Values{9, 10, 11});
  CHECK(x[Slice{0, 2}].is_view());
  CHECK(x[Slice{0, 2}].shape() == Shape{2, 4});
  CHECK(x[newaxis].shape() == Shape{1, 3, 4});
  CHECK(x[ellipsis].same_as(x));
  CHECK(x[tensor(i64(1))].shape() == Shape{4});
  CHECK((x + 1)[rows].shape() == Shape{2, 4});
  const int line = __LINE__ + 1;
  const std::string text = message_of([&] { (void)x[tensor({7})]; });
  CHECK(mentions(text, "index 7"));
  CHECK(mentions(text, "index_entries_test.cpp:" + std::to_string(line)));
}

TEST_CASE("index: a write into what tensors picked is refused, where nobody would see it") {
  Tensor x = counted({3, 4});
  const Tensor mask = gt(x, 8);
  const std::string text = message_of([&] { x[mask] += 1; });
  CHECK(text.starts_with("UsageError: "));
  CHECK(mentions(text, "writes into a copy that nobody keeps"));
  CHECK(mentions(text, "Try x.index_put_({...}, value"));
  CHECK_THROWS_AS((x[{mask}] *= 2), UsageError);
  x[1] += 1;
  x[Slice{0, 1}] -= 1;
  CHECK(values(x) == Values{-1, 0, 1, 2, 5, 6, 7, 8, 8, 9, 10, 11});
}

TEST_CASE("masks and integers: &, |, ^ and ~") {
  for (const Device d : kernel_devices()) {
    const Tensor x = arange(6, {.device = d}), low = lt(x, 3), odd = eq(x & 1, 1);
    CHECK(values(low & odd) == Values{0, 1, 0, 0, 0, 0});
    CHECK(values(low | odd) == Values{1, 1, 1, 1, 0, 1});
    CHECK(values(low ^ odd) == Values{1, 0, 1, 1, 0, 1});
    CHECK(values(~low) == Values{0, 0, 0, 1, 1, 1});
    CHECK(values(x | 8) == Values{8, 9, 10, 11, 12, 13});
    CHECK(values(x[low & odd]) == Values{1});
  }
}
