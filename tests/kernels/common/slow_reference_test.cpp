// A reference that runs long because no faster variant takes the arguments says so, once.
#include "warptape/kernels/common/slow_reference.h"

#include <string>
#include <vector>

#include "warptape/autograd/ops.h"
#include "warptape/core/factories.h"
#include "warptape/core/warning.h"
#include "warptape/kernels/run.h"
#include "warptape/tests/support/ambient.h"
#include "warptape/tests/support/catch.h"

using namespace wt;
using wt_test::Warnings;
using wt_test::warnings;

namespace {

// A reference over this would take much longer than 10 ms; other variants take floats only.
Tensor whole_numbers() { return ones({320, 320}, {.dtype = DType::i64}); }

}  // namespace

TEST_CASE("slow reference: a long run that nothing faster takes is told once, with the reasons") {
  const Warnings guard;
  const Tensor a = whole_numbers();
  (void)matmul(ones({2, 2}, {.dtype = DType::i64}), ones({2, 2}, {.dtype = DType::i64}));
  CHECK(warnings().empty());
  (void)matmul(a, a);
  REQUIRE(warnings().size() == 1);
  CAPTURE(warnings()[0]);
  CHECK(warnings()[0].starts_with("[matmul] the kernel 'matmul' took "));
  CHECK(warnings()[0].find(
            "tiny: takes f32 and f64 only; few_rows: takes floating dtypes only; packed: takes f32 "
            "and f64 only; widened: takes f16 and bf16 only") != std::string::npos);
  (void)matmul(a, a);
  CHECK(warnings().size() == 1);
}

TEST_CASE("slow reference: one that was asked for says nothing") {
  const Warnings guard;
  const VariantScope reference("matmul", "reference");
  const Tensor a = ones({320, 320});
  (void)matmul(a, a);
  CHECK(warnings().empty());
}
