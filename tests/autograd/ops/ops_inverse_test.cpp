// Systems of equations: what the rows cannot say.
#include "warptape/autograd/ops/inverse.h"

#include "warptape/autograd/ops/arrange.h"
#include "warptape/core/operators.h"
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

TEST_CASE("solve: rows further below than a block has threads are eliminated", "[autograd]") {
  const i64 n = 300, below = 257;  // x[i] = (b[i] - x[i - 257]) / 2
  const Tensor a = eye(n) * 2, b = arange(n).to(f32).unsqueeze(1);
  for (i64 j = 0; j + below < n; ++j) a[j + below][j].fill_(1);
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    const Values x = values(solve(a.to(d), b.to(d)).to(Device::cpu()));
    for (i64 i = 0; i < n; ++i)
      REQUIRE(x[size_t(i)] == (double(i) - (i < below ? 0 : x[size_t(i - below)])) / 2);
  }
}
