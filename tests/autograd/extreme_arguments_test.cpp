// Arguments at the ends of 64 bits: an error in clear words or the right result, never undefined
// behaviour. The asan flavour says what the words do not.
#include <cstdint>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops.h"
#include "warptape/core/checked.h"
#include "warptape/core/memory.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {
constexpr i64 kMost = INT64_MAX, kLeast = INT64_MIN;
const i64 kLarge = i64{1} << 40;

Tensor counting(const Shape& shape) {
  i64 n = 1;
  for (const i64 size : shape) n *= size;
  return arange(n, {.dtype = f32}).reshape(shape);
}
// A view of one element in `shape`.
Tensor spread(const Shape& shape) { return zeros({}).expand(shape); }
}  // namespace

TEST_CASE("checked arithmetic: what fits is right and what does not is told", "[wall][extreme]") {
  i64 r = 0;
  CHECK(mul_fits(i64{1} << 31, i64{1} << 31, r));
  CHECK(r == i64{1} << 62);
  CHECK_FALSE(mul_fits(i64{1} << 32, i64{1} << 31, r));
  CHECK_FALSE(add_fits(kMost, i64{1}, r));
  const i64 sizes[] = {kLarge, 0, 3}, far[] = {kLarge, 0, kLarge};
  CHECK(extent_fits(sizes, 3, r));
  CHECK(r == 3 * kLarge);
  CHECK_FALSE(extent_fits(far, 3, r));  // its strides do not fit
  CHECK(wrapped_mul(kLarge, kLarge) == 0);
}

TEST_CASE("slice: steps of any size", "[wall][extreme]") {
  const Tensor x = counting({4, 3});
  CHECK(values(slice(x, 0, {1, 4, kMost})) == Values{3, 4, 5});
  CHECK(values(slice(x, 0, {0, kMost, kMost})) == Values{0, 1, 2});
  CHECK(slice(x, 0, {kMost, kMost, kMost}).shape() == Shape{0, 3});
  CHECK_THROWS_AS((void)slice(x, 0, {0, 4, kLeast}), ShapeError);
}

TEST_CASE("slice_backward: steps of any size, and a gradient of another shape", "[wall][extreme]") {
  const Tensor g = counting({1, 3});
  CHECK(values(slice_backward(g, {4, 3}, 0, {1, 4, kMost})) ==
        Values{0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0});
  CHECK(mentions(message_of([&] {
                   (void)slice_backward(counting({4, 3}), {4, 3}, 0, {1, 4, kMost});
                 }),
                 "[slice_backward] the slice of a tensor of shape [4, 3] has shape [1, 3]"));
  CHECK_THROWS_AS((void)slice_backward(g, {-4, 3}, 0, {0, 1}), ShapeError);
  CHECK_THROWS_AS((void)slice_backward(g, {kLarge, kLarge}, 0, {0, 1}), ShapeError);
  CHECK_THROWS_AS((void)slice_backward(zeros({}), {}, 0, {0, 1}), IndexError);
}

TEST_CASE("narrow: sums beyond 64 bits are outside", "[wall][extreme]") {
  const Tensor x = counting({4});
  CHECK_THROWS_AS((void)x.narrow(0, kMost, 1), IndexError);
  CHECK_THROWS_AS((void)x.narrow(0, 2, kMost), IndexError);
  CHECK(values(x.narrow(0, 2, 2)) == Values{2, 3});
}

TEST_CASE("reshape: strided operands to other numbers of elements", "[wall][extreme]") {
  const Tensor x = ones({4, 3}).t();
  CHECK(mentions(message_of([&] { (void)x.reshape({0}); }), "cannot see 12 elements"));
  CHECK(mentions(message_of([&] { (void)x.reshape({2, 3, 4}); }), "cannot see 12 elements"));
  CHECK(mentions(message_of([&] { (void)x.reshape({kMost, kMost}); }), "cannot see 12 elements"));
  CHECK(mentions(message_of([&] { (void)x.reshape({kMost, 4, -1}); }), "cannot see 12 elements"));
  CHECK(x.reshape({2, 6}).shape() == Shape{2, 6});
  CHECK_THROWS_AS((void)zeros({0}).reshape({0, kMost, kMost}), ShapeError);
}

