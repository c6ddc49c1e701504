// Systems of equations: what the rows cannot say.
#include "warptape/autograd/ops/inverse.h"

#include "warptape/autograd/ops/arrange.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/values.h"

using namespace wt;
using namespace wt_test;

TEST_CASE("solve: a column's pivot may lie further below than a block has threads", "[autograd]") {
  // Column j has its only 1 in row j + 256: a block of 256 threads meets it in its second round.
  const i64 n = 260;
  const Tensor a = roll(eye(n), {256}, {0}), b = arange(n).to(f32).unsqueeze(1);
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    const Values x = values(solve(a.to(d), b.to(d)).to(Device::cpu()));
    for (i64 j = 0; j < n; ++j) REQUIRE(x[size_t(j)] == double((j + 256) % n));
  }
}
