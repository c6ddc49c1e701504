// What the rows of the rearranging operators cannot say: convolution by windows, views that share
// and views that overlap, memory order, indices beyond 2^31, what is left alone.
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/arrange.h"
#include "warptape/autograd/ops/conv.h"
#include "warptape/autograd/ops/diagonal.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pad.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"
#include "warptape/tests/support/variants.h"

using namespace wt;
using wt_test::operator_devices;
using wt_test::random_values;

namespace {

Tensor numbered(const Shape& s, DType t = f32) { return arange(0, numel_of(s)).reshape(s).to(t); }
Tensor random_leaf(const Shape& s, u64 seed) {
  return tensor(random_values(numel_of(s), seed)).reshape(s).set_requires_grad();
}
const TensorOptions kMeta{.device = Device::meta()};

}  // namespace

TEST_CASE("unfold: a convolution as a product with the windows, both gradients") {
  const i64 n = 2, c = 3, h = 7, w = 6, filters = 4, k = 3, step = 2;
  const i64 oh = (h - k) / step + 1, ow = (w - k) / step + 1;
  const Tensor x = random_leaf({n, c, h, w}, 1), f = random_leaf({filters, c, k, k}, 2);
  // [n, c, oh, ow, k, k] -> a row a place, a column an element of the filter.
  const Tensor rows = unfold(unfold(x, 2, k, step), 3, k, step)
                          .permute({0, 2, 3, 1, 4, 5})
                          .reshape({n * oh * ow, c * k * k});
  const Tensor y = matmul(rows, f.reshape({filters, c * k * k}).t());
  const Tensor gy = tensor(random_values(y.numel(), 3)).reshape(y.shape());
  const std::vector<Tensor> g = grads({y}, {x, f}, {.grad_outputs = {gy}});

  const Values xv = values(x), fv = values(f), yv = values(y), gv = values(gy);
  Values want(yv.size()), gx(xv.size()), gf(fv.size());
  for (i64 b = 0; b < n; ++b)
    for (i64 i = 0; i < oh; ++i)
      for (i64 j = 0; j < ow; ++j)
        for (i64 o = 0; o < filters; ++o) {
          const size_t to = size_t(((b * oh + i) * ow + j) * filters + o);
          for (i64 e = 0; e < c * k * k; ++e) {
            const i64 ch = e / (k * k), di = e / k % k, dj = e % k;
            const size_t from = size_t(((b * c + ch) * h + i * step + di) * w + j * step + dj);
            const size_t weight = size_t(o * c * k * k + e);
            want[to] += xv[from] * fv[weight];
            gx[from] += gv[to] * fv[weight];
            gf[weight] += gv[to] * xv[from];
          }
        }
  const auto check = [](const Values& got, const Values& expected) {
    REQUIRE(got.size() == expected.size());
    for (size_t i = 0; i < got.size(); ++i) CHECK(std::fabs(got[i] - expected[i]) < 1e-13);
  };
  // The same as conv2d, with its gradients.
  const Tensor direct = conv2d(x, f, {.stride = step});
  const Tensor places = direct.permute({0, 2, 3, 1}).reshape(y.shape());
  const std::vector<Tensor> of_direct = grads({places}, {x, f}, {.grad_outputs = {gy}});
  check(values(places), want);
  check(values(of_direct[0]), gx);
  check(values(of_direct[1]), gf);

  check(yv, want);
  check(values(g[0]), gx);
  check(values(g[1]), gf);
}

TEST_CASE("unfold: is a view of x, windows of windows too") {
  const Tensor x = numbered({2, 6});
  const Tensor y = unfold(x, 1, 3, 1);
  CHECK(y.is_view());
  CHECK(y.data<float>() == x.data<float>());
  CHECK(y.strides() == Shape{6, 1, 1});
  CHECK(unfold(x, 1, 3, 2).strides() == Shape{6, 2, 1});
  CHECK(values(unfold(y, 1, 2, 2)[1][0][2]) == Values{8, 9});
  Tensor z = numbered({4});
  const Tensor window = unfold(z, 0, 2, 1);
  z.fill_(5);
  CHECK(values(window) == Values{5, 5, 5, 5, 5, 5});
}

TEST_CASE("members: unfold, flip, masked_fill") {
  Tensor x = numbered({2, 3});
  CHECK(values(x.unfold(1, 2, 1)) == Values{0, 1, 1, 2, 3, 4, 4, 5});
  CHECK(values(x.flip({0, 1})) == Values{5, 4, 3, 2, 1, 0});
  CHECK(values(x.masked_fill(gt(x, 3), -1)) == Values{0, 1, 2, 3, -1, -1});
  const int line = __LINE__ + 1;
  const std::string text = message_of([&] { (void)x.flip(2); });
  CHECK(mentions(text, str("ops_arrange_test.cpp:", line)));
  CHECK(mentions(message_of([&] { (void)x.masked_fill(x, 1); }), "ops_arrange_test.cpp:"));
  const float* data = x.data<float>();
  CHECK(std::move(x).unfold(0, 2, 1).data<float>() == data);
  CHECK(!x.defined());
}

