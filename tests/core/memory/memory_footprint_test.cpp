// What the pools keep, how it is cut up, and what is taken beside them.
#include "warptape/core/memory_footprint.h"

#include "warptape/core/factories.h"
#include "warptape/kernels/cuda/device.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/fake_cuda.h"

using namespace wt;

namespace {
constexpr i64 kMiB = i64{1} << 20;
Tensor bytes_on(Device d, i64 n) { return empty({n}, {.dtype = DType::u8, .device = d}); }
}  // namespace

TEST_CASE("row 35: a footprint is stats() and what the pools keep idle", "[memory]") {
  for (const Device d : {Device::cpu(), Device::simt()}) {
    CAPTURE(to_string(d));
    const Tensor held = bytes_on(d, 3 * kMiB + 1);
    const memory::Stats s = memory::stats(d);
    const memory::Footprint f = memory::footprint(d);
    CHECK(f.live == s.live);
    CHECK(f.reserved == s.reserved);
    CHECK(f.idle == s.reserved - s.live);
    CHECK(f.idle >= 0);
    CHECK(f.fragmentation == 0);  // blocks are not cut
    CHECK(f.largest_free == 0);
    CHECK(f.external > kMiB);  // the program itself
    CHECK(f.parts.empty());
  }
  {
    const memory::Footprint before = memory::footprint(Device::cpu());
    { const Tensor t = bytes_on(Device::cpu(), 5 * kMiB); }
    const memory::Footprint after = memory::footprint(Device::cpu());
    CHECK(after.live == before.live);
    CHECK(after.idle - before.idle == after.reserved - before.reserved);
  }
  const memory::Footprint meta = memory::footprint(Device::meta());
  CHECK(meta.external == 0);
  CHECK(meta.reserved == 0);
  if (cuda::device_count() == 0) CHECK_THROWS_AS(memory::footprint(Device::cuda()), NotAvailable);
}

TEST_CASE("row 35: on cuda the counters are cudaMemGetInfo's, whoever took the memory",
          "[memory]") {
  wt_test::FakeCuda fake(1, size_t(256 * kMiB));
  const Device d = Device::cuda();
  const auto agrees = [&] {
    const memory::Footprint f = memory::footprint(d);
    size_t free = 0, total = 0;
    REQUIRE(fake.api().memory_info(&free, &total) == kCudaSuccess);
    CHECK(f.reserved + f.external == i64(total - free));
    return f;
  };
  const Tensor small = bytes_on(d, 1000);
  const memory::Footprint before = agrees();
  CHECK(before.live == 1000);
  CHECK(before.reserved == 2 * kMiB);
  CHECK(before.idle == 2 * kMiB - 1000);
  CHECK(before.fragmentation == 0);  // one hole
  CHECK(before.largest_free == 2 * kMiB - 1024);
  CHECK(before.external == 0);

  void* library = nullptr;  // takes memory past the pools
  {
    const memory::ExternalScope outside(d, "a library");
    REQUIRE(fake.api().take_memory(&library, size_t(7 * kMiB)) == kCudaSuccess);
    const Tensor of_pool = bytes_on(d, 30 * kMiB);  // is not the library's
  }
  const memory::Footprint after = agrees();
  CHECK(after.external == 7 * kMiB);
  REQUIRE(after.parts.size() == 1);
  CHECK(after.parts[0].name == "a library");
  CHECK(after.parts[0].bytes == 7 * kMiB);
  fake.api().free_memory(library);
  CHECK(agrees().external == 0);
}

TEST_CASE("row 35: fragmentation is what lies outside of the largest free block", "[memory]") {
  wt_test::FakeCuda fake(1, size_t(256 * kMiB));
  const Device d = Device::cuda();
  { const Tensor whole = bytes_on(d, 64 * kMiB); }
  CHECK(memory::footprint(d).fragmentation == 0);
  CHECK(memory::footprint(d).largest_free == 64 * kMiB);
  std::vector<Tensor> parts;
  for (int i = 0; i < 8; ++i) parts.push_back(bytes_on(d, 8 * kMiB));
  for (const size_t i : {0, 2, 5, 6}) parts[i] = Tensor();  // holes of 8, 8 and 16 MiB
  const memory::Footprint f = memory::footprint(d);
  CHECK(f.idle == 32 * kMiB);
  CHECK(f.largest_free == 16 * kMiB);
  CHECK(f.fragmentation == 0.5);
  parts.clear();
  CHECK(memory::footprint(d).fragmentation == 0);
}
