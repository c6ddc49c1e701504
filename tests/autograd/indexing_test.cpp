// Tensors as indices: reads against plain loops, gradients, writes, bad indices on every device.
#include <numeric>

#include "warptape/autograd/grad_check.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/mailbox.h"
#include "warptape/kernels/index.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/variants.h"

using namespace wt;
using wt_test::kernel_devices;

namespace {

using Values = std::vector<double>;
Values values(const Tensor& t) { return t.to_vector<double>(); }
// 0, 1, 2, ..: an element's value is its place.
Tensor numbered(const Shape& s, Device d, DType t = f32) {
  return arange(0, numel_of(s)).reshape(s).to(t).to(d);
}
Tensor list(std::initializer_list<Scalar> v, Device d) {
  return tensor(v, {.dtype = DType::i64}).to(d);
}
// Throws what a device reports late.
void wait(Device d) { check_mailbox(d); }

}  // namespace

TEST_CASE("index: one tensor, on each axis, negative indices, i32, any dtype") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    (void)mailbox_of(d);
    const LeakGuard guard;
    const Tensor i = list({2, 0, -1}, d);
    for (const DType t : {f64, f32, f16, bf16, DType::i64, DType::i32, DType::u8}) {
      CAPTURE(dtype_name(t));
      const Tensor x = numbered({3, 4}, d, t);
      const Tensor rows = x[{i}];
      CHECK(rows.dtype() == t);
      CHECK(rows.shape() == Shape{3, 4});
      CHECK(values(rows) == Values{8, 9, 10, 11, 0, 1, 2, 3, 8, 9, 10, 11});
      const Tensor columns = x[{Slice{}, i}];
      CHECK(columns.shape() == Shape{3, 3});
      CHECK(values(columns) == Values{2, 0, 3, 6, 4, 7, 10, 8, 11});
    }
    const Tensor x = numbered({3, 4}, d);
    CHECK(values(x[{i.to(DType::i32)}]) == values(x[{i}]));
    CHECK(values(x.t()[{i}]) == Values{2, 6, 10, 0, 4, 8, 3, 7, 11});
    CHECK(x[{list({}, d)}].shape() == Shape{0, 4});
    const Tensor one = x[{tensor(i64(1)).to(d)}];
    CHECK(one.shape() == Shape{4});
    CHECK(values(one) == Values{4, 5, 6, 7});
    CHECK(ne(eq(numbered({3, 4}, d), 5)[{i}].to(f32), 0).shape() == Shape{3, 4});
  }
}

TEST_CASE("index: several tensors broadcast, beside each other or not, among integers and slices") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    (void)mailbox_of(d);
    const LeakGuard guard;
    const Tensor x = numbered({2, 3, 4, 5}, d);
    const auto value = [](i64 a, i64 b, i64 c, i64 e) {
      return double(((a * 3 + b) * 4 + c) * 5 + e);
    };
    const Tensor i = list({1, 0}, d), j = list({3, 1, -4}, d).reshape({3, 1});
    const i64 in[2] = {1, 0}, jn[3] = {3, 1, 0};
    // Neighbours: their place.
    const Tensor near = x[{Slice{}, i, j}];
    REQUIRE(near.shape() == Shape{2, 3, 2, 5});
    Values want;
    for (i64 a = 0; a < 2; ++a)
      for (const i64 c : jn)
        for (const i64 b : in)
          for (i64 e = 0; e < 5; ++e) want.push_back(value(a, b, c, e));
    CHECK(values(near) == want);
    // Apart: in front.
    const Tensor apart = x[{i, Slice{1, 3}, j}];
    REQUIRE(apart.shape() == Shape{3, 2, 2, 5});
    want.clear();
    for (const i64 c : jn)
      for (const i64 a : in)
        for (i64 b = 1; b < 3; ++b)
          for (i64 e = 0; e < 5; ++e) want.push_back(value(a, b, c, e));
    CHECK(values(apart) == want);
    // An integer drops its axis before.
    const Tensor mixed = x[{1, Slice{0, 3, 2}, i, Slice{1, 2}}];
    REQUIRE(mixed.shape() == Shape{2, 2, 1});
    want.clear();
    for (const i64 b : {0, 2})
      for (const i64 c : in) want.push_back(value(1, b, c, 1));
    CHECK(values(mixed) == want);
    // All axes.
    CHECK(values(x[{i, i, i, i}]) == Values{value(1, 1, 1, 1), value(0, 0, 0, 0)});
  }
}

TEST_CASE("index: masks of one and of two axes") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    (void)mailbox_of(d);
    const LeakGuard guard;
    const Tensor x = numbered({3, 4}, d);
    const Tensor mask = tensor({true, false, true}).to(d);
    CHECK(values(x[{mask}]) == Values{0, 1, 2, 3, 8, 9, 10, 11});
    const Tensor big = gt(x, 6);
    const Tensor picked = x[{big}];
    CHECK(picked.shape() == Shape{5});
    CHECK(values(picked) == Values{7, 8, 9, 10, 11});
    CHECK(x[{gt(x, 99)}].shape() == Shape{0});
    CHECK(values(x[{mask, list({1, 2}, d)}]) == Values{1, 10});
  }
}

