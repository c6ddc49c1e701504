// What run() sees to before a kernel is launched on cuda, over a fake runtime: the device that is
// current, the streams that the allocator is told of, what the device allows.
#include <string>

#include "warptape/core/async_copy.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/stream.h"
#include "warptape/kernels/dispatch/run_erased.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/fake_cuda.h"

using wt_test::FakeCuda;

namespace wt {  // kernels/device/launch.cuh, which is not for host code
void allow_dynamic_shared(const char* kernel, const char* op, const void* function, size_t bytes);
size_t launch_shared_limit(bool on_cuda);
[[noreturn]] void launch_failed(const char* kernel, const char* op, const char* reason, int code);
}  // namespace wt

namespace {

struct Args {
  wt::i64 size = 0;
  const void* x = nullptr;
  struct {
    wt::i64 count = 0;
    void* parts[3] = {};
  } list;
  wt::i64 bytes() const { return 0; }
  wt::i64 flops() const { return 0; }
};

// What the launches of a test saw.
const FakeCuda* fake_seen = nullptr;
int current_seen = -1;
const void* stream_seen = nullptr;
std::string ran;

template <char name>
void launch(const Args&, const wt::Launch& l) {
  ran += name;
  current_seen = fake_seen ? fake_seen->device() : -1;
  stream_seen = l.stream;
}
const char* needs_160(const Args& a, const wt::DeviceLimits& d) {
  return a.size == 0 && d.shared_bytes < 160 * 1024 ? "needs 160 KiB of shared memory" : nullptr;
}
const char* needs_tensor_cores(const Args&, const wt::DeviceLimits& d) {
  return d.major < 9 ? "needs compute capability 9.0" : nullptr;
}

constexpr wt::Variant<Args> kRows[] = {
    {.name = "wgmma", .rank = 30, .why_not_on = needs_tensor_cores, .launch = launch<'w'>},
    {.name = "block", .rank = 20, .why_not_on = needs_160, .launch = launch<'b'>},
    {.name = "naive", .rank = 10, .launch = launch<'n'>}};
const wt::Variants<Args> rows{kRows, 3};

}  // namespace

namespace wt {
template <>
struct ContractTable<Args> {
  static constexpr const char* kName = "a_launch_test";
  static const Variants<Args>* rows[kNumDeviceKinds];
  static const detail::ErasedContract erased;
};
const Variants<Args>* ContractTable<Args>::rows[kNumDeviceKinds] = {nullptr, &::rows, &::rows};
constinit const detail::ErasedContract ContractTable<Args>::erased =
    detail::erased_contract<Args>();
}  // namespace wt

using namespace wt;

namespace {
void use(const Tensor&) {}
void launch_on(const FakeCuda& fake, int device, void* stream = nullptr, Args a = {}) {
  fake_seen = &fake;
  current_seen = -1;
  run(a, Launch{nullptr, stream, nullptr, Device::cuda(device)});
}
// Two tensors that live on the default stream.
struct Blocks {
  Tensor a = zeros({64}).to(Device::cuda()), b = zeros({64}).to(Device::cuda());
  void* block_of_a = a.impl()->data;
};
}  // namespace

TEST_CASE("cuda launch: a kernel is launched on its arguments' device, whichever is current") {
  FakeCuda fake(2);
  const Tensor x = zeros({4}).to(Device::cuda(0)), y = zeros({4}).to(Device::cuda(1));
  launch_on(fake, 0);  // the latest call was for cuda:1
  CHECK(current_seen == 0);
  launch_on(fake, 1);
  CHECK(current_seen == 1);
  const int calls = fake.calls("set_device");
  launch_on(fake, 1);
  launch_on(fake, 1);
  CHECK(fake.calls("set_device") == calls);  // known to be current: nothing is asked of CUDA
  { const Tensor dying = zeros({4}).to(Device::cuda(0)); }
  launch_on(fake, 1);  // a release makes the tensor's device current
  CHECK(current_seen == 1);
}

TEST_CASE("cuda launch: a stream of another device is not used") {
  FakeCuda fake(2);
  const Stream side(Device::cuda(0));
  const StreamScope on(side);
  launch_on(fake, 0, mode.native_stream);
  CHECK(stream_seen == side.native());
  launch_on(fake, 1, mode.native_stream);  // as optimizers launch
  CHECK(stream_seen == nullptr);
  CHECK(current_seen == 1);
}

