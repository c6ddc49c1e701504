// Views and the copies that go with them: what is shared, in which order, and what is refused.
// Values of every layout, device and derivative: tests/op_cases/cases/cases_shape.cpp.
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/dropout.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/memory.h"
#include "warptape/core/random.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {
Tensor grid() { return arange(6).to(f64).reshape({2, 3}); }
bool shares(const Tensor& a, const Tensor& b) { return a.impl()->storage == b.impl()->storage; }
}  // namespace

TEST_CASE("Tensor: operator[] reads integers, slices and lists of them as views",
          "[wall][tensor][views]") {
  const LeakGuard guard;
  const Tensor x = grid();
  CHECK(values(x[1]) == Values{3, 4, 5});
  CHECK(values(x[-1]) == Values{3, 4, 5});
  CHECK(x[1][2].item() == 5);
  CHECK(x[{1, 2}].item() == 5);
  CHECK(x[{1, 2}].ndim() == 0);
  CHECK(values(x[{Slice{}, 1}]) == Values{1, 4});
  CHECK(values(x[{Slice{}, Slice{0, 3, 2}}]) == Values{0, 2, 3, 5});
  CHECK(values(x[{Slice{}, Slice{-2}}]) == Values{1, 2, 4, 5});
  CHECK(values(x[{Slice{1, 100}}]) == Values{3, 4, 5});  // clipped, as in Python
  CHECK(x[{Slice{2}}].shape() == Shape{0, 3});
  CHECK(x[{Slice{1, 0}}].shape() == Shape{0, 3});
  CHECK(shares(x[{1, Slice{1}}], x));
  CHECK(x[1].is_view());
  CHECK(mentions(message_of([&] { (void)x[2]; }), "index 2 is outside [-2, 2) of axis 0"));
  CHECK_THROWS_AS((void)x[-3], IndexError);
  CHECK_THROWS_AS((void)(x[{0, 0, 0}]), IndexError);
  CHECK_THROWS_AS((void)tensor(1.0)[0], IndexError);
  CHECK_THROWS_AS((void)(x[{Slice{0, 2, 0}}]), ShapeError);
}

TEST_CASE("Tensor: index_put_ writes integers and slices, and broadcasts the value",
          "[wall][tensor][views]") {
  Tensor x = grid();
  x.index_put_({1}, tensor(9.0));
  CHECK(values(x) == Values{0, 1, 2, 9, 9, 9});
  x.index_put_({Slice{}, 0}, tensor({-1, -2}));  // converted to x's dtype
  CHECK(values(x) == Values{-1, 1, 2, -2, 9, 9});
  x.index_put_({Slice{}, Slice{1}}, tensor({{7, 8}}));
  CHECK(values(x) == Values{-1, 7, 8, -2, 7, 8});
  x.index_put_({}, tensor(0));
  CHECK(values(x) == Values{0, 0, 0, 0, 0, 0});
  CHECK_THROWS_AS(x.index_put_({0}, tensor({1, 2})), ShapeError);
  CHECK_THROWS_AS(x.index_put_({5}, tensor(1)), IndexError);
  CHECK(values(x) == Values{0, 0, 0, 0, 0, 0});
  // A row that overlaps what is read from the same tensor.
  Tensor y = arange(5);
  y.index_put_({Slice{1, 5}}, y[{Slice{0, 4}}]);
  CHECK(values(y) == Values{0, 0, 1, 2, 3});
}

TEST_CASE("Tensor: copy_ of a tensor onto its own transpose reads what was there",
          "[wall][tensor][views]") {
  for (const Device d : {Device::cpu(), Device::simt()}) {
    Tensor x = tensor({{1, 2}, {3, 4}}, {.device = d});
    x.copy_(x.t());
    CHECK(values(x) == Values{1, 3, 2, 4});
  }
  Tensor repeated = zeros({1}).expand({3});
  CHECK_THROWS_AS(repeated.copy_(tensor({1.0, 2.0, 3.0})), InplaceError);
}

