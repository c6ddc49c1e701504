// Element types: the table, promotion as in PyTorch, and the 16-bit floats bit by bit.
#include "warptape/core/dtype.h"

#include <cmath>
#include <cstring>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/half.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/values.h"

using namespace wt;

TEST_CASE("dtypes: eight compute, the others are for storage", "[wall][dtypes]") {
  int computing = 0;
  for (int t = 0; t < kNumDTypes; ++t) {
    const DType d = DType(t);
    CAPTURE(dtype_name(d));
    computing += computes(d);
    const Tensor x = tensor({0, 1}).to(d);  // load, copy, cast
    CHECK(x.impl()->storage->bytes == 2 * item_size(d));
    CHECK(values(x) == Values{0, 1});
    CHECK(values(x.clone()[1]) == Values{1});
    if (computes(d))
      CHECK_NOTHROW((void)sum(x));
    else
      CHECK_THROWS_AS((void)(x + x), DtypeError);
  }
  CHECK(computing == kNumComputeDTypes);
}

TEST_CASE("dtypes: promotion of two tensors is PyTorch's table", "[wall][dtypes][prologue]") {
  using enum DType;
  constexpr DType kOrder[] = {f64, f32, f16, bf16, DType::i64, i32, DType::u8, boolean};
  // torch.promote_types(row, column)
  constexpr DType kWant[8][8] = {
      {f64, f64, f64, f64, f64, f64, f64, f64},
      {f64, f32, f32, f32, f32, f32, f32, f32},
      {f64, f32, f16, f32, f16, f16, f16, f16},
      {f64, f32, f32, bf16, bf16, bf16, bf16, bf16},
      {f64, f32, f16, bf16, DType::i64, DType::i64, DType::i64, DType::i64},
      {f64, f32, f16, bf16, DType::i64, i32, i32, i32},
      {f64, f32, f16, bf16, DType::i64, i32, DType::u8, DType::u8},
      {f64, f32, f16, bf16, DType::i64, i32, DType::u8, boolean}};
  for (int a = 0; a < 8; ++a)
    for (int b = 0; b < 8; ++b) {
      CAPTURE(dtype_name(kOrder[a]), dtype_name(kOrder[b]));
      CHECK(promote(kOrder[a], kOrder[b]) == kWant[a][b]);
      const Tensor x = tensor({1}).to(kOrder[a]), y = tensor({1}).to(kOrder[b]);
      CHECK((x + y).dtype() == kWant[a][b]);
      // A 0-d tensor changes the dtype only when its category is higher.
      const bool higher = promotion_category(kOrder[b]) > promotion_category(kOrder[a]);
      CHECK((x + y[0]).dtype() == (higher ? kWant[a][b] : kOrder[a]));
    }
}

TEST_CASE("dtypes: f16 is IEEE binary16, rounded to nearest even", "[wall][dtypes]") {
  for (u32 bits = 0; bits < 65536; ++bits) {
    Half h;
    h.bits = u16(bits);
    const int exponent = int(bits >> 10 & 31), mantissa = int(bits & 1023);
    const double sign = bits >> 15 ? -1 : 1;
    const float f = float(h);
    if (exponent == 31) {
      if (std::isnan(f) != (mantissa != 0) || std::isinf(f) != (mantissa == 0)) FAIL(bits);
    } else {
      const double want = sign * (exponent ? std::ldexp(1024 + mantissa, exponent - 25)
                                           : std::ldexp(mantissa, -24));
      if (double(f) != want || std::signbit(f) != (sign < 0)) FAIL(bits);
      if (Half(f).bits != bits) FAIL(bits);
      // Half way to the next one goes to the even one.
      if (exponent < 30 && bits < 32768) {
        Half next;
        next.bits = u16(bits + 1);
        const float middle = float((double(f) + double(float(next))) / 2);
        if (Half(middle).bits != (bits % 2 ? bits + 1 : bits)) FAIL(bits);
      }
    }
  }
  CHECK(std::isinf(float(Half(65520.0f))));
  CHECK(float(Half(65519.9f)) == 65504);
  CHECK(std::isnan(float(Half(NAN))));
}

TEST_CASE("dtypes: bf16 is the upper half of a float, rounded to nearest even", "[wall][dtypes]") {
  for (u32 bits = 0; bits < 65536; ++bits) {
    BFloat16 b;
    b.bits = u16(bits);
    const float f = float(b);
    const u32 wide = __builtin_bit_cast(u32, f);
    if (wide != bits << 16) FAIL(bits);
    if (std::isnan(f)) continue;
    if (BFloat16(f).bits != bits) FAIL(bits);
    if (std::isinf(f)) continue;
    const float middle = __builtin_bit_cast(float, wide | 0x8000u);
    if (BFloat16(middle).bits != u16(bits % 2 ? bits + 1 : bits)) FAIL(bits);
  }
  CHECK(std::isnan(float(BFloat16(NAN))));
  CHECK(float(BFloat16(1 + 1.0f / 256)) == 1);
}

TEST_CASE("dtypes: NaN never compares equal, integers wrap", "[wall][dtypes]") {
  for (const Device d : {Device::cpu(), Device::simt()}) {
    const Tensor n = tensor({NAN, 1.0}, {.device = d});
    CHECK(values(eq(n, n)) == Values{0, 1});
    CHECK(values(ne(n, n)) == Values{1, 0});
    CHECK(values(le(n, n)) == Values{0, 1});
    const Tensor top = tensor({INT64_MAX}, {.device = d});
    CHECK((top + 1).to_vector<i64>()[0] == INT64_MIN);
    const Tensor byte = tensor({255}, {.dtype = DType::u8, .device = d});
    CHECK(values(byte + 1) == Values{0});
  }
}

TEST_CASE("pointwise: an integer to a negative integer power is refused, as in PyTorch",
          "[pointwise]") {
  for (const DType t : {DType::i64, DType::i32, DType::u8}) {
    const Tensor x = tensor({1, 2}).to(t);
    CHECK_THROWS_AS((void)pow(x, -1), UsageError);
    CHECK(values(pow(x, -1.0)) == Values{1, 0.5});  // a float is another matter
    CHECK(values(pow(x, 3)) == Values{1, 8});
    CHECK(values(pow(x, 0)) == Values{1, 1});
  }
  CHECK(values(pow(tensor({2.0}), -1)) == Values{0.5});
  CHECK(values(pow(2, tensor({-1.0}))) == Values{0.5});
}

TEST_CASE("pointwise: the derivative of sign is zero, whatever the gradient", "[pointwise]") {
  const Tensor x = leaf({-2, 0, 3, 1, 5});
  const Tensor gy = tensor({INFINITY, -INFINITY, NAN, 1.0, 0.0}, {.dtype = f64});
  sign(x).backward(gy);
  CHECK(values(x.grad()) == Values{0, 0, 0, 0, 0});
}