TEST_CASE("new tensors: sizes whose product does not fit are refused by every operator",
          "[wall][extreme]") {
  const auto refused = [](const std::function<void()>& f) {
    const std::string text = message_of(f);
    return mentions(text, "ShapeError") && mentions(text, "64 bits");
  };
  const Tensor wide = spread({kLarge, 1}), tall = spread({1, kLarge});
  CHECK(refused([&] { (void)(wide + tall); }));
  CHECK(refused([&] { (void)maximum(wide, tall); }));
  CHECK(refused([&] { (void)where(ones({}, {.dtype = DType::boolean}), wide, tall); }));
  CHECK(refused([&] { (void)matmul(wide, tall); }));
  CHECK(refused([&] { (void)unfold(spread({kLarge}), 0, kLarge / 2, 1); }));
  CHECK(refused([&] { (void)pad(spread({kLarge, 2}), {kMost / 2, 0}); }));
  CHECK(refused([&] { (void)diag_embed(spread({4}), kMost - 8); }));
  CHECK(refused([&] { (void)repeat(counting({2}), {kLarge, kLarge}); }));
  CHECK(refused([&] { (void)one_hot(zeros({3}, {.dtype = DType::i64}), kMost); }));
  CHECK(refused([&] { (void)zeros({kLarge, kLarge}); }));
  CHECK(refused([&] { (void)zeros({kLarge, kLarge, 0}); }));
  CHECK(refused([&] { (void)arange(0, 1e300, 1); }));
  // Elements that can be counted, but not their bytes.
  CHECK(refused([&] { (void)spread({kMost / 2}).to(f64); }));
}

TEST_CASE("allocation: more than there is, is out of memory", "[wall][extreme]") {
  const auto refused = [](const std::function<void()>& f) {
    return mentions(message_of(f), "OutOfMemory");
  };
  for (const i64 n : {kLarge, i64{1} << 50, i64{1} << 58, (i64{1} << 60) - 1})
    CHECK(refused([&] { (void)zeros({n}); }));
  CHECK(refused([&] { (void)pad(counting({3}), {i64{1} << 60, 0}); }));
  CHECK(refused([&] { (void)repeat_interleave(counting({2, 2}), kLarge); }));
  CHECK(refused([&] { (void)bincount(tensor({kLarge}, {.dtype = DType::i64})); }));
  CHECK(refused([&] { (void)bincount(tensor({1}, {.dtype = DType::i64}), i64{1} << 59); }));
  CHECK(refused([&] { (void)one_hot(tensor({i64{1} << 45}, {.dtype = DType::i64})); }));
  CHECK_FALSE(refused([&] { (void)empty({i64{1} << 58}, {.device = Device::meta()}); }));
  CHECK(embedding_backward(zeros({2, 0}), tensor({0, 1}), kLarge).shape() == Shape{kLarge, 0});
  CHECK(mentions(message_of([&] {
                   (void)zeros({i64{1} << 60, 1}, {.dtype = DType::u8});
                 }),
                 "asked for 1048576 TiB on cpu, more than any memory has"));
}

TEST_CASE("allocation: tests can make it fail by size", "[wall][extreme]") {
  memory::fail_requests_above(1000);
  CHECK_THROWS_AS((void)zeros({1000}), OutOfMemory);
  CHECK_NOTHROW((void)zeros({250}));
  memory::fail_requests_above(0);
  CHECK_NOTHROW((void)zeros({1000}));
}

