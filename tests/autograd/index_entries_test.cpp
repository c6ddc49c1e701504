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
