// Tensor: one handle to one object. Identity, ownership, versions, reading and writing.
#include "warptape/core/tensor.h"

#include <thread>

#include "warptape/autograd/node.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

TEST_CASE("Tensor: copies are the same tensor, identity is the implementation", "[wall][tensor]") {
  const LeakGuard guard;
  Tensor a = tensor({1.0, 2.0});
  const Tensor b = a;  // const is shallow: it writes all the same
  CHECK(b.same_as(a));
  CHECK(b.impl() == a.impl());
  b.mutable_data<float>()[0] = 7;
  CHECK(values(a) == Values{7, 2});
  CHECK(a.version() == b.version());
  const Tensor other = tensor({7.0, 2.0});
  CHECK_FALSE(other.same_as(a));
  a.set_requires_grad();
  CHECK(b.requires_grad());  // gradient metadata is shared too
  sum(b).backward();
  CHECK(values(a.grad()) == Values{1, 1});
  CHECK(sizeof(Tensor) == sizeof(void*));
}

TEST_CASE("Tensor: a copy that a user keeps follows the parameter to another device and back",
          "[wall][tensor]") {
  const LeakGuard guard;
  Tensor p = tensor({1.0, 2.0}), kept = p;
  const Tensor there = p.to(Device::simt());
  const u32 version = p.version();
  detail::replace_data(p.impl(), there.impl());
  CHECK(kept.same_as(p));
  CHECK(kept.device() == Device::simt());
  CHECK(kept.version() > version);
  CHECK(values(kept) == Values{1, 2});
}

TEST_CASE("Tensor: a moved-from tensor is undefined and every use throws", "[wall][tensor]") {
  Tensor a = tensor({1.0});
  const Tensor b = std::move(a);
  CHECK_FALSE(a.defined());  // NOLINT: that is the point
  Tensor other = b;
  const std::vector<std::function<void()>> uses{
      [&] { (void)a.shape(); },
      [&] { (void)a.strides(); },
      [&] { (void)a.numel(); },
      [&] { (void)a.ndim(); },
      [&] { (void)a.size(0); },
      [&] { (void)a.dtype(); },
      [&] { (void)a.device(); },
      [&] { (void)a.version(); },
      [&] { (void)a.is_view(); },
      [&] { (void)a.is_contiguous(); },
      [&] { (void)a.data<float>(); },
      [&] { (void)a.mutable_data<float>(); },
      [&] { (void)a.item(); },
      [&] { (void)a.to_vector<float>(); },
      [&] { (void)a.requires_grad(); },
      [&] { (void)a.is_leaf(); },
      [&] { (void)a.set_requires_grad(); },
      [&] { (void)a.grad(); },
      [&] { a.set_grad(b); },
      [&] { a.zero_grad(); },
      [&] { a.backward(); },
      [&] { a.backward(b); },
      [&] { (void)a.detach(); },
      [&] { (void)a[0]; },
      [&] {
        (void)a[{Slice{0, 1}}];
      },
      [&] { (void)a.view({1}); },
      [&] { (void)a.reshape({1}); },
      [&] { (void)a.flatten(); },
      [&] { (void)a.transpose(0, 0); },
      [&] { (void)a.t(); },
      [&] { (void)a.permute({0}); },
      [&] { (void)a.expand({1}); },
      [&] { (void)a.squeeze(); },
      [&] { (void)a.unsqueeze(0); },
      [&] { (void)a.select(0, 0); },
      [&] {
        (void)a.slice(0, {0, 1});
      },
      [&] { (void)a.narrow(0, 0, 1); },
      [&] { (void)a.contiguous(); },
      [&] { (void)a.clone(); },
      [&] { (void)a.to(f64); },
      [&] { (void)a.to(Device::simt()); },
      [&] { (void)a.sum(); },
      [&] { (void)a.matmul(b); },
      [&] { a.copy_(b); },
      [&] { other.copy_(a); },
      [&] { a.fill_(0); },
      [&] { a.add_(b); },
      [&] { other.add_(a); },
      [&] { a.mul_(2); },
      [&] { a.relu_(); },
      [&] { a.index_put_({0}, b); },
      [&] { other.index_put_({0}, a); },
      [&] { (void)(a + b); },
      [&] { (void)(b + a); },
      [&] { (void)relu(a); },
      [&] {
        (void)cat({b, a});
      },
      [&] {
        (void)stack({a, b});
      },
      [&] { (void)split(a, 1); },
      [&] { (void)zeros_like(a); },
  };
  for (size_t i = 0; i < uses.size(); ++i) {
    CAPTURE(i);
    CHECK_THROWS_AS(uses[i](), UsageError);
    CHECK(mentions(message_of(uses[i]), "tensor_test.cpp:"));
  }
  CHECK(values(b) == Values{1});
  a = b;  // it can be given a value again
  CHECK(a.same_as(b));
}

