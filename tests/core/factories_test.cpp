// Factories: values, dtypes, devices, refusals, and memory that is not ours.
#include "warptape/core/factories.h"

#include <cmath>
#include <functional>

#include "warptape/autograd/ops/pad.h"
#include "warptape/autograd/ops/pointwise.h"
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

TEST_CASE("factories: every list of values has its dtype and device in one expression",
          "[factories]") {
  const std::vector<double> host = {1, 2, 3, 4};
  for (const Device d : {Device::cpu(), Device::simt(), Device::meta(DeviceKind::simt)}) {
    CAPTURE(to_string(d));
    const std::vector<Tensor> all = {
        tensor(1, {.dtype = f16, .device = d}),
        tensor({1, 2, 3}, {.dtype = f16, .device = d}),
        tensor({1.0, 2.0, 3.0}, {.dtype = f16, .device = d}),
        tensor({1, 2.5}, {.dtype = f16, .device = d}),
        tensor({true, false}, {.dtype = f16, .device = d}),
        tensor({{1}, {2}}, {.dtype = f16, .device = d}),
        tensor({{1, 2}, {3, 4}}, {.dtype = f16, .device = d}),
        tensor({{1, 2.5}, {3, 4}}, {.dtype = f16, .device = d}),
        tensor({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}, {.dtype = f16, .device = d}),
        tensor({{{1, 2.5}, {3, 4}}}, {.dtype = f16, .device = d}),
        tensor(host, {.dtype = f16, .device = d}),
        tensor(std::span<const double>(host).first(2), {.dtype = f16, .device = d})};
    const std::vector<Shape> shapes = {{},     {3},    {3},       {2},       {2}, {2, 1},
                                       {2, 2}, {2, 2}, {2, 2, 2}, {1, 2, 2}, {4}, {2}};
    for (size_t i = 0; i < all.size(); ++i) {
      CAPTURE(i);
      CHECK(all[i].shape() == shapes[i]);
      CHECK(all[i].dtype() == f16);
      CHECK(all[i].device() == d);
      if (!d.is_meta && i > 0)
        CHECK(values(all[i])[1] == (i == 4 ? 0 : i == 3 || i == 7 || i == 9 ? 2.5 : 2));
    }
    CHECK(tensor({1, 2, 3}, {.device = d}).dtype() == DType::i64);
    CHECK(tensor({{1.5, 2}}, {.device = d, .requires_grad = true}).requires_grad());
  }
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

TEST_CASE("factories: integers are counted as integers", "[factories]") {
  for (const Device d : {Device::cpu(), Device::simt()}) {
    const TensorOptions o{.device = d};
    const i64 far = 1700000000000000000, step = 1449629115440469;
    CHECK(arange(far, far + 10, 1, o).to_vector<i64>()[9] == far + 9);
    CHECK(arange(far, far + 10, 1, o).numel() == 10);
    CHECK(arange(far + 10, far, -3, o).to_vector<i64>() ==
          std::vector<i64>{far + 10, far + 7, far + 4, far + 1});
    CHECK(arange(0, 100 * step, step, o).numel() == 100);
    CHECK(arange(0, 100 * step + 1, step, o).numel() == 101);
    CHECK(arange(0, -100 * step, -step, o).numel() == 100);
    CHECK(arange(INT64_MAX - 2, INT64_MAX, 1, o).numel() == 2);
    CHECK(arange(INT64_MIN, INT64_MIN + 3, 1, o).to_vector<i64>()[2] == INT64_MIN + 2);
    CHECK(arange(far, far, 1, o).numel() == 0);
    CHECK(arange(far + 1, far, 1, o).numel() == 0);
    CHECK(linspace(far + 1, far + 3, 3, {int64, d}).to_vector<i64>()[1] == far + 2);
    // A quotient of doubles falls short of some of these, and would be cut to the integer below.
    for (const i64 n : {2, 50, 104, 255, 994}) {
      const i64 k = 7 * n + 3;
      for (const i64 sign : {1, -1}) {
        const std::vector<i64> v =
            linspace(double(sign), double(sign + sign * k * (n - 1)), n, {int64, d})
                .to_vector<i64>();
        for (i64 i = 0; i < n; ++i) CHECK(v[size_t(i)] == sign * (1 + k * i));
      }
      const std::vector<i64> thirds =
          linspace(double(-n), double(2 * n), 9 * n + 1, {int64, d}).to_vector<i64>();
      for (i64 i = 0; i <= 9 * n; ++i) CHECK(thirds[size_t(i)] == (i - 3 * n) / 3);
    }
  }
}

TEST_CASE("factories: a number that no element can be is refused, not wrapped", "[factories]") {
  const auto refuses = [](const std::function<void()>& f, const char* part) {
    CHECK(mentions(message_of(f), part));
    CHECK_THROWS_AS(f(), DtypeError);
  };
  const TensorOptions byte{.dtype = uint8}, half{.dtype = f16};
  refuses([&] { (void)full({1}, 300, byte); }, "u8 cannot hold 300");
  refuses([&] { (void)full({1}, -1, byte); }, "u8 cannot hold -1");
  refuses([&] { (void)full({1}, 256.0, byte); }, "u8 cannot hold 256");
  refuses([&] { (void)full({1}, NAN, {.dtype = int64}); }, "i64 cannot hold nan");
  refuses([&] { (void)full({1}, 0x1p63, {.dtype = int64}); }, "i64 cannot hold 9.22337e+18");
  refuses([&] { (void)full({1}, i64{1} << 31, {.dtype = int32}); }, "i32 cannot hold 2147483648");
  refuses([&] { (void)full({1}, u64(1) << 63); }, "i64 cannot hold 9223372036854775808");
  refuses([&] { (void)full({1}, 65520, half); }, "f16 cannot hold 65520");
  refuses([&] { (void)full({1}, 1e39, {.dtype = f32}); }, "f32 cannot hold 1e+39");
  refuses([&] { (void)full({1}, 465, {.dtype = DType::f8_e4m3}); }, "f8_e4m3 cannot hold 465");
  refuses([&] { (void)tensor({1, 300}, byte); }, "[tensor] u8 cannot hold 300");
  refuses([&] { (void)tensor({{1.0}, {1e5}}, half); }, "[tensor] f16 cannot hold 100000");
  refuses([&] { (void)tensor(1e5, half); }, "[tensor] f16 cannot hold 100000");
  refuses([&] { (void)zeros({2}, byte).fill_(256); }, "[fill_] u8 cannot hold 256");
  refuses([&] { (void)zeros({2}, byte).index_put_({0}, 256); }, "u8 cannot hold 256");
  refuses([&] { (void)full_like(zeros({2}, half), -1e9); }, "f16 cannot hold -1e+09");
  refuses([&] { (void)arange(0, 300, 1, byte); }, "[arange] u8 cannot hold 299");
  refuses([&] { (void)arange(-1, 3, 1, byte); }, "[arange] u8 cannot hold -1");
  refuses([&] { (void)linspace(0, 256, 3, byte); }, "[linspace] u8 cannot hold 256");
  refuses([&] { (void)randint(0, 257, {1}, byte); }, "[randint] u8 cannot hold 256");
  refuses([&] { (void)randperm(257, byte); }, "[randperm] u8 cannot hold 256");
  refuses([&] { (void)pad(zeros({1}, byte), {1, 1}, {.value = 300}); }, "[pad] u8 cannot hold 300");
  refuses([&] { (void)where(tensor({true}), zeros({1}, byte), 300); }, "u8 cannot hold 300");
  // What fits, to the last one.
  CHECK(values(full({1}, 255.9, byte)) == Values{255});
  CHECK(values(full({1}, -0.9, byte)) == Values{0});
  CHECK(full({1}, -0x1p63, {.dtype = int64}).item<i64>() == INT64_MIN);
  CHECK(full({1}, ~u64(0), {.dtype = DType::u64}).to_vector<u64>()[0] == ~u64(0));
  CHECK(full({1}, 1.5e19, {.dtype = DType::u64}).to_vector<u64>()[0] == u64(1.5e19));
  CHECK(values(full({1}, 65519.9, half)) == Values{65504});
  CHECK(values(full({1}, INFINITY, half)) == Values{INFINITY});
  CHECK(values(full({1}, 464, {.dtype = DType::f8_e4m3}).to(f32)) == Values{448});
  CHECK(values(full({1}, 300, {.dtype = boolean})) == Values{1});
  CHECK(arange(256, byte).to_vector<u8>()[255] == 255);
  CHECK(arange(2, -1, -1, byte).to_vector<u8>()[2] == 0);
}

TEST_CASE("factories: a number is rounded once", "[factories]") {
  for (const Device d : {Device::cpu(), Device::simt()}) {
    const auto of = [&](Scalar v, DType t) {
      const Tensor x = full({3}, v, {.dtype = t, .device = d});
      if (computes(t)) CHECK(values(tensor({v}, {.dtype = t, .device = d}))[0] == values(x)[0]);
      CHECK(values(pad(x, {0, 1}, {.value = v}).to(f64))[3] == values(x.to(f64))[0]);
      return values(x.to(f64))[0];
    };
    CHECK(of(1 + 0x1p-11 + 0x1p-40, f16) == 1 + 0x1p-10);
    CHECK(of(1 + 0x1p-8 + 0x1p-40, bf16) == 1 + 0x1p-7);
    CHECK(of(1 + 0x1p-4 + 0x1p-40, DType::f8_e4m3) == 1.125);
    CHECK(of(1 + 0x1p-3 + 0x1p-40, DType::f8_e5m2) == 1.25);
    CHECK(of(i64{16842753}, bf16) == 16908288);
    CHECK(of((i64{1} << 60) + (i64{1} << 36) + 1, f32) == 0x1p60 + 0x1p37);  // not by way of f64
    CHECK(of(-(i64{1} << 60) - (i64{1} << 52) - 1, bf16) == -0x1p60 - 0x1p53);
    CHECK(values(arange(16842753, 16842754, 1, {.dtype = bf16, .device = d}))[0] == 16908288);
    CHECK(values(linspace(1 + 0x1p-11 + 0x1p-40, 2, 2, {.dtype = f16, .device = d}))[0] ==
          1 + 0x1p-10);
  }
}
