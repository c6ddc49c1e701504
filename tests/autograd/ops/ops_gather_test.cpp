// What the rows of gather, scatter and their kin cannot say: duplicates, threads, whole messages,
// what an error leaves alone, i32 indices, indices beyond 2^31.
#include "warptape/autograd/grad_check.h"
#include "warptape/autograd/ops/gather.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/variants.h"

using namespace wt;
using wt_test::random_values;

namespace {

using Values = std::vector<double>;
Values values(const Tensor& t) { return t.to_vector<double>(); }
Tensor numbered(const Shape& s, DType t = f32) { return arange(0, numel_of(s)).reshape(s).to(t); }
std::string headline(const std::string& text) { return text.substr(0, text.find('\n')); }
const TensorOptions kMeta{.device = Device::meta()};
const TensorOptions kMetaIndex{.dtype = DType::i64, .device = Device::meta()};

}  // namespace

TEST_CASE("gather and scatter: i32 indices, any dtype, channels last") {
  const Tensor i = tensor({{2, 0}, {1, 1}}, {.dtype = DType::i32});
  CHECK(values(gather(numbered({2, 3}), 1, i)) == Values{2, 0, 4, 4});
  for (const DType t : {DType::i16, DType::u64, DType::i8}) {  // for storage only
    CHECK(values(gather(numbered({2, 3}, t), 1, i)) == Values{2, 0, 4, 4});
    CHECK(values(scatter(numbered({2, 3}, t), 1, i, full({2, 2}, 9, {.dtype = t}))) ==
          Values{9, 1, 9, 3, 9, 5});
  }
  CHECK(values(one_hot(tensor({1, 0}, {.dtype = DType::i32}))) == Values{0, 1, 1, 0});
  const Tensor x = numbered({2, 3, 4, 5}).to(MemoryFormat::channels_last);
  const Tensor rows = index_select(x, 2, tensor({3, 0, 3}));
  CHECK(rows.is_contiguous(MemoryFormat::channels_last));
  CHECK(values(rows) == values(index_select(x.contiguous(), 2, tensor({3, 0, 3}))));
  const Tensor added = index_add(x, 1, tensor({2, 2}), ones({2, 2, 4, 5}));
  CHECK(added.is_contiguous(MemoryFormat::channels_last));
  CHECK(values(added) == values(index_add(x.contiguous(), 1, tensor({2, 2}), ones({2, 2, 4, 5}))));
}

TEST_CASE("scatter: of equal indices the last one counts, and it alone gets the gradient") {
  Tensor x = zeros({2, 3}, {.dtype = f64, .requires_grad = true});
  Tensor source = numbered({2, 4}, f64).set_requires_grad();
  const Tensor i = tensor({{1, 1, 0, 1}, {2, 2, 2, 2}});
  const Tensor y = scatter(x, 1, i, source);
  CHECK(values(y) == Values{2, 3, 0, 0, 0, 7});
  y.backward(tensor({{1, 2, 3}, {4, 5, 6}}, {.dtype = f64}));
  CHECK(values(x.grad()) == Values{0, 0, 3, 4, 5, 0});
  CHECK(values(source.grad()) == Values{0, 0, 1, 2, 0, 0, 0, 6});
}

TEST_CASE("scatter_add, index_add: equal bits whatever the number of threads") {
  const i64 n = 40000, rows = 37;
  std::vector<i64> at;
  for (i64 k = 0; k < n; ++k) at.push_back((k * k + 11 * k) % rows);
  const Tensor i = tensor(at);
  for (const DType t : {f32, f64, bf16}) {
    CAPTURE(dtype_name(t));
    const Tensor wide = tensor(random_values(n * 5, 3)).to(t).reshape({n, 5});
    const Tensor tall = tensor(random_values(n * 5, 4)).to(t).reshape({5, n});
    const Tensor zero = zeros({rows, 5}, {.dtype = t});
    std::vector<Values> first;
    const int threads = num_threads();
    for (const int k : {1, 2, 3, 7}) {
      set_num_threads(k);
      const std::vector<Values> now{
          values(index_add(zero, 0, i, wide)), values(index_add(zero.t(), 1, i, tall)),
          values(scatter_add(zero.t().contiguous(), 1, i.expand({5, n}), tall)),
          values(index_select(wide, 0, i)), values(gather(tall, 1, i.expand({5, n})))};
      if (first.empty()) first = now;
      CHECK(now == first);
    }
    set_num_threads(threads);
    // Both orders of the loops add in the order of the index.
    CHECK(first[1] == first[2]);
    CHECK(values(index_add(zero, 0, i, tall.t())) == values(index_add(zero.t(), 1, i, tall).t()));
  }
  // 16-bit sums are rounded once: in f16 2048 + 1 is 2048.
  const Tensor big = tensor({2048.0, 1.0, 1.0, 1.0, 1.0}, {.dtype = f16});
  CHECK(values(index_add(zeros({1}, {.dtype = f16}), 0, zeros({5}, {.dtype = DType::i64}), big)) ==
        Values{2052});
  // Integers wrap.
  CHECK(values(scatter_add(full({1}, 250, {.dtype = DType::u8}), 0, tensor({0, 0}),
                           full({2}, 4, {.dtype = DType::u8}))) == Values{2});
}