TEST_CASE("Tensor: views share memory and shapes follow PyTorch", "[wall][tensor][views]") {
  const LeakGuard guard;
  const Tensor x = grid();
  CHECK(values(x.transpose(0, 1)) == Values{0, 3, 1, 4, 2, 5});
  CHECK(x.transpose(0, 1).strides() == Shape{1, 3});
  CHECK(x.t().shape() == Shape{3, 2});
  CHECK(x.permute({1, 0}).strides() == Shape{1, 3});
  CHECK(x.view({3, -1}).shape() == Shape{3, 2});
  CHECK(x.flatten().shape() == Shape{6});
  CHECK(zeros({2, 3, 4, 5}).flatten(1, 2).shape() == Shape{2, 12, 5});
  CHECK(x[0].expand({4, 3}).strides() == Shape{0, 1});
  CHECK(x[0].expand({4, -1}).shape() == Shape{4, 3});
  CHECK(zeros({1, 2, 1}).squeeze().shape() == Shape{2});
  CHECK(zeros({1, 2, 1}).squeeze(0).shape() == Shape{2, 1});
  CHECK(zeros({1, 2, 1}).squeeze(1).shape() == Shape{1, 2, 1});
  CHECK(x.unsqueeze(-1).shape() == Shape{2, 3, 1});
  CHECK(x.select(1, -1).shape() == Shape{2});
  CHECK(values(x.slice(1, {1, 3})) == Values{1, 2, 4, 5});
  CHECK(values(x.narrow(1, 0, 2)) == Values{0, 1, 3, 4});
  for (const Tensor& v : {x.transpose(0, 1), x.view({6}), x.reshape({6}), x.flatten(),
                          x.permute({1, 0}), x.expand({5, 2, 3}), x.unsqueeze(0), x.select(0, 1),
                          x.slice(0, {0, 1}), x.narrow(0, 0, 1), x.detach()})
    CHECK(shares(v, x));
  CHECK_FALSE(shares(x.t().reshape({6}), x));  // no strides show it: a copy
  CHECK(values(x.t().reshape({6})) == Values{0, 3, 1, 4, 2, 5});
}

TEST_CASE("Tensor: a view of a chain of rvalues keeps one owner", "[wall][tensor][views]") {
  const LeakGuard guard;
  const Tensor v = (grid() * 2).view({3, 2}).transpose(0, 1).select(0, 0).unsqueeze(0)[0];
  CHECK(v.impl()->storage->refs.sole());
  CHECK(values(v) == Values{0, 4, 8});
  CHECK(memory::live_objects().tensors == guard.before.tensors + 1);
  Tensor w = leaf({1, 2, 3, 4});
  {
    const Tensor y = (w * 3).reshape({2, 2}).select(0, 1).slice(0, {0, 1}).squeeze(0);
    CHECK(memory::live_objects().tensors == guard.before.tensors + 3);  // v, w, y
    y.backward();
  }
  CHECK(values(w.grad()) == Values{0, 0, 3, 0});
}

TEST_CASE("Tensor: shapes that do not fit are refused with both of them", "[wall][tensor][views]") {
  const Tensor x = grid();
  CHECK(mentions(message_of([&] { (void)x.view({4}); }), "6 elements of shape [2, 3] as [4]"));
  CHECK_THROWS_AS((void)x.view({-1, -1}), ShapeError);
  CHECK_THROWS_AS((void)zeros({0}).view({0, -1}), ShapeError);
  CHECK(mentions(message_of([&] { (void)x.t().view({6}); }), "Try reshape"));
  CHECK_THROWS_AS((void)x.expand({2, 4}), ShapeError);
  CHECK_THROWS_AS((void)x.expand({3}), ShapeError);
  CHECK_THROWS_AS((void)x.permute({0, 0}), ShapeError);
  CHECK_THROWS_AS((void)x.permute({0}), ShapeError);
  CHECK_THROWS_AS((void)x.transpose(0, 2), ShapeError);
  CHECK_THROWS_AS((void)x.flatten(1, 0), ShapeError);
  CHECK_THROWS_AS((void)x.narrow(1, 2, 2), IndexError);
  CHECK_THROWS_AS((void)x.select(1, 3), IndexError);
  CHECK_THROWS_AS((void)x.squeeze(2), ShapeError);
}

TEST_CASE("Tensor: cat, stack and split", "[wall][tensor][views]") {
  const Tensor x = grid();
  CHECK(values(cat({x, x[{Slice{0, 1}}]})) == Values{0, 1, 2, 3, 4, 5, 0, 1, 2});
  CHECK(values(cat({x, tensor({9, 8}).to(f64).reshape({2, 1})}, 1)) ==
        Values{0, 1, 2, 9, 3, 4, 5, 8});
  CHECK(cat({tensor({1}), tensor({2.5})}).dtype() == f32);  // promotes
  CHECK(stack({x[0], x[1]}, 1).shape() == Shape{3, 2});
  CHECK(values(stack({x[0], x[1]}, -1)) == Values{0, 3, 1, 4, 2, 5});
  CHECK(stack({tensor(1.0), tensor(2.0)}).shape() == Shape{2});
  const std::vector<Tensor> parts = split(x, 2, 1);
  REQUIRE(parts.size() == 2);
  CHECK(values(parts[0]) == Values{0, 1, 3, 4});
  CHECK(values(parts[1]) == Values{2, 5});
  CHECK(shares(parts[1], x));
  CHECK_THROWS_AS((void)cat(std::span<const Tensor>{}), UsageError);
  CHECK(mentions(message_of([&] { (void)cat({x, x[0]}); }), "may differ only along axis 0"));
  CHECK_THROWS_AS((void)stack({x, x[0]}), ShapeError);
  CHECK_THROWS_AS((void)split(x, 0), ShapeError);
  std::vector<Tensor> many(20, x);  // more inputs than a node holds inline
  const Tensor w = leaf({1, 2});
  many.assign(20, w);
  cat(many).backward(ones({40}, {.dtype = f64}));
  CHECK(values(w.grad()) == Values{20, 20});
}