TEST_CASE("resize: an axis of any size beside one of none", "[wall][extreme]") {
  const Tensor none = zeros({1, 0, kMost}).set_requires_grad();
  const Tensor y = resize_axis(none, 2, 3);
  CHECK(y.shape() == Shape{1, 0, 3});
  y.sum().backward();
  CHECK(none.grad().shape() == Shape{1, 0, kMost});
  CHECK(resize_axis(zeros({0, 2}), 1, kMost).shape() == Shape{0, kMost});
  // A scale so small that its inverse is no number.
  for (const ResizeMode mode : {ResizeMode::nearest, ResizeMode::linear})
    CHECK(resize_axis(counting({4}), 0, 3, {.mode = mode, .scale = 1e-320}).to_vector<float>()[2] ==
          3);
}

TEST_CASE("embedding_backward, chunk, rotary_embedding: numbers out of range", "[wall][extreme]") {
  const Tensor g = counting({2, 3}), at = zeros({2}, {.dtype = DType::i64});
  CHECK_THROWS_AS((void)embedding_backward(g, at, -1), ShapeError);
  CHECK_THROWS_AS((void)embedding_backward(g.to(DType::i8), at, 2), DtypeError);
  CHECK_THROWS_AS((void)chunk(zeros({0, 3}), kMost), ShapeError);
  CHECK(chunk(zeros({0, 3}), 2).size() == 2);
  CHECK(rotary_embedding(ones({2, 4}), {.offset = kMost}).shape() == Shape{2, 4});
}

TEST_CASE("group_norm: places without elements", "[wall][extreme]") {
  for (const Shape& shape : {Shape{5, 4, 3, 0, 1}, Shape{5, 4, 0, 3}, Shape{5, 4, 2, 0, 3}}) {
    const Tensor x = ones(shape, {.dtype = f64}).set_requires_grad();
    const Tensor w = ones({4}, {.dtype = f64}).set_requires_grad();
    const Tensor b = zeros({4}, {.dtype = f64}).set_requires_grad();
    group_norm(x, 2, {.weight = w, .bias = b}).sum().backward();
    CHECK(values(w.grad()) == Values(4, 0));
    CHECK(values(b.grad()) == Values(4, 0));
    CHECK(x.grad().shape() == shape);
  }
}

TEST_CASE("slice: gradients of one element, whatever the step", "[wall][extreme]") {
  const Tensor x = counting({4, 3}).set_requires_grad();
  const Tensor y = x * 2;
  (y[{Slice{1, 2, kMost}}].sum() + y[{Slice{1, 3, kMost}}].sum()).backward();
  CHECK(values(x.grad()) == Values{0, 0, 0, 4, 4, 4, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("pad, diag_embed: what is empty lies nowhere, however wide its border",
          "[wall][extreme]") {
  const i64 wide = i64{1} << 62;
  const Tensor x = zeros({0, 3}, {.dtype = f64}).set_requires_grad();
  const Tensor y = pad(x, {wide, 7});
  CHECK(y.shape() == Shape{0, wide + 10});
  CHECK(grad(y.sum(), x).shape() == x.shape());
  const i64 side = 3'000'000'000;  // squared it fits 64 bits, in bytes it does not
  CHECK(diag_embed(zeros({0, 3}), side).shape() == Shape{0, side + 3, side + 3});
  CHECK(diag_embed(zeros({0, 3}), -side).shape() == Shape{0, side + 3, side + 3});
}

TEST_CASE("layer_norm: rows without elements have any strides", "[wall][extreme]") {
  const Tensor x = zeros({2, 3, 5}).slice(2, {0, 0}).transpose(0, 1);
  CHECK(layer_norm(x, {2, 0}).shape() == Shape{3, 2, 0});
}

TEST_CASE("index_put_: an expanded tensor is refused, with a list of indices too",
          "[wall][extreme]") {
  Tensor x = zeros({1}).expand({3});
  const Tensor at = tensor({0, 2}, {.dtype = DType::i64});
  CHECK_THROWS_AS((void)x.index_put_({at}, ones({2})), InplaceError);
  CHECK(values(x) == Values{0, 0, 0});
  Tensor f8 = zeros({3}, {.dtype = DType::f8_e4m3});
  CHECK_THROWS_AS((void)f8.index_put_({at}, ones({2}), {.accumulate = true}), DtypeError);
}
