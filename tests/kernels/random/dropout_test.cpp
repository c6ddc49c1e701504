// Dropout: which elements fall, on every device and variant bit for bit; edges of p; derivatives;
// and the generator.
#include "warptape/kernels/dropout.h"

#include <algorithm>
#include <cmath>

#include "warptape/autograd/grad_check.h"
#include "warptape/autograd/ops/dropout.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/core/mode.h"
#include "warptape/core/random.h"
#include "warptape/kernels/run.h"
#include "warptape/tests/support/catch.h"

using namespace wt;

namespace {

std::vector<Device> devices() {
  std::vector<Device> d{Device::cpu(), Device::simt()};
  if (cuda::is_available()) d.push_back(Device::cuda());
  return d;
}
std::vector<const char*> variants(Device d) {
  std::vector<const char*> names;
  for (const ContractInfo& c : all_contracts())
    if (std::string("dropout") == c.name)
      for (int i = 0; i < c.count(d.kind); ++i) names.push_back(c.variant(d.kind, i).name);
  return names;
}

// The definition, from kernels/dropout.h.
std::vector<double> expected(const std::vector<double>& x, double p, DType t, u64 seed, u64 call) {
  std::vector<double> y;
  const PhiloxKey key = philox_key(seed, RandomStream::dropout);
  for (size_t i = 0; i < x.size(); ++i) {
    const u32 word = philox(key, i / 4, call).v[i % 4];
    const bool keep = (word >> 8) >= u32(std::lround(p * 0x1p24));
    const double scaled = t == f64 ? x[i] * (1 / (1 - p)) : float(x[i]) * float(1 / (1 - p));
    y.push_back(keep ? tensor(scaled, {.dtype = t}).item() : 0);
  }
  return y;
}

}  // namespace

TEST_CASE("dropout: the same bits on every device, variant, dtype and layout", "[wall][random]") {
  for (const i64 rows : {1, 3, 7})
    for (const i64 columns : {1, 5, 64, 77})
      for (const DType t : {f64, f32, f16, bf16}) {
        std::vector<double> v;
        for (i64 i = 0; i < rows * columns; ++i) v.push_back(double(i % 31) - 15.5);
        const Tensor x = reshape(tensor(v), {rows, columns}).to(t);
        const std::vector<double> want = expected(v, 0.3, t, 7, 0);
        for (const Device d : devices())
          for (const char* variant : variants(d)) {
            CAPTURE(rows, columns, dtype_name(t), to_string(d), variant);
            const Tensor dense = x.to(d);
            const Tensor strided = dense.transpose(0, 1).contiguous().transpose(0, 1);
            manual_seed(7);
            CHECK(dropout(strided, 0.3).to_vector<double>() == want);
            manual_seed(7);
            const VariantScope scope("dropout", variant);
            CHECK(dropout(dense, 0.3).to_vector<double>() == want);
          }
      }
}

TEST_CASE("dropout: an output larger than the caches", "[random]") {
  const i64 n = (i64{8} << 20) + 1024 + 77;
  const Tensor x = ones({n}, {.dtype = f32});
  manual_seed(5);
  const Tensor y = dropout(x, 0.3);
  manual_seed(5);
  const VariantScope scope("dropout", "reference");
  const Tensor want = dropout(x, 0.3);
  const auto* a = static_cast<const float*>(y.impl()->data);
  CHECK(std::equal(a, a + n, static_cast<const float*>(want.impl()->data)));
}

TEST_CASE("dropout: strided operands reach every variant that takes them") {
  const Tensor x = arange(0, 60, 1, {.dtype = f32}).view({3, 20});
  for (const Device d : devices())
    for (const char* variant : variants(d)) {
      if (d == Device::cpu() && std::string(variant) == "vectorized") continue;  // dense only
      CAPTURE(to_string(d), variant);
      const VariantScope scope("dropout", variant);
      manual_seed(3);
      const std::vector<double> want =
          expected(x.slice(1, {1, 20, 2}).to_vector<double>(), 0.5, f32, 3, 0);
      CHECK(dropout(x.to(d).slice(1, {1, 20, 2}), 0.5).to_vector<double>() == want);
    }
}

