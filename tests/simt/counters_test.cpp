// What simt counts, against what is known of an access before it is made.
#include "warptape/kernels/simt/counters.h"

#include "warptape/tests/simt/access_patterns.h"
#include "warptape/tests/simt/device_memory.h"
#include "warptape/tests/support/catch.h"

using namespace wt;

namespace {

using Kind = SimtAccess::Kind;

// Sums over the instructions of a kind, by request.
struct Figures {
  double requests = 0, lanes = 0, units = 0, least = 0;
};
Figures figures(const SimtKernelCounts& k, Kind kind, bool shared) {
  Figures f;
  for (const SimtAccess& a : k.accesses) {
    if (a.kind != kind || a.shared != shared) continue;
    f.requests += double(a.requests), f.lanes += double(a.lanes);
    f.units += double(a.units), f.least += double(a.least);
  }
  if (f.requests > 0) f.lanes /= f.requests, f.units /= f.requests, f.least /= f.requests;
  return f;
}

template <class F>
SimtKernelCounts counted(F launch) {
  simt_start_counting();
  launch();
  const std::vector<SimtKernelCounts> all = simt_stop_counting();
  REQUIRE(all.size() == 1);
  return all[0];
}

bool instrumented() {
  if (simt_can_count()) return true;
  CHECK_THROWS_AS(simt_start_counting(), UsageError);
  CHECK(simt_stop_counting().empty());
  return false;
}

}  // namespace

TEST_CASE("counters: the sectors of a warp's access follow from its addresses") {
  if (!instrumented()) return;
  const DeviceArray<float> x(std::vector<float>(2048, 1.0f)), out(1024);
  struct Case {
    int stride, offset;
    double sectors, least;
  };
  for (const Case& c : {Case{1, 0, 4, 4},
                        {2, 0, 8, 4},
                        {8, 0, 32, 4},
                        {32, 0, 32, 4},
                        {1, 1, 5, 4},
                        {3, 0, 12, 4},
                        {0, 7, 1, 1}}) {
    CAPTURE(c.stride, c.offset);
    const SimtKernelCounts k = counted([&] { test_strided(out, x, c.stride, c.offset); });
    const Figures load = figures(k, Kind::load, false), store = figures(k, Kind::store, false);
    CHECK(load.requests == 1);
    CHECK(load.lanes == 32);
    CHECK(load.units == c.sectors);
    CHECK(load.least == c.least);
    CHECK(store.units == 4);
    CHECK(double(k.read) == 32 * c.sectors);
    CHECK(k.written == 128);
    CHECK(k.threads == 32);
  }
  const SimtKernelCounts k = counted([&] { test_vector_copy(out, x); });
  const Figures load = figures(k, Kind::load, false), store = figures(k, Kind::store, false);
  CHECK(load.requests == 1);
  CHECK(load.units == 16);
  CHECK(load.least == 16);
  CHECK(store.requests == 1);
  CHECK(store.units == 16);
}

TEST_CASE("counters: a transpose stores 32 sectors at a time, or meets one bank, or neither") {
  if (!instrumented()) return;
  const DeviceArray<float> x(std::vector<float>(1024, 1.0f)), out(1024);
  const SimtKernelCounts plain = counted([&] { test_transpose(out, x); });
  CHECK(figures(plain, Kind::load, false).units == 4);
  CHECK(figures(plain, Kind::store, false).units == 32);
  CHECK(figures(plain, Kind::store, false).least == 4);
  CHECK(plain.written == 4096);  // every sector once, however often it was asked for
  for (const bool padded : {false, true}) {
    const SimtKernelCounts k = counted([&] { test_transpose_shared(out, x, padded); });
    CHECK(figures(k, Kind::store, false).units == 4);
    CHECK(figures(k, Kind::store, true).units == 1);
    CHECK(figures(k, Kind::load, true).units == (padded ? 1 : 32));
    CHECK(figures(k, Kind::load, true).least == 1);
    CHECK(k.barriers == 1);
  }
  const SimtKernelCounts wide = counted([&] { test_vector_shared(out, x); });
  CHECK(figures(wide, Kind::load, true).units == 4);  // a quarter warp at a time
  CHECK(figures(wide, Kind::load, true).least == 4);
}

TEST_CASE("counters: lanes that a branch or a loop leaves out are not counted") {
  if (!instrumented()) return;
  const DeviceArray<float> x(std::vector<float>(1024, 1.0f)), out(32);
  const SimtKernelCounts odd = counted([&] { test_odd_lanes(out, x); });
  CHECK(figures(odd, Kind::load, false).lanes == 16);
  CHECK(figures(odd, Kind::store, false).lanes == 16);
  const SimtKernelCounts triangle = counted([&] { test_triangle(out, x); });
  CHECK(figures(triangle, Kind::load, false).requests == 32);
  CHECK(figures(triangle, Kind::load, false).lanes == 16.5);
  const DeviceArray<int> n(1);
  const SimtKernelCounts one = counted([&] { test_one_counter(n); });
  CHECK(figures(one, Kind::atomic, true).units == 32);
  CHECK(n.host()[0] == 32);
}

TEST_CASE("counters: the order of threads changes no count, and every access has its line") {
  if (!instrumented()) return;
  const DeviceArray<float> x(std::vector<float>(1024, 1.0f)), out(1024);
  const auto text = [&](SimtOrder order) {
    const WithSimt options(order, 3);
    std::string s;
    for (const SimtAccess& a : counted([&] { test_transpose_shared(out, x, false); }).accesses) {
      REQUIRE(!a.where.empty());
      s += str(a.where[0].substr(a.where[0].rfind('/') + 1), " ", a.requests, " ", a.lanes, " ",
               a.units, " ", a.least, "\n");
    }
    return s;
  };
  const std::string forward = text(SimtOrder::forward);
  CHECK(forward.find("access_patterns.cu:") == 0);
  CHECK(text(SimtOrder::reverse) == forward);
  CHECK(text(SimtOrder::random) == forward);
  // Kernels that run while nobody counts are not counted.
  test_transpose(out, x);
  CHECK(counted([&] { test_vector_copy(out, x); }).launches == 1);
}