TEST_CASE("index: gradients of both orders, repeated indices included") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    (void)mailbox_of(d);
    const LeakGuard guard;
    const Tensor x = numbered({3, 4}, d, f64).set_requires_grad();
    const Tensor i = list({1, 1, 2}, d), j = list({0, 0, 3}, d);
    const Tensor g = grad(square(x[{i, j}]).sum(), x, {.create_graph = true});
    Values want(12);
    want[4] = 2 * 2 * 4, want[11] = 2 * 11;
    CHECK(values(g) == want);
    const Values h = values(grad(g.sum(), x));
    CHECK(h[4] == 4);
    CHECK(h[11] == 2);
    if (d != Device::cpu()) continue;  // where differences are taken
    const auto f = [&](std::span<const Tensor> in) {
      return square(in[0][{Slice{0, 2}, j, Slice{}}]);
    };
    const std::vector<Tensor> in{rand({3, 4, 2}, {.dtype = f64}).to(d).set_requires_grad()};
    CHECK(grad_check(f, in));
    CHECK(grad_grad_check(f, in));
  }
}

TEST_CASE("index_put_: writes, the last of equal indices counts, accumulate adds them all") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    (void)mailbox_of(d);
    const LeakGuard guard;
    const Tensor i = list({2, 0, 2}, d);
    const Tensor v = numbered({3, 2}, d);
    Tensor x = full({3, 2}, 9.0).to(d);
    x.index_put_({i}, v);
    CHECK(values(x) == Values{2, 3, 9, 9, 4, 5});
    x.index_put_({i}, v, {.accumulate = true});
    CHECK(values(x) == Values{4, 6, 9, 9, 8, 11});
    // A broadcast value, columns (strided rows), a view, a mask.
    Tensor y = zeros({2, 4}).to(d);
    y.index_put_({Slice{}, list({3, 1}, d)}, tensor({5.0}, {.dtype = f32}).to(d));
    CHECK(values(y) == Values{0, 5, 0, 5, 0, 5, 0, 5});
    y.index_put_({Slice{}, list({3, 3}, d)}, tensor({1.0}, {.dtype = f32}).to(d),
                 {.accumulate = true});
    CHECK(values(y) == Values{0, 5, 0, 7, 0, 5, 0, 7});
    y.index_put_({gt(y, 6)}, tensor(-1.0, {.dtype = f32}).to(d));
    CHECK(values(y) == Values{0, 5, 0, -1, 0, 5, 0, -1});
    Tensor z = numbered({2, 3, 4}, d);
    z.index_put_({list({1, 0}, d), Slice{1, 3}, list({0, 2}, d)}, full({2, 2}, -7.0).to(d));
    Values want(24);
    std::iota(want.begin(), want.end(), 0.0);
    for (const int k : {12 + 4, 12 + 8, 4 + 2, 8 + 2}) want[size_t(k)] = -7;
    CHECK(values(z) == want);
    // Of the tensor's own elements: what was there before the write.
    Tensor w = numbered({4}, d);
    w.index_put_({list({3, 2, 1, 0}, d)}, w);
    CHECK(values(w) == Values{3, 2, 1, 0});
    Tensor n = numbered({3}, d, DType::i64);
    n.index_put_({list({0}, d)}, list({40}, d));
    CHECK(values(n) == Values{40, 1, 2});
    CHECK_THROWS_AS(n.index_put_({list({0}, d)}, list({1}, d), {.accumulate = true}), DtypeError);
    Tensor plain = numbered({2, 2}, d);
    plain.index_put_({1}, tensor({1.0, 1.0}, {.dtype = f32}).to(d), {.accumulate = true});
    CHECK(values(plain) == Values{0, 1, 3, 4});
  }
}

TEST_CASE("index_put_: a write counts as one") {
  const Tensor w = tensor({1.0, 2.0}, {.dtype = f64, .requires_grad = true});
  Tensor x = tensor({3.0, 4.0}, {.dtype = f64});
  const Tensor y = mul(w, x);
  x.index_put_({list({0}, Device::cpu())}, tensor(9.0, {.dtype = f64}));
  CHECK(mentions(message_of([&] { y.sum().backward(); }), "modified in place"));
}

TEST_CASE(
    "index_put_: recorded, x and the value get their gradients; a view and a leaf are refused") {
  const Tensor i = list({2, 0, 2}, Device::cpu());
  const Tensor w = tensor({1.0, 2.0, 3.0}, {.dtype = f64, .requires_grad = true});
  const Tensor v = tensor({5.0, 6.0, 7.0}, {.dtype = f64, .requires_grad = true});
  Tensor h = w * 2.0;
  h.index_put_({i}, v);
  CHECK(values(h) == Values{6, 4, 7});
  (h * h).sum().backward();
  CHECK(values(w.grad()) == Values{0, 16, 0});
  CHECK(values(v.grad()) == Values{0, 12, 14});  // 5 was overwritten: no gradient
  // A value alone makes a plain tensor part of the graph.
  Tensor plain = zeros({3}, {.dtype = f64});
  plain.index_put_({i}, v, {.accumulate = true});
  CHECK(plain.requires_grad());
  Tensor leaf = w;
  CHECK(mentions(message_of([&] { leaf.index_put_({i}, v); }), "on a leaf"));
  Tensor base = w * 3.0;
  Tensor view = base[{Slice{0, 2}}];
  CHECK(mentions(message_of([&] {
                   view.index_put_({list({0}, Device::cpu())}, v[{Slice{0, 1}}]);
                 }),
                 "[index_put_] in-place operation on a view"));
  CHECK(values(base) == Values{3, 6, 9});
}