TEST_CASE("Tensor: contiguous, clone and to copy only when they must", "[wall][tensor][views]") {
  const Tensor x = grid();
  CHECK(x.contiguous().same_as(x));
  CHECK(x.to(f64).same_as(x));
  CHECK(x.to(Device::cpu()).same_as(x));
  const Tensor t = x.t().contiguous();
  CHECK(t.is_contiguous());
  CHECK(t.strides() == Shape{2, 1});
  CHECK_FALSE(shares(x.clone(), x));
  CHECK(values(x.t().clone()) == values(x.t()));
  CHECK(x.to(DType::u8).dtype() == DType::u8);
  const Tensor there = x.t().to(Device::simt());
  CHECK(there.device() == Device::simt());
  CHECK(values(there) == values(x.t()));
  CHECK_THROWS_AS((void)x.to(Device::cuda(99)), Error);
}

TEST_CASE("Layout: shapes are logical, channels_last is a stride order", "[wall][layout]") {
  const Tensor x = arange(48).to(f32).reshape({2, 3, 4, 2});
  const Tensor n = x.to(MemoryFormat::channels_last);
  CHECK(n.shape() == x.shape());
  CHECK(n.strides() == Shape{24, 1, 6, 3});
  CHECK(n.is_contiguous(MemoryFormat::channels_last));
  CHECK_FALSE(n.is_contiguous());
  CHECK(values(n) == values(x));
  CHECK(n.to(MemoryFormat::channels_last).same_as(n));
  CHECK(n.clone().strides() == n.strides());  // clone keeps the order
  CHECK(n.contiguous().strides() == x.strides());
  CHECK(values(n.flatten(1)) == values(x));  // logical order, not memory order
  CHECK(values(n[{1, 2}]) == values(x[{1, 2}]));
  CHECK(values(n + x) == values(x * 2));
  const Tensor there = n.to(Device::simt());
  CHECK(values(there) == values(x));
  CHECK_THROWS_AS((void)zeros({2, 3}).to(MemoryFormat::channels_last), ShapeError);
  // Gradients come back in logical order too.
  Tensor w = x.clone().set_requires_grad();
  const Tensor weights = arange(48).to(f32).reshape({2, 3, 4, 2});
  (w.to(MemoryFormat::channels_last) * weights).sum().backward();
  CHECK(values(w.grad()) == values(weights));
}

TEST_CASE("Layout: elementwise operators keep the order of their operand", "[wall][layout]") {
  for (const Device d : {Device::cpu(), Device::simt()}) {
    CAPTURE(to_string(d));
    const Tensor x = (arange(48).to(f32).reshape({2, 3, 4, 2}) - 20).to(d);
    const Tensor n = x.to(MemoryFormat::channels_last);
    const Tensor bias = arange(3).to(f32).reshape({1, 3, 1, 1}).to(d);
    const auto same = [&](const Tensor& in_order, const Tensor& plain) {
      CHECK(in_order.strides() == n.strides());
      CHECK(plain.strides() == x.strides());
      CHECK(values(in_order) == values(plain));
    };
    same(relu(n), relu(x));
    same(n * 2, x * 2);
    same(n + x, x + n);  // of two orders the first one counts
    same(n + bias, x + bias);
    same(bias + n, bias + x);
    same(gt(n, 0), gt(x, 0));
    manual_seed(1);
    const Tensor dropped = dropout(n, 0.5);
    manual_seed(1);
    same(dropped, dropout(x, 0.5));
    CHECK(relu(x.transpose(1, 3)).strides() == x.transpose(1, 3).strides());
    CHECK(relu(x[{Slice{}, Slice{0, 2}}]).is_contiguous());  // has gaps
    const Tensor leaf = x.clone().set_requires_grad();
    Tensor order;
    const Tensor h = leaf.to(MemoryFormat::channels_last);
    register_hook(h, [&](const Tensor& g) { return order = g, Tensor(); });
    tanh(h).sum().backward();
    CHECK(order.strides() == n.strides());
  }
}

TEST_CASE("In place: the memory of a dataset is never an operator's output", "[wall][in_place]") {
  const CategoryScope scope(Category::dataset);
  Tensor data = ones({4});
  const void* where = data.data<const float>();
  const Tensor y = relu(std::move(data));
  CHECK(y.data<const float>() != where);
}
