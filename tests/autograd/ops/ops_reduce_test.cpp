// sum, mean, argmax and sum_to as operators: shapes, dtypes, errors, derivatives, gradient slots.
#include <cmath>
#include <string>

#include "warptape/autograd/grad_check.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/tests/support/catch.h"

using namespace wt;

namespace {

using Values = std::vector<double>;

Tensor counting(const Shape& shape, const TensorOptions& o = {}) {
  return arange(numel_of(shape), {.dtype = f64}).view(shape).to(o.dtype.value_or(f32)).to(o.device);
}

Tensor leaf(const Shape& shape) {
  Values v(size_t(numel_of(shape)));
  for (size_t i = 0; i < v.size(); ++i) v[i] = std::sin(double(i) * 1.7) + 0.1;
  return tensor(v).view(shape).clone().set_requires_grad();
}

template <class E, class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "nothing was thrown";
}
bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("sum and mean over axes", "[autograd]") {
  const Device d = GENERATE(Device::cpu(), Device::simt());
  const Tensor x = counting({2, 3}, {.device = d});
  CHECK(sum(x).shape() == Shape{});
  CHECK(sum(x).item() == 15);
  CHECK(x.sum().item() == 15);
  CHECK(sum(x, 0).to_vector<double>() == Values{3, 5, 7});
  CHECK(sum(x, -1).to_vector<double>() == Values{3, 12});
  CHECK(x.sum({0, 1}, {.keep_dim = true}).shape() == Shape{1, 1});
  CHECK(sum(x, {}).to_vector<double>() == x.to_vector<double>());
  CHECK(mean(x).item() == 2.5);
  CHECK(x.mean(1, {.keep_dim = true}).shape() == Shape{2, 1});
  CHECK(x.mean(1).to_vector<double>() == Values{1, 4});
  CHECK(sum(x.t(), 0).to_vector<double>() == Values{3, 12});
  CHECK(max(x).item() == 5);
  CHECK(max(x, 0).to_vector<double>() == Values{3, 4, 5});
  CHECK(max(x, -1, {.keep_dim = true}).shape() == Shape{2, 1});
  CHECK(argmax(x).item() == 5);
  CHECK(argmax(x, 0).to_vector<i64>() == std::vector<i64>{1, 1, 1});
  CHECK(argmax(x, 1, {.keep_dim = true}).shape() == Shape{2, 1});
  CHECK(sum(empty({0, 3}, {.device = d})).item() == 0);
  CHECK(std::isnan(mean(empty({0, 3}, {.device = d})).item()));
}

TEST_CASE("sum keeps floating dtypes and counts in i64", "[autograd]") {
  for (const DType t : {DType::f64, DType::f32, DType::f16, DType::bf16})
    CHECK(sum(counting({4}, {.dtype = t})).dtype() == t);
  for (const DType t : {DType::i64, DType::i32, DType::u8, DType::boolean}) {
    const Tensor s = sum(counting({4}, {.dtype = t}));
    CHECK(s.dtype() == DType::i64);
    CHECK(s.item() == (t == DType::boolean ? 3 : 6));
  }
  // 2048 ones and more: beyond what f16 can count by ones.
  CHECK(sum(ones({5000}, {.dtype = DType::f16})).item() == 5000);
}

TEST_CASE("reductions refuse what they cannot do and name it", "[autograd]") {
  const Tensor x = counting({2, 3}), integers = counting({4}, {.dtype = DType::i32});
  CHECK(contains(message_of<ShapeError>([&] { (void)sum(x, 2); }), "[sum]"));
  CHECK(contains(message_of<ShapeError>([&] { (void)sum(x, {0, -2}); }), "named twice"));
  CHECK(contains(message_of<DtypeError>([&] { (void)mean(integers); }),
                 "[mean] the mean of i32 has no dtype"));
  CHECK(contains(message_of<DtypeError>([&] { (void)mean(integers); }), "ops_reduce_test.cpp"));
  CHECK(contains(message_of<DtypeError>([&] { (void)sum(integers.to(DType::i8)); }),
                 "i8 is for storage"));
  CHECK(contains(message_of<ShapeError>([&] { (void)argmax(x, {0, 1}); }), "one axis or all"));
  CHECK(contains(message_of<ShapeError>([&] { (void)argmax(empty({0, 3}), 0); }), "no element"));
  CHECK(contains(message_of<ShapeError>([&] { (void)max(empty({0, 3})); }), "[max] no element"));
  CHECK(max(empty({0, 3}), 1).shape() == Shape{0});
  CHECK(argmax(empty({0, 3}), 1).shape() == Shape{0});
  CHECK(contains(message_of<ShapeError>([&] {
                   (void)sum_to(x, {2, 2});
                 }),
                 "shape [2, 2] does not broadcast to [2, 3]"));
  CHECK(contains(message_of<ShapeError>([&] {
                   (void)sum_to(x, {1, 2, 3});
                 }),
                 "does not broadcast"));
}