TEST_CASE("slice_scatter: a step that is too large to multiply") {
  const Tensor x = numbered({3, 4});
  CHECK(values(slice_scatter(x, full({3, 1}, 9.0), 1, {1, 4, INT64_MAX})) ==
        Values{0, 9, 2, 3, 4, 9, 6, 7, 8, 9, 10, 11});
}

TEST_CASE("unfold: windows that overlap are not written in place") {
  const Tensor x = numbered({7});
  Tensor over = unfold(x, 0, 3, 2);
  CHECK(mentions(message_of([&] { over.mul_(2); }),
                 "[mul_] several elements of the tensor share one place in memory (unfold)"));
  CHECK_THROWS_AS(over.copy_(ones({3, 3})), InplaceError);
  CHECK(values(x) == values(numbered({7})));
  Tensor apart = unfold(x, 0, 2, 3);
  apart.mul_(2);
  CHECK(values(x) == Values{0, 2, 2, 6, 8, 5, 6});
  Tensor d = diagonal(x.reshape({7, 1}).expand({7, 1}));
  CHECK_NOTHROW(d.mul_(1));
}

TEST_CASE("unfold: what is shown k times gets the sum of k gradients, equal bits every time") {
  for (const Device d : operator_devices()) {
    for (const DType t : {f64, f32, f16, bf16}) {
      CAPTURE(to_string(d), dtype_name(t));
      Tensor x = ones({5}, {.dtype = t, .device = d, .requires_grad = true});
      unfold(x, 0, 3, 1).backward(ones({3, 3}, {.dtype = t, .device = d}));
      CHECK(values(x.grad()) == Values{1, 2, 3, 2, 1});
    }
    // 16-bit sums are not rounded on the way: 2048 + 1 is 2048 in f16.
    Tensor h = zeros({1}, {.dtype = f16, .device = d, .requires_grad = true});
    const Tensor g = tensor({2048.0, 1.0, 1.0, 1.0, 1.0}, {.dtype = f16, .device = d});
    unfold(expand(h, {5}), 0, 5, 1).backward(g.reshape({1, 5}));
    CHECK(values(h.grad()) == Values{2052});
  }

  // Large enough for threads, which share the rows here and the columns there.
  const Tensor big = tensor(random_values(64 * 65 * 70, 5)).to(f32).reshape({64, 65, 70});
  const Tensor tall = tensor(random_values(65 * 900 * 7, 6)).to(f32).reshape({65, 900, 7});
  const auto both = [&] {
    Values v = values(unfold_backward(big, {64, 134}, 1, 70, 1));
    const Values w = values(unfold_backward(tall, {71, 900}, 0, 7, 1));
    v.insert(v.end(), w.begin(), w.end());
    return v;
  };
  const Values first = both();
  const int threads = num_threads();
  for (const int n : {1, 2, 5}) {
    set_num_threads(n);
    CHECK(both() == first);
  }
  set_num_threads(threads);
}

TEST_CASE("pad, flip, slice_scatter: the order of the axes in memory is kept") {
  const Tensor x = numbered({2, 3, 4, 5}).to(MemoryFormat::channels_last);
  for (const Tensor& y :
       {pad(x, {1, 2, 0, 1}), flip(x, {1, 3}), slice_scatter(x, zeros({2, 3, 1, 5}), 2, {1, 2})})
    CHECK(y.is_contiguous(MemoryFormat::channels_last));
  CHECK(values(pad(x, {1, 2, 0, 1})) == values(pad(x.contiguous(), {1, 2, 0, 1})));
  CHECK(values(flip(x, {1, 3})) == values(flip(x.contiguous(), {1, 3})));
}

TEST_CASE("tril, triu: what is left out is zero, NaN or not, and NaN gets no gradient") {
  Tensor x = full({3, 3}, NAN, {.dtype = f64}).set_requires_grad();
  const Tensor y = tril(x, -1);
  CHECK(values(y[0]) == Values{0, 0, 0});
  CHECK(std::isnan(values(y[2])[0]));
  y.backward(ones({3, 3}, {.dtype = f64}));
  CHECK(values(x.grad()) == Values{0, 0, 0, 1, 0, 0, 1, 1, 0});
  CHECK(values(triu(full({2, 2}, INFINITY))) == Values{INFINITY, INFINITY, 0, INFINITY});
  CHECK(values(tril(ones({2, 2}), INT64_MAX)) == Values{1, 1, 1, 1});
  CHECK(values(triu(ones({2, 2}), INT64_MIN)) == Values{1, 1, 1, 1});
}