TEST_CASE("gather and kin: a bad index is named with its place, and nothing is written") {
  const memory::LiveObjects before = memory::live_objects();
  {
    const Tensor x = numbered({4, 20});
    Tensor i = zeros({4, 20}, {.dtype = DType::i64});
    i.index_put_({3, 17}, tensor(50));
    CHECK(headline(message_of([&] { (void)gather(x, 1, i); })) ==
          "IndexError: [gather] index 50 at [3, 17] is outside [0, 20)");
    CHECK(headline(message_of([&] { (void)scatter(x, 1, i.t().contiguous().t(), x); })) ==
          "IndexError: [scatter] index 50 at [3, 17] is outside [0, 20)");
    CHECK(headline(message_of([&] { (void)scatter_add(x, 0, i, x); })) ==
          "IndexError: [scatter_add] index 50 at [3, 17] is outside [0, 4)");
    // An expanded index is read once; the first place where it shows is named.
    const Tensor row = tensor({0, 1, -2}).expand({4, 3});
    CHECK(headline(message_of([&] { (void)gather(x, 1, row); })) ==
          "IndexError: [gather] index -2 at [0, 2] is outside [0, 20)");
    CHECK(headline(message_of([&] {
            (void)gather(x, 1, tensor({0, 1, 70}).reshape({3, 1}).expand({3, 5}));
          })) == "IndexError: [gather] index 70 at [2, 0] is outside [0, 20)");
    CHECK(headline(message_of([&] {
            (void)index_select(x, 1, tensor({3, 20, 99}));
          })) == "IndexError: [index_select] index 20 at position 1 is outside [0, 20)");
    CHECK(headline(message_of([&] { (void)index_select(x, 0, tensor(-1)); })) ==
          "IndexError: [index_select] index -1 is outside [0, 4)");
    CHECK(headline(message_of([&] {
            (void)index_add(x, 0, tensor({0, 9}), numbered({2, 20}));
          })) == "IndexError: [index_add] index 9 at position 1 is outside [0, 4)");
    CHECK(headline(message_of([&] {
            (void)one_hot(tensor({{0, 1}, {7, 2}}), 3);
          })) == "IndexError: [one_hot] class 7 at [1, 0] is outside [0, 3)");

    // The dying operand, in whose storage the result would have been, is untouched.
    Tensor mine = numbered({3});
    const float* data = mine.data<float>();
    CHECK_THROWS_AS((void)scatter(std::move(mine), 0, tensor({0, 3}), full({2}, 9.0)), IndexError);
    CHECK(values(mine) == Values{0, 1, 2});
    const Tensor good = tensor({0, 2}), nine = full({2}, 9.0);
    const Tensor y = scatter(std::move(mine), 0, good, nine);
    CHECK(y.data<float>() == data);
    CHECK(values(y) == Values{9, 1, 9});
    CHECK(!mine.defined());
  }
  CHECK(memory::live_objects() == before);
}

TEST_CASE("scatter: x, index and source may be one tensor, or views of one") {
  const Tensor i = tensor({2, 0, 1});
  CHECK(values(scatter(i, 0, i, i)) == Values{0, 1, 2});
  CHECK(values(scatter_add(i, 0, i, i)) == Values{2, 1, 3});
  Tensor x = tensor({1, 0, 2});
  const Tensor same = x;
  CHECK(values(scatter(std::move(x), 0, same, same)) == Values{0, 1, 2});
  CHECK(values(same) == Values{1, 0, 2});
  const Tensor block = tensor({{2, 5, 6}, {0, 7, 8}});
  CHECK(values(scatter(block, 1, block.slice(1, {0, 1}), block.slice(1, {1, 3}))) ==
        Values{2, 5, 5, 7, 7, 8});
}