TEST_CASE("index: a bad index is an error with its bounds, memory stays safe, cpu writes nothing") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    for (const i64 bad : {3, -4, 1000000000}) {
      CAPTURE(bad);
      const Tensor i = list({0, bad, 1}, d);
      const Tensor x = numbered({3, 2}, d);
      const std::string read = message_of([&] {
        (void)x[{i}];
        wait(d);
      });
      CHECK(mentions(read, "[index] index " + std::to_string(bad)));
      if (d == Device::cpu()) {
        CHECK(mentions(read, "at [1] is outside [-3, 3)"));
        CHECK(mentions(read, "indexing_test.cpp:"));
      } else {
        CHECK(mentions(read, "at position 1 is outside [0, 3)"));
      }
      for (const bool accumulate : {false, true}) {
        Tensor y = zeros({3, 2}).to(d);
        const std::string written = message_of([&] {
          y.index_put_({i}, ones({3, 2}).to(d), {.accumulate = accumulate});
          wait(d);
        });
        CHECK(mentions(written, "[index_put_] index " + std::to_string(bad)));
        // A device writes what was right; the cpu throws before.
        CHECK(values(y) == (d == Device::cpu() ? Values(6) : Values{1, 1, 1, 1, 0, 0}));
      }
    }
    clear_mailbox(d);
  }
}

TEST_CASE("index: what does not fit is refused with the user's line") {
  const Device d = Device::cpu();
  const Tensor x = numbered({3, 4}, d), i = list({0, 1}, d);
  const auto text = [&](const std::function<void()>& f) { return message_of(f); };
  CHECK(mentions(text([&] { (void)x[{i, i, i}]; }), "too many indices"));
  CHECK(mentions(text([&] { (void)x[{ones({2})}]; }), "must be i64, i32 or bool, got f32"));
  CHECK(mentions(text([&] {
                   (void)x[{tensor({true, false})}];
                 }),
                 "the mask has size 2 where axis 0 has 3"));
  CHECK(mentions(text([&] { (void)x[{i, list({0, 1, 2}, d)}]; }), "[index]"));
  CHECK(mentions(text([&] { (void)x[{Tensor()}]; }), "undefined"));
  Tensor y = x.clone();
  CHECK(mentions(text([&] { y.index_put_({i}, ones({3, 3})); }), "does not broadcast to [2, 4]"));
  CHECK(mentions(text([&] { (void)zeros({0, 2})[{i}]; }), "is outside [0, 0)"));
  const Tensor meta = zeros({3}, {.device = Device::meta()});
  CHECK(meta[{zeros({5}, {.dtype = DType::i64, .device = Device::meta()})}].shape() == Shape{5});
  CHECK(mentions(text([&] { (void)meta[{gt(meta, 0)}]; }), "[index]"));
}

TEST_CASE("index kernels: every variant writes the same, ragged sizes, views of a table") {
  for (const Device d : kernel_devices())
    for (const DType t : {DType::u8, bf16, f32, f64})
      for (const i64 n : {0, 1, 5, 200}) {
        CAPTURE(to_string(d), dtype_name(t), n);
        std::vector<i64> r;
        for (i64 k = 0; k < n; ++k) r.push_back(k * 7 % 13 - 1);  // -1 and 11 lie outside
        const Tensor rows = tensor(r, {.dtype = DType::i64}).reshape({n}).to(d);
        std::vector<double> some;
        for (i64 k = 0; k < 3 * n; ++k) some.push_back(double(k % 50));
        const Tensor v = tensor(some).reshape({n, 3}).to(t).to(d);
        for (const bool transposed : {false, true}) {
          Values want(33, 99);
          const Values from = values(v);
          for (i64 k = 0; k < n; ++k)
            if (r[size_t(k)] >= 0 && r[size_t(k)] < 11)
              for (i64 c = 0; c < 3; ++c)
                want[size_t(r[size_t(k)] * 3 + c)] = from[size_t(k * 3 + c)];
          Tensor home = full(transposed ? Shape{3, 11} : Shape{11, 3}, 99, {.dtype = t}).to(d);
          const Tensor table = transposed ? home.t() : home;
          wt_test::for_each_variant(
              d, IndexPutArgs{wt_test::view(table), wt_test::view(rows), wt_test::view(v)}, [&] {
                CHECK(values(table) == want);
                home.fill_(99);
              });
        }
      }
}