TEST_CASE("copies are the user's own: none of them is a view of the operand") {
  const Tensor x = numbered({1, 3});
  for (const Tensor& y :
       {repeat(x, {1, 1}), repeat_interleave(x, 1, 0), repeat(numbered({1}), {4}), roll(x, 0, 1),
        flip(x, 0), diag(numbered({3, 3})), pad(x, {0, 0}), pad(x, {0, 0}, {PadMode::reflect}),
        roll(x, {3}, {1}), repeat_interleave(x, 1)}) {
    CHECK(!y.is_view());
    Tensor z = y;
    z.fill_(7);
  }
  CHECK(values(x) == Values{0, 1, 2});
}

TEST_CASE("slice_scatter: works in a dying operand's storage, and never in the source's") {
  Tensor x = numbered({4});
  const float* data = x.data<float>();
  const Tensor y = slice_scatter(std::move(x), ones({2}), 0, {1, 3});
  CHECK(y.data<float>() == data);
  CHECK(values(y) == Values{0, 1, 1, 3});
  CHECK(!x.defined());
  Tensor a = numbered({3});
  CHECK(values(slice_scatter(a, full({3}, 9.0), 0, {})) == Values{9, 9, 9});
  CHECK(values(slice_scatter(numbered({3}), full({3}, 9.0), 0, {})) == Values{9, 9, 9});
  Tensor b = numbered({3});
  const std::string text = message_of([&] { (void)slice_scatter(std::move(b), ones({2}), 0, {}); });
  CHECK(mentions(text,
                 "ShapeError: [slice_scatter] the source must have the shape of the slice, "
                 "[3]\n  operand 0: [3] f32 cpu\n  operand 1: [2] f32 cpu\n  at "));
  CHECK(values(b) == Values{0, 1, 2});
}

TEST_CASE("arrange: sizes beyond 2^31 elements, on meta and in views of few") {
  const LeakGuard guard;
  const i64 live = memory::stats(Device::cpu()).live;
  const i64 huge = i64(1) << 33;
  const Tensor x = empty({huge, 3}, kMeta);
  CHECK(unfold(x, 0, 5, 2).shape() == Shape{(huge - 5) / 2 + 1, 3, 5});
  CHECK(unfold_backward(empty({huge - 4, 3, 5}, kMeta), {huge, 3}, 0, 5, 1).shape() == x.shape());
  CHECK(flip(x, 0).shape() == x.shape());
  CHECK(roll(x, huge + 1, 0).shape() == x.shape());
  CHECK(repeat(x, {2, 3}).shape() == Shape{2 * huge, 9});
  CHECK(repeat_interleave(x, 3).shape() == Shape{9 * huge});
  CHECK(pad(x, {1, 1, huge, 0}).shape() == Shape{2 * huge, 5});
  CHECK(pad(x, {1, 1}, {PadMode::reflect}).shape() == Shape{huge, 5});
  CHECK(tril(x).shape() == x.shape());
  CHECK(diagonal(expand(empty({1, 1}, kMeta), {huge, huge / 32})).shape() == Shape{huge / 32});
  CHECK(slice_scatter(x, empty({huge - 1, 3}, kMeta), 0, {1}).shape() == x.shape());
  CHECK(chunk(x, 3, 0)[2].shape() == Shape{huge - 2 * ((huge - 1) / 3 + 1), 3});
  CHECK(memory::stats(Device::cpu()).live == live);

  // 2^40 elements that are three: what lies far away is found.
  const Tensor wide = expand(numbered({1, 3}), {i64(1) << 40, 3});
  const Tensor far = unfold(wide, 0, i64(1) << 39, i64(1) << 39);
  CHECK(far.shape() == Shape{2, 3, i64(1) << 39});
  CHECK(values(slice(far, 2, {(i64(1) << 39) - 2})[1]) == Values{0, 0, 1, 1, 2, 2});
  CHECK(values(slice(diagonal(expand(numbered({1}), {i64(1) << 30, i64(1) << 32}), i64(1) << 31), 0,
                     {(i64(1) << 30) - 2})) == Values{0, 0});
  // Strides whose products pass 2^31: element (i, j) of the view is i * 2^31 + j of the storage.
  CHECK(unfold(empty({i64(1) << 36}, kMeta), 0, i64(1) << 20, i64(1) << 31).shape() ==
        Shape{32, i64(1) << 20});
}

TEST_CASE("composites: errors bear the operator's name and the user's line") {
  const Tensor x = ones({2, 3});
  const int line = __LINE__ + 1;
  const std::string text = message_of([&] { (void)roll(x, {1, 2}, 0); });
  CHECK(text.substr(0, text.find("\n  at")) ==
        "ShapeError: [roll] shifts and dims must name equally many axes, got 2 and 1\n"
        "  operand 0: [2, 3] f32 cpu");
  CHECK(mentions(text, str("ops_arrange_test.cpp:", line)));
  Tensor leaf = ones({2, 3}, {.requires_grad = true});
  const Tensor y = repeat(leaf, {2, 2});  // its node bears this line
  CHECK(y.requires_grad());
}
