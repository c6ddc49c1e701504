// What is for storage only does not compute: not beside another dtype, not with a number, not among
// its own. Operators that move elements take it.
#include <vector>

#include "warptape/autograd/ops.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {
bool refused(const std::function<void()>& f, const std::string& part) {
  const std::string text = message_of(f);
  return mentions(text, "DtypeError") && mentions(text, part) && mentions(text, "\n  at ") &&
         mentions(text, "\n  Try .to(");
}
}  // namespace

TEST_CASE("storage dtypes: they promote with nothing", "[wall][dtypes]") {
  for (int i = 0; i < kNumDTypes; ++i)
    for (int k = 0; k < kNumDTypes; ++k) {
      const DType a = DType(i), b = DType(k);
      INFO(dtype_name(a) << " " << dtype_name(b));
      CHECK(promotes(a, b) == (a == b || (computes(a) && computes(b))));
      const Tensor x = ones({2}, {.dtype = a}), y = ones({2}, {.dtype = b});
      const Tensor number = ones({}, {.dtype = b});
      for (const Tensor& other : {y, number}) {
        if (computes(a) && computes(b)) {
          CHECK(values(x + other)[0] == (a == DType::boolean && b == a ? 1 : 2));
        } else {
          CHECK_THROWS_AS((void)(x + other), DtypeError);
          CHECK_THROWS_AS((void)(x / other), DtypeError);
          CHECK_THROWS_AS((void)lt(x, other), DtypeError);
          CHECK_THROWS_AS((void)where(ones({2}, {.dtype = DType::boolean}), x, other), DtypeError);
        }
      }
      if (!promotes(a, b)) CHECK_THROWS_AS((void)cat({x, y}), DtypeError);
    }
}

TEST_CASE("storage dtypes: the message names both, the line and a way out", "[wall][dtypes]") {
  const Tensor u = tensor(std::vector<unsigned>{4000000000u}),
               one = tensor({1}, {.dtype = DType::i32});
  const Tensor x = ones({1}), byte = ones({1}, {.dtype = DType::i8});
  CHECK(refused([&] { (void)(u + one); },
                "[add] u32 and i32 do not promote: u32 is for storage only"));
  CHECK(refused([&] { (void)(u + one); }, "Try .to(i64) on operand 0"));
  CHECK(refused([&] { (void)(one - u); }, "Try .to(i64) on operand 1"));
  CHECK(refused([&] { (void)(one / u); }, "[div] i32 and u32 do not promote"));
  CHECK(refused([&] { (void)(x * x.to(DType::f8_e4m3)); }, "Try .to(f32) on operand 1"));
  CHECK(refused([&] { (void)where(gt(x, 0), byte, one); }, "[where] i8 and i32 do not promote"));
  CHECK(refused([&] { (void)where(gt(x, 0), byte, one); }, "Try .to(i32) on operand 1"));
  CHECK(refused([&] { (void)cat({x, byte}); }, "[cat] f32 and i8 do not promote"));
  CHECK(refused([&] { (void)(byte / u); }, "[div] i8 and u32 do not promote"));
}

TEST_CASE("storage dtypes: numbers beside them and in-place operators do not convert them",
          "[wall][dtypes]") {
  Tensor x = ones({2});
  const Tensor u = ones({2}, {.dtype = DType::u32});
  CHECK_THROWS_AS((void)(u + 1.5), DtypeError);
  CHECK_THROWS_AS((void)(u / 2), DtypeError);
  CHECK_THROWS_AS((void)where(gt(x, 0), u, 1.5), DtypeError);
  CHECK_THROWS_AS((void)x.add_(u), DtypeError);
  CHECK(values(x) == Values{1, 1});
  CHECK(values(cat({u, u})) == Values{1, 1, 1, 1});
  CHECK(values(x.to(DType::u32)) == Values{1, 1});
}