TEST_CASE("Tensor: one tensor is read and copied by many threads", "[wall][tensor]") {
  const LeakGuard guard;
  const Tensor shared = arange(1000).to(f64);
  double sums[4] = {};
  std::vector<std::thread> threads;
  for (double& s : sums)
    threads.emplace_back([&shared, &s] {
      for (int i = 0; i < 300; ++i) {
        const Tensor mine = shared;  // counts atomically
        const Tensor view = mine[{Slice{0, 500}}];
        s = sum(view).item() + sum(mine[{Slice{500}}]).item();
      }
    });
  for (std::thread& t : threads) t.join();
  for (const double s : sums) CHECK(s == 999 * 500);
  CHECK(shared.impl()->refs.sole());
}

TEST_CASE("Tensor: at most 8 dimensions, sizes of 64 bits", "[wall][tensor]") {
  CHECK(zeros({1, 1, 1, 1, 1, 1, 1, 2}).ndim() == 8);
  CHECK(mentions(message_of([] {
                   (void)zeros({1, 1, 1, 1, 1, 1, 1, 1, 1});
                 }),
                 "at most 8 dimensions, got 9"));
  CHECK_THROWS_AS((void)ones({1, 1, 1, 1, 1, 1, 1, 1}).unsqueeze(0), ShapeError);
  const Tensor big = empty({i64(1) << 40, 16}, {.device = Device::meta()});
  CHECK(big.numel() == i64(1) << 44);
  CHECK(big[{Slice{(i64(1) << 39) + 1}}].size(0) == (i64(1) << 39) - 1);
  CHECK_THROWS_AS((void)empty({i64(1) << 40, i64(1) << 40}, {.device = Device::meta()}),
                  ShapeError);
  // numel fits, the bytes do not
  CHECK_THROWS_AS((void)empty({i64(1) << 61}, {.dtype = f64, .device = Device::meta()}),
                  ShapeError);
  CHECK_THROWS_AS((void)zeros({2, -1}), ShapeError);
  CHECK(mentions(message_of([] { (void)zeros({2}).size(1); }), "axis 1 is outside [-1, 0]"));
}

TEST_CASE("Tensor: reading leaves the version, writing bumps it for the whole view family",
          "[wall][tensor]") {
  Tensor x = zeros({2, 3});
  const Tensor row = x[1], alias = x.detach();
  CHECK(x.version() == 0);
  (void)x.data<float>();
  (void)x.data<const float>();
  (void)values(x);
  CHECK(x.version() == 0);
  row.mutable_data<float>()[0] = 5;
  CHECK(x.version() == 1);
  CHECK(row.version() == 1);
  CHECK(alias.version() == 1);
  CHECK(values(x) == Values{0, 0, 0, 5, 0, 0});
  x.fill_(2);
  CHECK(row.version() == 2);
  x.index_put_({0, 1}, tensor(9.0));
  CHECK(alias.version() == 3);
  CHECK(values(alias) == Values{2, 9, 2, 2, 2, 2});
  Tensor apart = x.clone();
  CHECK(apart.version() == 0);
  apart.zero_();
  CHECK(x.version() == 3);
}

TEST_CASE("Tensor: data() is for its own dtype and for memory that the host can read",
          "[wall][tensor]") {
  const Tensor x = zeros({2});
  CHECK(mentions(message_of([&] { (void)x.data<double>(); }), "holds f32, not f64"));
  CHECK_THROWS_AS((void)x.data<i32>(), DtypeError);
  CHECK_THROWS_AS((void)x.to(Device::simt()).data<float>(), PlacementError);
  CHECK_THROWS_AS((void)empty({2}, {.device = Device::meta()}).data<float>(), PlacementError);
  CHECK(x.version() == 0);
}

TEST_CASE("Tensor: item and to_vector wait and convert", "[wall][tensor]") {
  for (const Device d : {Device::cpu(), Device::simt()}) {
    const Tensor x = tensor({{1.5, -2.5}, {3.0, 0.0}}, {.device = d});
    CHECK(x.t().to_vector<float>() == std::vector<float>{1.5f, 3, -2.5f, 0});  // logical order
    CHECK(x.to_vector<i64>() == std::vector<i64>{1, -2, 3, 0});
    CHECK(x.to_vector<bool>() == std::vector<bool>{true, true, true, false});
    CHECK(x[{1, 0}].item() == 3);
    CHECK(tensor({true}, {.device = d}).item() == 1);
    CHECK(mentions(message_of([&] { (void)x.item(); }), "[item] needs a one-element tensor"));
    CHECK(mentions(message_of([&] { (void)x.item(); }), "tensor_test.cpp:"));
  }
  CHECK(tensor({i64(9007199254740993)}).to_vector<i64>()[0] == 9007199254740993);
  CHECK(zeros({0, 3}).to_vector<float>().empty());
}