TEST_CASE("gather: the second derivative through both directions") {
  const Tensor at = tensor({{0, 2, 2}, {1, 0, 1}});
  const auto square = [&](std::span<const Tensor> in) {
    const Tensor y = gather(in[0], 1, at);
    return mul(y, y);
  };
  const auto cube = [&](std::span<const Tensor> in) {
    const Tensor y = scatter_add(mul(in[0], in[0]), 1, at, mul(in[1], in[1]));
    return mul(y, y);
  };
  const Tensor x = tensor(random_values(6, 1)).reshape({2, 3}).set_requires_grad();
  const Tensor s = tensor(random_values(6, 2)).reshape({2, 3}).set_requires_grad();
  const GradCheck one = grad_grad_check(square, {x});
  INFO(one.message);
  CHECK(one.ok);
  const GradCheck two = grad_grad_check(cube, {x, s});
  INFO(two.message);
  CHECK(two.ok);
}

TEST_CASE("gather and kin: shapes beyond 2^31 elements, on meta and in views of few") {
  const LeakGuard guard;
  const i64 live = memory::stats(Device::cpu()).live;
  const i64 huge = i64(1) << 33;
  const Tensor x = empty({huge, 3}, kMeta);
  CHECK(gather(x, 0, empty({5, 3}, kMetaIndex)).shape() == Shape{5, 3});
  CHECK(scatter(x, 0, empty({5, 3}, kMetaIndex), 1.5).shape() == x.shape());
  CHECK(index_select(x, 1, empty({huge / 64}, kMetaIndex)).shape() == Shape{huge, huge / 64});
  CHECK(index_add(x, 0, empty({2}, kMetaIndex), empty({2, 3}, kMeta)).shape() == x.shape());
  CHECK(one_hot(empty({huge}, kMetaIndex), 10).shape() == Shape{huge, 10});
  CHECK_THROWS_AS((void)one_hot(empty({2}, kMetaIndex)), UsageError);
  CHECK_THROWS_AS((void)index_select(x, 1, empty({i64(1) << 31}, kMetaIndex)), ShapeError);
  CHECK(memory::stats(Device::cpu()).live == live);

  // An axis of 2^40 logical elements, of which few are read: 3 numbers, and windows of them.
  const i64 far = i64(1) << 40;
  const Tensor wide = expand(numbered({3, 1}), {3, far});
  CHECK(values(gather(wide, 1, tensor({{far - 1, 0}, {i64(1) << 31, 1}, {far / 2, far - 1}}))) ==
        Values{0, 0, 1, 1, 2, 2});
  CHECK(values(index_select(wide.t(), 0, tensor({far - 1, i64(1) << 32}))) ==
        Values{0, 1, 2, 0, 1, 2});
  CHECK(mentions(message_of([&] {
                   (void)gather(wide, 1, full({1, 1}, far));
                 }),
                 "[gather] index 1099511627776 at [0, 0] is outside [0, 1099511627776)"));
  // The other axes may be as long when the index is short there.
  CHECK(values(gather(expand(numbered({1, 3}), {far, 3}), 1, tensor({{2, 1}}))) == Values{2, 1});
}

TEST_CASE("masks: values of a wider kind are refused, NaN stays outside of the gradient") {
  Tensor x = tensor({1.0, NAN, 3.0}, {.dtype = f64}).set_requires_grad();
  const Tensor y = masked_fill(x, isnan(x.detach()), 0);
  CHECK(values(y) == Values{1, 0, 3});
  y.backward(full({3}, 2.0, {.dtype = f64}));
  CHECK(values(x.grad()) == Values{2, 0, 2});
  CHECK(masked_fill(ones({2}, {.dtype = f16}), tensor({true, false}), 7).dtype() == f16);
  CHECK(masked_fill(ones({2}, {.dtype = f16}), tensor({true, false}), tensor(7.0)).dtype() == f16);
  CHECK(masked_fill(ones({2}, {.dtype = DType::i32}), tensor({true, false}), true).dtype() ==
        DType::i32);
  // What would be infinite or wrap is refused; infinities are what was meant.
  const Tensor mask = tensor({true, false});
  CHECK(mentions(message_of([&] { (void)masked_fill(ones({2}, {.dtype = f16}), mask, -1e9); }),
                 "[masked_fill] f16 cannot hold -1e+09"));
  CHECK_THROWS_AS(masked_fill(ones({2}, {.dtype = DType::u8}), mask, 300), DtypeError);
  CHECK_THROWS_AS(ones({2}, {.dtype = DType::i32}).masked_fill(mask, i64{1} << 31), DtypeError);
  CHECK(values(masked_fill(ones({2}, {.dtype = f16}), mask, -INFINITY)) == Values{-INFINITY, 1});
  CHECK(values(masked_fill(ones({2}, {.dtype = bf16}), mask, -1e9))[0] < -0.99e9);
  CHECK(values(nonzero(tensor({{0.0, NAN}, {-0.0, 1.0}}))) == Values{0, 1, 1, 1});
  CHECK(nonzero(zeros({3, 2})).shape() == Shape{0, 2});
  CHECK(nonzero(ones({})).shape() == Shape{1, 0});
}
