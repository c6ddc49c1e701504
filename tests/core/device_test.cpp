// Devices by name, and what is said of one that is not there.
#include "warptape/core/device.h"

#include <cstdlib>

#include "warptape/core/factories.h"
#include "warptape/core/machine/cpu_threads.h"
#include "warptape/tests/support/errors.h"

using namespace wt;

TEST_CASE("devices: names go there and back", "[wall][devices]") {
  for (const Device d : {Device::cpu(), Device::simt(), Device::cuda(), Device::cuda(3),
                         Device::meta(), Device::meta(DeviceKind::cuda)})
    CHECK(Device::parse(to_string(d).c_str()) == d);
  CHECK(Device::parse("cuda") == Device::cuda(0));
  CHECK(Device::parse("meta") == Device::meta(DeviceKind::cpu));
  CHECK(Device::parse("auto") == Device::best());
  for (const char* text : {"", "gpu", "cuda:", "cuda:-1", "cuda:256", "cuda:1x", "cpu:0", "CPU"}) {
    CAPTURE(text);
    CHECK(mentions(message_of([&] { (void)Device::parse(text); }), "auto, cpu, simt, cuda:N"));
  }
  CHECK(mentions(message_of([] { (void)Device::parse("smit"); }), "simt"));
}

TEST_CASE("devices: one that is not there says why", "[wall][devices]") {
  CHECK_NOTHROW(require_available(Device::cpu()));
  CHECK_NOTHROW(require_available(Device::simt()));
  CHECK_NOTHROW(require_available(Device::meta(DeviceKind::cuda)));  // shapes need no driver
  const int n = cuda::device_count();
  CHECK(cuda::is_available() == (n > 0));
  if (n == 0) {
    CHECK_FALSE(cuda::why_not().empty());
    CHECK(mentions(message_of([] { (void)zeros({1}, {.device = Device::cuda()}); }),
                   "NotAvailable: cuda:0: "));
    CHECK(Device::best() == Device::cpu());
  } else {
    CHECK_THROWS_AS((void)zeros({1}, {.device = Device::cuda(n)}), PlacementError);
    CHECK(Device::best() == Device::cuda(0));
  }
}

TEST_CASE("devices: the number of threads", "[wall][devices]") {
  const int before = num_threads();
  CHECK(before >= 1);
  set_num_threads(3);
  CHECK(num_threads() == 3);
  CHECK_THROWS_AS(set_num_threads(0), UsageError);
  CHECK(num_threads() == 3);
  set_num_threads(before);
}

TEST_CASE("devices: how many threads OMP_NUM_THREADS asks for", "[devices]") {
  const char* const before = std::getenv("OMP_NUM_THREADS");
  const std::string kept = before ? before : "";
  const auto asked = [](const char* text) {
    ::setenv("OMP_NUM_THREADS", text, 1);
    return detail::threads_of_environment();
  };
  for (const auto& [text, n] : {std::pair{"1", 1}, {" 3 ", 3}, {"4,2", 4}, {"64", 64}}) {
    CAPTURE(text);
    CHECK(asked(text) == n);
  }
  for (const char* text : {"", "0", "-2", "two", "3x", ",2", "1.5", "99999999999999999999"}) {
    CAPTURE(text);
    CHECK(asked(text) == 0);
  }
  before ? ::setenv("OMP_NUM_THREADS", kept.c_str(), 1) : ::unsetenv("OMP_NUM_THREADS");
}
