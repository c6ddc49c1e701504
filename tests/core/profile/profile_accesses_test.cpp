// What simt counts of kernels, as columns of a profile; and time that the host waits, as measured.
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/factories.h"
#include "warptape/core/profile.h"
#include "warptape/core/profile/roof.h"
#include "warptape/kernels/simt/counters.h"
#include "warptape/tests/simt/device_memory.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"

using namespace wt;
using profiler::Profile;
using profiler::Row;

namespace {

Row row_of(const Profile& p, const std::string& name) {
  for (const Row& r : p.rows())
    if (r.name == name) return r;
  return {};
}

}  // namespace

TEST_CASE("row 105: sectors, bank conflicts and lanes of simt's kernels are a profile's columns") {
  const Tensor x = ones({64, 32}, {.device = Device::simt()});
  const Tensor columns = x.transpose(0, 1);
  const auto steps = [&] {
    (void)exp(x);
    (void)matmul(x, columns);
  };
  if (!simt_can_count()) {
    CHECK(mentions(message_of([&] { profiler::profile(steps, {.counters = true}); }),
                   "only where its kernels are instrumented"));
    return;
  }
  const Profile p = profiler::profile(steps, {.counters = true});
  const Row pass = row_of(p, "exp"), product = row_of(p, "matmul");
  // Each of the 64 * 32 numbers is read and written once, 8 to a sector, by full warps.
  CHECK(pass.accesses.sectors == 2 * 64 * 32 / 8);
  CHECK(pass.accesses.least_sectors == pass.accesses.sectors);
  CHECK(pass.accesses.lanes == 32 * pass.accesses.requests);
  CHECK(pass.accesses.passes == 0);
  CHECK(product.accesses.sectors > 0);
  double all = 0;
  for (const Row& r : p.rows()) all += r.accesses.sectors;
  CHECK(all == pass.accesses.sectors + product.accesses.sectors);
  for (const char* column : {"Sectors", "Sectors / least", "Bank conflicts", "Lanes of 32"})
    CHECK(mentions(p.table(), column));
  CHECK(mentions(p.json(), "\"sectors\":512"));
  CHECK_FALSE(mentions(profiler::profile(steps).table(), "Sectors"));
  // One count at a time; afterwards the next one may begin.
  const profiler::Scope first({.counters = true});
  CHECK(mentions(message_of([] { const profiler::Scope second({.counters = true}); }),
                 "counts accesses already"));
}

TEST_CASE("row 106: what bounds kernels of a device whose times were not taken is not guessed") {
  Row r{.self_ns = 1000};
  profiler::judge(r, {.untimed = true, .kernels = 3});
  CHECK(r.bound.empty());
  profiler::judge(r, {.queued = true, .kernels = 3, .kernel_ns = 100});
  CHECK(r.bound == "launch");
  Row waits{.self_ns = 1000, .waited_ns = 501};
  profiler::judge(waits, {.untimed = true, .kernels = 3});
  CHECK(waits.bound == "waiting");
}

TEST_CASE("row 106: the time that the host waits for its device is of the row that waits") {
  const WithStreams lazy(SimtStreams::lazy);
  const Tensor x = ones({1 << 14}, {.device = Device::simt()});
  const Profile p = profiler::profile([&] { (void)exp(x).sum().item(); });
  CHECK(row_of(p, "exp").waited_ns == 0);
  const Row outside = row_of(p, "(outside of operators)");  // item() is no operator
  CHECK(outside.waited_ns > 0);
  CHECK(outside.waited_ns <= outside.self_ns);
  CHECK((outside.bound == "waiting") == profiler::mostly_waits(outside));
}
