// Counts of binary exponents: every variant on every device against a plain loop with frexp.
#include "warptape/kernels/exponent_counts.h"

#include <cmath>
#include <limits>

#include "warptape/tests/kernels/optim/optim_buffers.h"

using namespace wt;
using namespace wt_test;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

int bin_by_frexp(double v) {
  if (v == 0) return kZeroBin;
  if (std::isnan(v)) return kNanBin;
  if (std::isinf(v)) return kInfBin;
  int e = 0;
  std::frexp(v, &e);  // in [0.5, 1)
  return std::clamp(e - 1, kLowestExponent, kHighestExponent) - kLowestExponent;
}

// Values of all sizes, with what is special among them.
Values wide_numbers(i64 n, DType t, u64 seed) {
  Values v = numbers(n, seed);
  const double special[] = {0, -0.0, kInf, -kInf, NAN, 0x1p-149, -0x1p-126, 0x1.fffffep127, 1};
  for (i64 i = 0; i < n; ++i) {
    double& x = v[size_t(i)];
    x = i % 11 == 0 ? special[size_t(i / 11) % std::size(special)]
                    : std::ldexp(x, int(mix64(seed ^ u64(i)) % 250) - 140);
    if (t == f32) x = double(float(x));
  }
  return v;
}

}  // namespace

TEST_CASE("exponent_bin: bits say what frexp says", "[exponents]") {
  for (const double v : wide_numbers(5000, f64, 3)) {
    CAPTURE(v);
    CHECK(wt::detail::exponent_bin(v) == bin_by_frexp(v));
  }
  // Numbers below f64's normal ones count with the smallest.
  CHECK(wt::detail::exponent_bin(4.9e-324) == 0);
  CHECK(wt::detail::exponent_bin(1e308) == kHighestExponent - kLowestExponent);
  CHECK(wt::detail::exponent_bin(0.999) == -1 - kLowestExponent);
}

TEST_CASE("exponent_counts: every variant, parts of any size, rows and gaps", "[exponents]") {
  for (const DType t : {f32, f64})
    for (const double factor : {1.0, 1.0 / 192, -65536.0}) {
      // Three rows; the second in two parts, the third empty; the gap between them is not counted.
      const std::vector<ExponentPart> parts{
          {3, 7, 0}, {64, 8192, 1}, {8256, 61, 1}, {8400, 0, 2}, {8401, 33, 0}};
      const Values x = wide_numbers(8500, t, 17);
      std::vector<i64> want(3 * kExponentBins, 5);  // added to
      for (const ExponentPart& p : parts)
        for (i64 i = p.begin; i < p.begin + p.count; ++i)
          ++want[size_t(p.row * kExponentBins + bin_by_frexp(x[size_t(i)] * factor))];
      for_each_variant<ExponentCountsArgs>([&](Device d, auto launch) {
        for (const i64 skip : {0, 1}) {
          CAPTURE(factor, skip);
          const Buffer in(x, t, d, skip);
          const i64 bytes = i64(parts.size() * sizeof(ExponentPart));
          const Tensor list = empty({bytes}, {.dtype = DType::u8, .device = d}),
                       counts = full({3, kExponentBins}, 5, {.dtype = DType::i64, .device = d});
          copy_bytes(list.impl()->data, d, parts.data(), Device::cpu(), bytes);
          CHECK(launch({.x = in.data(),
                        .n = 8500,
                        .dtype = t,
                        .parts = static_cast<const ExponentPart*>(list.impl()->data),
                        .part_count = i64(parts.size()),
                        .counts = static_cast<i64*>(counts.impl()->data),
                        .rows = 3,
                        .factor = factor}));
          CHECK(counts.to_vector<i64>() == want);
        }
      });
    }
}

TEST_CASE("exponent_counts: no parts count nothing, 16 bits are refused", "[exponents]") {
  for_each_variant<ExponentCountsArgs>([&](Device d, auto launch) {
    const Tensor counts = zeros({1, kExponentBins}, {.dtype = DType::i64, .device = d});
    ExponentCountsArgs a{.x = nullptr,
                         .n = 0,
                         .dtype = f32,
                         .parts = nullptr,
                         .part_count = 0,
                         .counts = static_cast<i64*>(counts.impl()->data),
                         .rows = 1,
                         .factor = 1};
    CHECK(launch(a));
    CHECK(counts.to_vector<i64>() == std::vector<i64>(kExponentBins, 0));
    a.dtype = f16;
    CHECK(!launch(a));
  });
}