TEST_CASE("Tensor: item is exact or refuses", "[wall][tensor]") {
  constexpr i64 kBig = i64(1) << 53;
  const auto of = [](auto v) { return tensor(std::vector{v}); };
  CHECK(of(kBig).item() == double(kBig));
  CHECK(of(-kBig).item() == -double(kBig));
  CHECK(of(2 * kBig).item() == 2.0 * double(kBig));
  CHECK(of(INT64_MIN).item() == -0x1p63);
  CHECK(of(kBig + 1).item<i64>() == kBig + 1);
  CHECK(of(INT64_MAX).item<i64>() == INT64_MAX);
  CHECK(of(UINT64_MAX).item<u64>() == UINT64_MAX);
  const std::string text = message_of([&] { (void)of(kBig + 1).item(); });
  CHECK(mentions(text, "[item] no f64 is equal to 9007199254740993, of [1] i64 cpu"));
  CHECK(mentions(text, "tensor_test.cpp:"));
  CHECK(mentions(text, "Try item<i64>()"));
  CHECK_THROWS_AS((void)of(INT64_MAX).item(), DtypeError);
  CHECK_THROWS_AS((void)of(UINT64_MAX).item(), DtypeError);
  CHECK_THROWS_AS((void)of(UINT64_MAX).item<i64>(), DtypeError);
  CHECK_THROWS_AS((void)of(i64(-1)).item<u64>(), DtypeError);
  CHECK_THROWS_AS((void)of(i64(1) << 31).item<i32>(), DtypeError);
  CHECK_THROWS_AS((void)of((i64(1) << 24) + 1).item<float>(), DtypeError);
  CHECK(of(i64(-7)).item<int>() == -7);
  CHECK(of(1.5f).item<float>() == 1.5f);
  CHECK(of(0.1).item<float>() == 0.1f);  // among floats it rounds
  CHECK(std::isnan(of(NAN).item()));
  CHECK(of(-3.0f).item<i64>() == -3);
  for (const double bad : {double(NAN), double(INFINITY), 1.5, 0x1p63, -0x1.8p63}) {
    CHECK_THROWS_AS((void)of(bad).item<i64>(), DtypeError);
    CHECK_THROWS_AS((void)of(bad).item<u8>(), DtypeError);
  }
  CHECK(of(-0x1p63).item<i64>() == INT64_MIN);
  CHECK(of(0x1p63).item<u64>() == u64(1) << 63);
  CHECK_THROWS_AS((void)of(0x1p64).item<u64>(), DtypeError);
  CHECK(of(255.0).item<u8>() == 255);
  CHECK_THROWS_AS((void)of(256.0).item<u8>(), DtypeError);
  CHECK(of(2).item<bool>());
  CHECK(tensor({true}).item<i64>() == 1);
}

TEST_CASE("Tensor: data() of a device's memory names the line and the way out", "[wall][tensor]") {
  const Tensor x = ones({2}, {.device = Device::simt()});
  const int line = __LINE__ + 1;
  const std::string text = message_of([&] { (void)x.data<float>(); });
  CHECK(mentions(text, "[data] the elements are on simt, whose memory stands for a GPU's"));
  CHECK(mentions(text, "tensor_test.cpp:" + std::to_string(line)));
  CHECK(mentions(text, "Try .to(Device::cpu())"));
  CHECK(x.to(Device::cpu()).data<float>()[1] == 1);
}

TEST_CASE("Tensor: a parameter in an arena is a root of its own, and keeps its version",
          "[wall][tensor][arenas]") {
  const LeakGuard guard;
  Tensor p = tensor({1.0, 2.0}), q = tensor({3.0, 4.0});
  p.fill_(5);
  const Tensor home = zeros({64});
  VersionCell cells[2];
  Storage* const s = home.impl()->storage;
  p.rebind(s, 0, &cells[0]);
  q.rebind(s, 128, &cells[1]);
  CHECK(p.version() == 1);
  CHECK(p.impl()->storage == q.impl()->storage);
  p.fill_(6);
  CHECK(p.version() == 2);
  CHECK(q.version() == 0);  // the storage is shared, the root is not
  CHECK(home.version() == 0);
}

TEST_CASE("Tensor: a tensor with live views does not move into an arena, and the view is named",
          "[wall][tensor][arenas]") {
  const Tensor p = tensor({1.0, 2.0});
  const Tensor home = zeros({64});
  VersionCell cell;
  const auto rebound = [&] {
    return message_of([&] { p.rebind(home.impl()->storage, 0, &cell); });
  };
  {
    const int line = __LINE__ + 1;
    const Tensor view = p[0];
    CHECK(mentions(rebound(), "tensor_test.cpp:" + std::to_string(line)));
  }
  {
    const int line = __LINE__ + 1;
    const Tensor view = p.detach();  // shares the storage as well
    CHECK(mentions(rebound(), "tensor_test.cpp:" + std::to_string(line)));
  }
  CHECK(values(p) == Values{1, 2});
  CHECK(rebound().empty());
}

TEST_CASE("Tensor: sums and means take axes in braces, a lone 0 among them") {
  const Tensor x = tensor({{1.0, 2.0}, {3.0, 5.0}});
  CHECK(values(x.sum({0})) == Values{4, 7});
  CHECK(values(x.mean({0})) == Values{2, 3.5});
  CHECK(x.sum({0, 1}).item() == 11);
  CHECK(x.mean({0, 1}).item() == 2.75);
  CHECK(x.sum().item() == 11);
}