TEST_CASE("cuda launch: every block that the arguments point into is the stream's to finish with",
          "[wall][streams]") {
  FakeCuda fake;
  Blocks t;
  const Stream side(Device::cuda());
  const auto reused = [&] {  // is a's block handed out again at once?
    const void* block = t.block_of_a;
    t.a = Tensor();
    t.a = zeros({64}).to(Device::cuda());
    return t.a.impl()->data == block;
  };
  SECTION("an argument") {
    Args a;
    a.x = t.a.impl()->data;
    launch_on(fake, 0, side.native(), a);
    CHECK_FALSE(reused());
  }
  SECTION("inside a list, a view that begins later") {
    Args a;
    a.list.parts[2] = static_cast<char*>(t.a.impl()->data) + 40;
    launch_on(fake, 0, side.native(), a);
    CHECK_FALSE(reused());
  }
  SECTION("another tensor's") {
    Args a;
    a.x = t.b.impl()->data;
    launch_on(fake, 0, side.native(), a);
    CHECK(reused());
  }
  SECTION("its own stream") {
    Args a;
    a.x = t.a.impl()->data;
    launch_on(fake, 0, nullptr, a);
    CHECK(reused());
  }
  SECTION("a copy within the device") {
    const StreamScope on(side);
    copy_bytes(t.b.impl()->data, Device::cuda(), t.a.impl()->data, Device::cuda(), 64);
    const StreamScope back(Stream::default_of(Device::cuda()));
    CHECK_FALSE(reused());
  }
  SECTION("a fill") {
    const StreamScope on(side);
    fill_zero(t.a.impl()->data, Device::cuda(), 64);
    const StreamScope back(Stream::default_of(Device::cuda()));
    CHECK_FALSE(reused());
  }
  fake.run_all();
  CHECK(fake.violations().empty());
}

TEST_CASE("cuda launch: a variant that the chip has not enough for is passed over", "[run]") {
  const auto runs = [](const FakeCuda& fake, const Args& a = {}) {
    ran.clear();
    launch_on(fake, 0, nullptr, a);
    return ran;
  };
  {
    FakeCuda h100;
    CHECK(runs(h100) == "w");
    CHECK(device_limits(Device::cuda()).shared_bytes == 227 * 1024);
  }
  {
    FakeCuda a100;
    a100.major = 8;
    a100.shared_bytes = 163 * 1024;
    CHECK(runs(a100) == "b");
    CHECK(runs(a100) == "b");
    CHECK(a100.calls("properties") == 1);  // asked once
  }
  FakeCuda l4;
  l4.major = 8, l4.minor = 9;
  l4.shared_bytes = 99 * 1024;
  CHECK(runs(l4) == "n");
  Args large;
  large.size = 1;
  CHECK(runs(l4, large) == "b");
  CHECK(device_limits(Device::cuda()).minor == 9);
  const VariantScope scope("*", "block");  // an override is told why
  CHECK(mentions(message_of([&] { (void)runs(l4); }),
                 "variant \"block\" on cuda does not take these arguments: needs 160 "
                 "KiB of shared memory"));
}

TEST_CASE("cuda launch: without a device its limits are an H100's, and simt's can be set",
          "[run]") {
  {
    FakeCuda none(0);
    CHECK(device_limits(Device::meta(DeviceKind::cuda)).shared_bytes == 227 * 1024);
  }
  CHECK(device_limits(Device::cpu()).shared_bytes == 0);
  CHECK(&choose(Args{}, Device::simt()) == &kRows[0]);
  const DeviceLimits small{8, 6, 28, 99 * 1024};
  detail::set_simt_limits(&small);
  CHECK(&choose(Args{}, Device::simt()) == &kRows[2]);
  CHECK(launch_shared_limit(false) == 99 * 1024);
  detail::set_simt_limits(nullptr);
  CHECK(launch_shared_limit(false) == 227 * 1024);
}

TEST_CASE("cuda launch: more shared memory is asked for once a kernel, device and size") {
  FakeCuda fake(2);
  use(zeros({4}).to(Device::cuda(0)));
  static const char kernel = 0, other = 0;
  const auto allow = [](const void* f, size_t bytes) {
    allow_dynamic_shared("some_kernel", "softmax", f, bytes);
  };
  allow(&kernel, 60'000);
  allow(&kernel, 60'000);
  allow(&kernel, 50'000);
  CHECK(fake.calls("allow_shared") == 1);
  allow(&kernel, 70'000);
  allow(&other, 60'000);
  CHECK(fake.calls("allow_shared") == 3);
  launch_on(fake, 1);
  allow(&kernel, 60'000);  // another device
  CHECK(fake.calls("allow_shared") == 4);
  CHECK(launch_shared_limit(true) == 227 * 1024);
}

TEST_CASE("cuda launch: a refused launch is not held against the next one") {
  FakeCuda fake;
  use(zeros({4}).to(Device::cuda(0)));
  static const char kernel = 0;
  const std::string text =
      message_of([] { allow_dynamic_shared("some_kernel", "softmax", &kernel, 300 * 1024); });
  CHECK(mentions(text, "DeviceError: some_kernel [softmax]: fake error (CUDA error 1)"));
  CHECK(fake.api().last_error() == 0);
  fake.fail("wait_stream", 9);
  (void)fake.api().wait_stream(nullptr);  // WT_CUDA_SYNC=1 finds it so
  CHECK(
      mentions(message_of([] { launch_failed("some_kernel", nullptr, "invalid", 9); }), "invalid"));
  CHECK(fake.api().last_error() == 0);
}
