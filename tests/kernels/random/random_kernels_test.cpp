// Random numbers have the same bits by every variant on every device; what they are is in
// cpu/random_fill_test.cpp.
#include "warptape/kernels/random_fill.h"

#include "warptape/autograd/ops/random.h"
#include "warptape/core/random.h"
#include "warptape/nn/init.h"
#include "warptape/tests/support/values.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;
namespace init = wt::nn::init;

namespace {

const std::vector<DType> kFloating{f64, f32, f16, bf16};
const std::vector<DType> kStored{f64,        f32,        f16,           bf16,       DType::i64,
                                 DType::i32, DType::i16, DType::i8,     DType::u64, DType::u32,
                                 DType::u16, DType::u8,  DType::boolean};

struct Kind {
  const char* name;
  std::vector<DType> dtypes;
  RandomFillArgs args;
};
std::vector<Kind> kinds() {
  using K = RandomKind;
  constexpr double kInf = INFINITY;
  return {
      {"uniform", kFloating, {.kind = K::uniform}},
      {"normal", kFloating, {.kind = K::normal, .mean = 0.3, .std = 1.7}},
      {"integers", kStored, {.kind = K::integers, .least = -7, .limit = 100}},
      {"all integers", kStored, {.kind = K::integers, .least = INT64_MIN, .limit = INT64_MAX}},
      {"bernoulli", kStored, {.kind = K::bernoulli, .p = 0.3}},
      {"init uniform", kFloating, {.kind = K::init_uniform, .low = -0.1, .high = 0.7}},
      {"init normal", kFloating, {.kind = K::init_normal, .mean = 0.3, .std = 1.7}},
      {"init trunc_normal",
       kFloating,
       {.kind = K::init_trunc_normal, .mean = 0.1, .std = 0.9, .low = -1, .high = 2}},
      {"tail", kFloating, {.kind = K::init_trunc_normal, .low = 5, .high = kInf}},
  };
}

std::vector<u8> bytes_of(const Tensor& t) {
  const Tensor host = t.to(Device::cpu());
  const auto* p = static_cast<const u8*>(host.impl()->data);
  return {p, p + host.numel() * item_size(host.dtype())};
}

}  // namespace

TEST_CASE("random fill kernels: the same bits by every variant", "[kernels][random]") {
  std::set<std::string> ran;
  for (const Kind& k : kinds())
    for (const DType t : k.dtypes)
      for (const i64 n : {0, 1, 2, 3, 4, 5, 7, 64, 1029}) {
        CAPTURE(k.name, dtype_name(t), n);
        std::vector<u8> want;
        for (const Device d : kernel_devices()) {
          const Tensor out = empty({n}, {.dtype = t, .device = d});
          RandomFillArgs a = k.args;
          a.out = view(out);
          a.key = philox_key(11, RandomStream::user);
          a.call = 5;
          for_each_variant(
              d, a,
              [&] {
                const std::vector<u8> got = bytes_of(out);
                if (want.empty()) want = got;
                CHECK(got == want);
              },
              &ran);
        }
      }
  check_ran(ran, {"cpu:reference", "cpu:vector", "simt:counters", "simt:naive"});
}

TEST_CASE("random fill: memory that begins anywhere", "[kernels][random]") {
  for (const Device d : kernel_devices()) {
    const Tensor all = zeros({40}, {.device = d}), part = all.narrow(0, 1, 33);
    RandomFillArgs a;
    a.out = view(part);
    a.key = {3, 4};
    std::vector<double> want;
    for_each_variant(d, a, [&] {
      const std::vector<double> got = to_doubles(all);
      if (want.empty()) want = got;
      CHECK(got == want);
      CHECK(got[0] == 0);
      CHECK(got[34] == 0);
    });
  }
}

TEST_CASE("randperm: the same order on every device, by whatever rung sorts", "[kernels][random]") {
  for (const i64 n : {0, 1, 2, 64, 65, 2049, 9000})
    for (const DType t : {DType::i64, DType::i32, DType::i8, DType::boolean, f32, f16}) {
      if (n > 65 && t != DType::i64) continue;
      CAPTURE(n, dtype_name(t));
      const auto draw = [&](Device d) {
        manual_seed(5);
        const Tensor p = randperm(n, {.dtype = t, .device = d}), next = rand({}, {.device = d});
        CHECK(p.device() == d);
        CHECK(p.dtype() == t);
        return std::pair{bytes_of(p), values(next)};
      };
      const auto want = draw(Device::cpu());
      for (const Device d : kernel_devices()) CHECK(draw(d) == want);
    }
  CHECK(randperm(3, {.dtype = f32, .requires_grad = true}).requires_grad());
  CHECK_THROWS_AS((void)randperm(3, {.dtype = DType::f8_e4m3}), DtypeError);
}

TEST_CASE("random numbers of one seed are the same on every device", "[kernels][random]") {
  const auto draw = [](Device d) {
    manual_seed(21);
    const TensorOptions on{.device = d};
    Tensor w = zeros({5, 33}, on), v = zeros({33, 5}, on);
    init::normal_(w);
    init::trunc_normal_(v);
    Tensor turned = zeros({5, 33}, on).t();
    init::uniform_(turned, -1, 1);
    Tensor square = zeros({7, 7}, on);
    init::orthogonal_(square);
    std::vector<std::vector<double>> all;
    for (const Tensor& t :
         {rand({3, 11}, on), randn({77}, on), randint(-5, 9, {40}, {.device = d}),
          bernoulli(0.4, {50}, on), bernoulli(full({50}, 0.4, on)), randperm(30, {.device = d}),
          rand_like(w), w, v, turned, square, rand({}, on)}) {
      CHECK(t.device() == d);
      all.push_back(values(t.to(f64)));
    }
    return all;
  };
  const auto want = draw(Device::cpu());
  for (const Device d : kernel_devices()) CHECK(draw(d) == want);
  CHECK(rand({3}, {.device = Device::meta()}).shape() == Shape{3});
  CHECK(rand({2}, {.requires_grad = true}).requires_grad());
}