TEST_CASE("dropout: p of 0 and 1, and evaluation") {
  const Tensor x = ones({100});
  for (const Device d : devices()) {
    CAPTURE(to_string(d));
    manual_seed(1);
    const Tensor on = x.to(d);
    CHECK(dropout(on, 0).same_as(on));
    CHECK(dropout(on, 0.5, false).same_as(on));
    CHECK(generator().calls(RandomStream::dropout) == 0);
    CHECK(dropout(on * INFINITY, 1).to_vector<double>() == std::vector<double>(100, 0.0));
    CHECK(generator().calls(RandomStream::dropout) == 1);
  }
  CHECK_THROWS_AS(dropout(x, 1.5), UsageError);
  CHECK_THROWS_AS(dropout(x, -0.1), UsageError);
  CHECK_THROWS_AS(dropout(x, NAN), UsageError);
  CHECK_THROWS_AS(dropout(x.to(DType::i32), 0.5), DtypeError);
  CHECK_THROWS_AS(dropout(Tensor(), 0.5), UsageError);
  CHECK(dropout(zeros({0, 4}), 0.5).shape() == Shape{0, 4});
  CHECK(dropout(ones({3}, {.device = Device::meta()}), 0.5).shape() == Shape{3});
  Tensor gone = ones({4});
  const Tensor kept = dropout(std::move(gone), 0);
  CHECK(!gone.defined());
  CHECK(kept.to_vector<float>() == std::vector<float>(4, 1.0f));
}

TEST_CASE("dropout: the share that falls is p, and the mean stays") {
  manual_seed(11);
  for (const double p : {0.1, 0.5, 0.9}) {
    CAPTURE(p);
    const i64 n = 100000;
    const std::vector<double> y = dropout(ones({n}), p).to_vector<double>();
    double zeros = 0, sum = 0;
    for (double v : y) zeros += v == 0, sum += v;
    const double deviation = std::sqrt(double(n) * p * (1 - p));  // five of them: 1 in 2 million
    CHECK(std::fabs(zeros - double(n) * p) < 5 * deviation);
    CHECK(std::fabs(sum - double(n)) < 5 * deviation / (1 - p));
  }
}

TEST_CASE("dropout: backward uses the forward's draw, calls differ, seeds repeat",
          "[wall][random][saved]") {
  for (const Device d : devices()) {
    CAPTURE(to_string(d));
    manual_seed(5);
    const Tensor x = ones({257}, {.device = d}).set_requires_grad();
    const Tensor y = dropout(x, 0.4);
    const Tensor other = dropout(x.detach(), 0.4);
    CHECK(y.to_vector<float>() != other.to_vector<float>());
    y.sum().backward();
    CHECK(x.grad().to_vector<float>() == y.to_vector<float>());
    manual_seed(5);
    CHECK(dropout(x.detach(), 0.4).to_vector<float>() == y.to_vector<float>());
    CHECK(dropout(x.detach(), 0.4).to_vector<float>() == other.to_vector<float>());
    manual_seed(6);
    CHECK(dropout(x.detach(), 0.4).to_vector<float>() != y.to_vector<float>());
  }
}

TEST_CASE("dropout: derivatives agree with differences, the second through a square") {
  const Tensor x = tensor(std::vector<double>{0.3, -0.5, 0.7, 1.1, -0.2, 0.9}).set_requires_grad();
  const auto drop = [](std::span<const Tensor> in) {
    manual_seed(9);
    return dropout(in[0], 0.4);
  };
  CHECK(grad_check(drop, {x}).message == "");
  CHECK(grad_grad_check(drop, {x}, {.second_is_zero = true}).message == "");
  const auto squared = [](std::span<const Tensor> in) {
    manual_seed(9);
    return dropout(square(in[0]), 0.4);
  };
  CHECK(grad_grad_check(squared, {x}).message == "");
}

TEST_CASE("dropout: a call that throws has drawn nothing", "[wall][random]") {
  manual_seed(2);
  const Tensor x = ones({8}).set_requires_grad();
  memory::fail_nth_request(1);
  CHECK_THROWS_AS(dropout(x, 0.5), OutOfMemory);
  CHECK(generator().calls(RandomStream::dropout) == 0);
  CHECK_THROWS_AS(dropout(x.to(DType::i64), 0.5), DtypeError);
  CHECK(generator().calls(RandomStream::dropout) == 0);
}

TEST_CASE("dropout: a call base in device memory is added to the call",
          "[wall][random][device_scalars]") {
  const Tensor x = ones({100});
  for (const Device d : devices()) {
    const Tensor base = tensor(5, {.dtype = DType::i64, .device = d}), on = x.to(d);
    for (const char* variant : variants(d)) {
      CAPTURE(to_string(d), variant);
      const VariantScope scope("dropout", variant);
      Tensor y = zeros({100}, {.device = d});
      DropoutArgs args{view_of(y.impl()), view_of(on.impl()), philox_key(7, RandomStream::dropout),
                       2, static_cast<const i64*>(base.impl()->data)};
      args.threshold = u32(std::lround(0.3 * 0x1p24));
      args.scale = 1 / (1 - 0.3);
      run(args, Launch{.device = d});
      CHECK(y.to_vector<double>() == expected(x.to_vector<double>(), 0.3, f32, 7, 7));
    }
  }
}