TEST_CASE("sum_to undoes broadcasting", "[autograd]") {
  const Tensor x = counting({2, 3, 4});
  CHECK(sum_to(x, {2, 3, 4}).same_as(x));
  CHECK(sum_to(x, {3, 1}).to_vector<double>() == sum(x, {0, 2}).to_vector<double>());
  CHECK(sum_to(x, {3, 1}).shape() == Shape{3, 1});
  CHECK(sum_to(x, {}).item() == sum(x).item());
  CHECK(sum_to(x, {1, 1, 4}).to_vector<double>() == sum(x, {0, 1}).to_vector<double>());
  // An rvalue of the right shape is handed on: one owner, no copy.
  Tensor y = counting({2});
  const TensorImpl* same = y.impl();
  const Tensor z = sum_to(std::move(y), {2});
  CHECK(z.impl() == same);
  CHECK(!y.defined());  // NOLINT: that is the point
}

TEST_CASE("derivatives of reductions", "[autograd]") {
  const auto check = [](const CheckedFunction& f, std::vector<Tensor> in, bool linear) {
    const GradCheck first = grad_check(f, in);
    INFO(first.message);
    CHECK(first.ok);
    const GradCheck second = grad_grad_check(f, in, {.second_is_zero = linear});
    INFO(second.message);
    CHECK(second.ok);
  };
  const Tensor x = leaf({2, 3, 4});
  const std::vector<Dims> axes = {Dims::all(), Dims(0), Dims(1), Dims(-1), {0, 2}, {1, 2}, {}};
  for (const Dims& dims : axes)
    for (const bool keep : {false, true}) {
      INFO("axes " << dims.size() << " keep " << keep);
      const SumOptions o{.keep_dim = keep};
      check([&](auto in) { return sum(in[0], dims, o); }, {x}, true);
      check([&](auto in) { return mean(in[0], dims, o); }, {x}, true);
      check([&](auto in) { return sum(mul(in[0], in[0]), dims, o); }, {x}, false);
    }
  for (const Shape& shape : {Shape{}, Shape{4}, Shape{3, 1}, Shape{1, 3, 4}, Shape{2, 3, 4}})
    check([&](auto in) { return sum_to(in[0], shape); }, {x}, true);
  check([](auto in) { return sum(in[0].transpose(0, 2), 1); }, {x}, true);
}

TEST_CASE("max: the gradient goes to the largest, evenly among ties", "[autograd]") {
  const auto gradient = [](std::initializer_list<std::initializer_list<Scalar>> rows, const Dims& d,
                           bool keep) {
    Tensor x = tensor(rows, {.dtype = f64});
    x.set_requires_grad();
    max(x, d, {.keep_dim = keep}).sum().backward();
    return x.grad().to_vector<double>();
  };
  for (const bool keep : {false, true}) {
    CHECK(gradient({{1, 5, 2}, {7, 0, 3}}, 1, keep) == Values{0, 1, 0, 1, 0, 0});
    CHECK(gradient({{1, 5, 2}, {7, 0, 3}}, 0, keep) == Values{0, 1, 0, 1, 0, 1});
    CHECK(gradient({{7, 5, 7}, {7, 0, 7}}, Dims::all(), keep) == Values{.25, 0, .25, .25, 0, .25});
    CHECK(gradient({{2, 2, 1}, {0, 3, 3}}, 1, keep) == Values{.5, .5, 0, 0, .5, .5});
  }
  const Tensor x = leaf({2, 3, 4});
  for (const Dims& dims : {Dims::all(), Dims(0), Dims(1), Dims{0, 2}}) {
    const GradCheck first = grad_check([&](auto in) { return max(in[0], dims); }, {x});
    INFO(first.message);
    CHECK(first.ok);
    const GradCheck second =
        grad_grad_check([&](auto in) { return max(in[0], dims); }, {x}, {.second_is_zero = true});
    INFO(second.message);
    CHECK(second.ok);
  }
}

TEST_CASE("a broadcast operand's gradient goes straight into its slot",
          "[wall][engine][autograd]") {
  const Device d = GENERATE(Device::cpu(), Device::simt());
  Tensor b = zeros({3}, {.device = d});
  b.set_requires_grad();
  const auto backward = [&] { (void)b.expand({5, 3}).sum().backward(); };
  backward();
  const Tensor first = b.grad();
  CHECK(first.to_vector<double>() == Values{5, 5, 5});
  backward();  // accumulates in place
  CHECK(b.grad().same_as(first));
  CHECK(first.to_vector<double>() == Values{10, 10, 10});
  b.zero_grad();
  backward();
  CHECK(b.grad().to_vector<double>() == Values{5, 5, 5});
  // With create_graph nothing is written into slots.
  const Tensor g = grad(b.expand({5, 3}).sum(), b, {.create_graph = true});
  CHECK(g.to_vector<double>() == Values{5, 5, 5});
}

TEST_CASE("a reduction that runs out of memory changes nothing", "[wall][node][autograd]") {
  const Tensor x = leaf({20000});
  const auto before = memory::live_objects();
  for (u64 n = 1; n <= 2; ++n) {
    const u64 start = memory::request_count();
    memory::fail_nth_request(n);
    try {
      (void)sum(x);
      break;
    } catch (const OutOfMemory&) {}
    CHECK(memory::request_count() >= start);
    CHECK(memory::live_objects() == before);
  }
  memory::fail_nth_request(0);
  CHECK(memory::live_objects() == before);
}
