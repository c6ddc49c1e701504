// The cuda device over a fake runtime: why there is none, failed calls, copies, streams, lifetimes.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/async_copy.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/mailbox.h"
#include "warptape/core/memory.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/memory/pinned.h"
#include "warptape/core/stream.h"
#include "warptape/kernels/cuda/device.h"
#include "warptape/tests/simt/device_memory.h"
#include "warptape/tests/support/ambient.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/fake_cuda.h"

namespace wt {  // kernels/device/launch.cuh, which is not for host code
[[noreturn]] void launch_failed(const char* kernel, const char* op, const char* reason, int code);
extern bool launches_wait;
}  // namespace wt

using namespace wt;
using wt_test::Environment;
using wt_test::FakeCuda;

namespace {

const Device kCuda = Device::cuda(0);

template <class E, class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  FAIL("nothing was thrown");
  return {};
}
void use(const Tensor&) {}
bool has(const std::string& text, const char* part) { return text.find(part) != text.npos; }

std::vector<float> counting(i64 n) {
  std::vector<float> v(static_cast<size_t>(n));
  for (i64 i = 0; i < n; ++i) v[size_t(i)] = float(i % 1000);
  return v;
}

}  // namespace

// --- page-locked memory ---
TEST_CASE("cuda: page-locked memory stays with the kind of device that has locked it") {
  FakeCuda fake;
  {
    const Tensor there = empty({1000}, {.device = kCuda});
    std::vector<float> values(1000);
    copy_bytes(values.data(), Device::cpu(), there.impl()->data, kCuda, 4000);
    CHECK(fake.calls("take_host") == 1);
    const WithStreams lazy(SimtStreams::lazy);
    (void)ones({1000}, {.device = Device::simt()}).to(Device::cpu());
  }  // which trims
  CHECK(fake.calls("free_host") == 1);
  CHECK(fake.violations() == std::vector<std::string>{});
}

// --- availability ---
TEST_CASE("cuda: the reasons for having no device are told apart") {
  FakeCuda fake;
  const auto why = [&](int code, int count, const char* visible) {
    return explain_cuda_count(fake.api(), code, count, visible);
  };
  CHECK(why(0, 2, nullptr).empty());
  fake.driver_version = 0;
  CHECK(has(why(kCudaInsufficientDriver, -1, nullptr), "no NVIDIA driver"));
  CHECK(has(why(kCudaInsufficientDriver, -1, nullptr), "CUDA 13.0 or newer"));
  fake.driver_version = 12040;
  CHECK(has(why(kCudaInsufficientDriver, -1, nullptr),
            "the driver is too old: it is for CUDA 12.4, this build needs 13.0"));
  CHECK(has(why(kCudaNoDevice, -1, nullptr), "sees no GPU"));
  CHECK(has(why(0, 0, nullptr), "sees no GPU"));
  CHECK(has(why(kCudaNoDevice, -1, ""), "CUDA_VISIBLE_DEVICES is empty"));
  CHECK(has(why(kCudaNoDevice, -1, "7"), "CUDA_VISIBLE_DEVICES=7 names no GPU"));
  CHECK(has(why(kCudaStubLibrary, -1, nullptr), "stub"));
  CHECK(has(why(kCudaDriverMismatch, -1, nullptr), "different versions"));
  CHECK(has(why(999, -1, nullptr), "CUDA error 999"));
}

TEST_CASE("cuda: without a device cpu works and cuda says why") {
  FakeCuda fake(0);
  CHECK_FALSE(cuda::is_available());
  CHECK(cuda::device_count() == 0);
  CHECK(Device::best() == Device::cpu());
  CHECK(has(message_of<NotAvailable>([] { use(zeros({2}).to(kCuda)); }), "sees no GPU"));
  CHECK_THROWS_AS(Stream(kCuda), NotAvailable);
  CHECK_THROWS_AS(Event(kCuda).record(), NotAvailable);
  CHECK_THROWS_AS(use(copy_async(zeros({2}), kCuda)), NotAvailable);
  CHECK_THROWS_AS(cuda::properties(), NotAvailable);
}

TEST_CASE("cuda: a wrong index names what exists") {
  FakeCuda fake(2);
  CHECK(has(message_of<PlacementError>([] { use(zeros({2}).to(Device::cuda(5))); }),
            "there is no cuda:5: this machine has cuda:0 to cuda:1"));
  const Tensor x = zeros({2}).to(kCuda);  // started: the index is still looked at
  CHECK_THROWS_AS(use(zeros({2}).to(Device::cuda(2))), PlacementError);
  CHECK_THROWS_AS(cuda::properties(2), PlacementError);
  CHECK(memory::stats(Device::cuda(7)).reserved == 0);
  CHECK(cuda::properties(1).name == "Fake");
}

// --- failures ---
TEST_CASE("cuda: an error that ends the context marks the device dead, with the first cause") {
  FakeCuda fake(2);
  const Tensor x = tensor({1, 2, 3}).to(kCuda);
  fake.fail("copy", kCudaIllegalAddress);
  const std::string first = message_of<DeviceError>([&] { use(x.to(Device::cpu())); });
  CHECK(has(first, "cuda:0 cannot be used any more"));
  CHECK(has(first, "an illegal memory access was encountered (CUDA error 700)"));
  CHECK(has(first, "[to_device] cudaMemcpyAsync"));
  CHECK(has(first, "cuda_device_test.cpp"));
  CHECK(has(first, "WT_CUDA_SYNC=1"));
  fake.fail("copy", 0);
  // Later calls repeat the first cause, whatever they are.
  CHECK(message_of<DeviceError>([&] { use(zeros({2}).to(kCuda)); }) == first);
  CHECK(message_of<DeviceError>([&] { Stream s(kCuda); }) == first);
  CHECK(message_of<DeviceError>([&] { synchronize(kCuda); }) == first);
  try {
    use(zeros({2}).to(kCuda));
  } catch (const Error& e) {
    CHECK(e.exit_code() == 6);
  }
  // The other device lives, and so do those of the host.
  CHECK(zeros({2}).to(Device::cuda(1)).to(Device::cpu()).to_vector<float>()[0] == 0);
}

TEST_CASE("cuda: an error that leaves the context whole is thrown once") {
  FakeCuda fake;
  fake.fail("copy", 1);
  const std::string text = message_of<DeviceError>([] { use(zeros({2}).to(kCuda)); });
  CHECK(has(text, "[to_device] cudaMemcpyAsync on cuda:0: fake error (CUDA error 1)"));
  fake.fail("copy", 0);
  CHECK(zeros({2}).to(kCuda).to(Device::cpu()).to_vector<float>()[1] == 0);
}

TEST_CASE("cuda: a failed launch names its kernel; a sticky error ends the device") {
  FakeCuda fake;
  const Tensor x = zeros({2}).to(kCuda);
  const std::string refused =
      message_of<DeviceError>([] { launch_failed("some_kernel", "softmax", "invalid", 9); });
  CHECK(has(refused, "some_kernel [softmax]: invalid (CUDA error 9)"));
  const std::string chip =
      message_of<DeviceError>([] { launch_failed("some_kernel", nullptr, "no image", 209); });
  CHECK(has(chip, "CMAKE_CUDA_ARCHITECTURES"));
  CHECK(zeros({2}).to(kCuda).defined());  // neither ended it
  const std::string fatal = message_of<DeviceError>(
      [] { launch_failed("some_kernel", "softmax", "illegal", kCudaIllegalAddress); });
  CHECK(has(fatal, "cuda:0 cannot be used any more"));
  CHECK(has(fatal, "found by some_kernel [softmax]; an earlier kernel may be the cause"));
  CHECK(message_of<DeviceError>([] { use(zeros({2}).to(kCuda)); }) == fatal);
}

TEST_CASE("cuda: WT_CUDA_SYNC=1 makes launches wait, and the named kernel is the cause") {
  {
    const Environment e("WT_CUDA_SYNC", "1");
    FakeCuda fake;
    const Tensor x = zeros({2}).to(kCuda);
    CHECK(launches_wait);
    const std::string text = message_of<DeviceError>(
        [] { launch_failed("some_kernel", "softmax", "illegal", kCudaIllegalAddress); });
    CHECK(has(text, "found by some_kernel [softmax]"));
    CHECK_FALSE(has(text, "earlier kernel"));
  }
  CHECK_FALSE(launches_wait);
}

TEST_CASE("cuda: no memory on the device is OutOfMemory and leaves nothing behind") {
  FakeCuda fake(1, size_t{8} << 20);
  const auto before = memory::live_objects();
  {
    const Tensor x = zeros({256, 1024});
    const Tensor a = x.to(kCuda);
    const Tensor large = zeros({4096, 1024});
    CHECK_THROWS_AS(use(large.to(kCuda)), OutOfMemory);
    // What another process holds is told apart from what this one does.
    void* others = nullptr;
    REQUIRE(fake.api().take_memory(&others, size_t{2} << 20) == kCudaSuccess);
    const std::string text = message_of<OutOfMemory>([&] { use(large.to(kCuda)); });
    INFO(text);
    CHECK(has(text, "asked for 16 MiB on cuda:0"));
    CHECK(has(text, "the device has 8192 KiB, of which "));
    CHECK(has(text, " are free and 2048 KiB are others' (processes, contexts, libraries)"));
    CHECK(fake.api().free_memory(others) == kCudaSuccess);
    CHECK(a.to(Device::cpu()).to_vector<float>()[5] == 0);
  }
  CHECK(memory::live_objects() == before);
}

TEST_CASE("cuda: a forked child is told, the parent goes on") {
  FakeCuda fake;
  const Tensor x = tensor({1, 2}).to(kCuda);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int code = 1;
    try {
      use(x.to(Device::cpu()));
    } catch (const DeviceError& e) {
      code = has(e.what(), "forked") ? 0 : 2;
    } catch (...) {}
    _exit(code);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(x.to(Device::cpu()).to_vector<float>()[1] == 2);
}

TEST_CASE("cuda: WT_ALLOC") {
  {
    const Environment e("WT_ALLOC", "direkt");
    FakeCuda fake;
    const std::string text = message_of<UsageError>([] { use(zeros({2}).to(kCuda)); });
    CHECK(has(text, "WT_ALLOC=direkt"));
    CHECK(has(text, "direct"));
  }
  const Environment e("WT_ALLOC", "direct");
  FakeCuda fake;
  {
    const Tensor x = zeros({3}).to(kCuda);
    CHECK(fake.device_bytes() == 12);
  }
  CHECK(fake.device_bytes() == 0);
}

// --- copies ---
TEST_CASE("cuda: copies to the device do not wait, and the host's bytes are free on return",
          "[wall][streams]") {
  FakeCuda fake;
  for (const i64 n : {1, 1000, 9'000'000}) {  // one piece, and many
    CAPTURE(n);
    const std::vector<float> values = counting(n);
    Tensor host = tensor(values);
    const Tensor x = host.to(kCuda);
    CHECK(fake.queued(nullptr) > 0);
    std::memset(host.mutable_data<float>(), 0, size_t(n) * 4);
    CHECK(x.to(Device::cpu()).to_vector<float>() == values);
    CHECK(fake.queued(nullptr) == 0);
  }
  CHECK(fake.violations().empty());
  CHECK(pinned_bytes() <= i64{64} << 20);
}

TEST_CASE("cuda: copy_async from pinned memory reads it where it lies, and everybody waits",
          "[wall][streams]") {
  FakeCuda fake;
  const std::vector<float> values = counting(1000);
  Tensor host = pin(tensor(values), kCuda);
  CHECK(is_pinned(host));
  CHECK_FALSE(is_pinned(tensor(values)));
  CHECK(host.device() == Device::cpu());
  const Tensor x = copy_async(host, kCuda);
  CHECK(fake.queued(nullptr) > 0);
  SECTION("a write waits") {
    host.mutable_data<float>()[0] = -1;
    CHECK(fake.queued(nullptr) == 0);
    CHECK(x.to(Device::cpu()).to_vector<float>() == values);
  }
  SECTION("an operator waits") {
    host.add_(tensor({1.0f}));
    CHECK(x.to(Device::cpu()).to_vector<float>() == values);
  }
  SECTION("the memory is not used again too early") {
    host = Tensor();
    const Tensor other = pin(zeros({1000}), kCuda);
    CHECK(x.to(Device::cpu()).to_vector<float>() == values);
    CHECK(other.to_vector<float>()[1] == 0);
  }
  SECTION("two copies of it at once") {
    const Stream side(kCuda);
    Tensor y;
    {
      const StreamScope on(side);
      y = copy_async(host, kCuda);
    }
    host.mutable_data<float>()[0] = -1;  // after both
    CHECK(fake.queued() == 0);
    CHECK(x.to(Device::cpu()).to_vector<float>() == values);
    CHECK(y.to(Device::cpu()).to_vector<float>() == values);
  }
  CHECK(fake.violations().empty());
}

TEST_CASE("cuda: copy_async to the host is read when it has arrived", "[wall][streams]") {
  FakeCuda fake;
  const std::vector<float> values = counting(300);
  const Tensor x = tensor(values).to(kCuda);
  fake.run_all();
  Tensor y = copy_async(x, Device::cpu());
  CHECK(fake.queued(nullptr) > 0);
  CHECK((process_slow.load() & ~u32(kSlowHostCopies - 1)) != 0);
  SECTION("data") { CHECK(y.data<float>()[299] == 299); }
  SECTION("values") { CHECK(y.to_vector<float>() == values); }
  SECTION("an operator") {
    const Tensor z = add(y, tensor({1.0f}));
    CHECK(z.data<float>()[299] == 300);
  }
  SECTION("back again, without the host") {
    const Tensor z = copy_async(y, kCuda);
    CHECK(fake.queued(nullptr) > 0);
    CHECK(z.to(Device::cpu()).to_vector<float>() == values);
  }
  SECTION("never read") {}
  y = Tensor();
  fake.run_all();
  CHECK((process_slow.load() & ~u32(kSlowHostCopies - 1)) == 0);
  CHECK(fake.violations().empty());
}

TEST_CASE("cuda: item() waits for the device once, for its value and for what kernels reported",
          "[wall][streams]") {
  FakeCuda fake;
  const Tensor x = tensor({1.5}).to(kCuda);
  MailboxRecord* const box = mailbox_of(kCuda);
  CHECK(x.item<float>() == 1.5);
  const int waits = fake.calls("waited");
  const int copies = fake.calls("copy");
  CHECK(x.item<float>() == 1.5);
  CHECK(fake.calls("copy") == copies + 2);
  CHECK(fake.calls("waited") == waits + 1);
  CHECK(tensor(counting(30'000)).to(kCuda).to_vector<float>()[29'999] == 999);
  box->raised = i32(MailboxCode::index_out_of_range);  // as a kernel would
  CHECK_THROWS_AS(x.item<float>(), IndexError);
  CHECK(x.item<float>() == 1.5);
  CHECK(fake.violations().empty());
}

TEST_CASE("copy_async and pin on devices without a queue are plain copies", "[wall][streams]") {
  const WithStreams eager(SimtStreams::eager);
  const Tensor x = tensor({1, 2, 3});
  CHECK_FALSE(is_pinned(pin(x, Device::simt())));
  const Tensor y = copy_async(x, Device::simt());
  CHECK(y.device() == Device::simt());
  CHECK(copy_async(y, Device::cpu()).to_vector<float>() == std::vector<float>{1, 2, 3});
  CHECK(copy_async(x, Device::cpu()).same_as(x));
}

// --- streams ---
TEST_CASE("cuda: work and memory follow the current stream", "[wall][streams]") {
  FakeCuda fake;
  const Stream side(kCuda);
  CHECK(Stream::current(kCuda) == Stream::default_of(kCuda));
  Tensor x;
  {
    const StreamScope on(side);
    CHECK(Stream::current(kCuda) == side);
    CHECK(mode.native_stream == side.native());
    x = tensor({1, 2, 3}).to(kCuda);
    {
      const StreamScope back(Stream::default_of(kCuda));
      CHECK(mode.native_stream == nullptr);
      const StreamScope host{Stream(Device::cpu())};  // the host's queue changes nothing
    }
    CHECK(mode.native_stream == side.native());
  }
  CHECK(mode.native_stream == nullptr);
  CHECK(mode.id == 0);
  CHECK(fake.queued(side.native()) > 0);
  CHECK(fake.queued(nullptr) == 0);
  CHECK_FALSE(side.done());
  Stream::current(kCuda).wait(side);
  CHECK(x.to(Device::cpu()).to_vector<float>()[2] == 3);  // ran the side stream first
  CHECK(side.done());
  side.synchronize();
}

TEST_CASE("cuda: operators tell the allocator which stream uses a tensor", "[wall][streams]") {
  FakeCuda fake;
  const Stream side(kCuda);
  Tensor x = tensor(counting(64)).to(kCuda);
  void* const block = x.impl()->data;
  {
    const StreamScope on(side);
    const Tensor part = slice(x, 0, {0, 8});
    use(copy_async(part, Device::cpu()));  // queued on the side stream
  }
  x = Tensor();
  const Tensor y = tensor(counting(64)).to(kCuda);
  CHECK(y.impl()->data != block);  // the side stream has not read it yet
  fake.run_all();
  const Tensor z = tensor(counting(64)).to(kCuda);
  CHECK(z.impl()->data == block);
  CHECK(fake.violations().empty());
}

TEST_CASE("cuda: a node's stream comes back with its mode, in order", "[wall][streams][mode]") {
  FakeCuda fake;
  const Stream side(kCuda);
  u32 id = 0;
  {
    const StreamScope on(side);
    id = mode.id;
  }
  REQUIRE(id != 0);
  Tensor x = tensor({5, 6}).to(kCuda);  // queued on the default stream
  restore_mode(id);
  CHECK(mode.native_stream == side.native());
  const Tensor host = copy_async(x, Device::cpu());
  restore_mode(0);
  CHECK(mode.native_stream == nullptr);
  CHECK(host.to_vector<float>() == std::vector<float>{5, 6});
  CHECK(fake.violations().empty());
}

TEST_CASE("cuda: an operand of another device than the current stream's is refused",
          "[wall][streams]") {
  FakeCuda fake(2);
  const Tensor x = tensor({1, 2}).to(Device::cuda(1));
  const Stream side(kCuda);
  const StreamScope on(side);
  CHECK(has(message_of<PlacementError>([&] {
              use(slice(x, 0, {0, 1}));
            }),
            "[slice] the operand is on cuda:1 and the current stream belongs to cuda:0"));
}

TEST_CASE("cuda: streams are lent out again", "[wall][streams]") {
  FakeCuda fake;
  void* native = nullptr;
  {
    const Stream a(kCuda);
    native = a.native();
    const Stream copy = a;  // NOLINT: the copy keeps it
    const Stream b(kCuda);
    CHECK_FALSE(b == a);
  }
  const Stream c(kCuda), d(kCuda);
  CHECK((c.native() == native || d.native() == native));
  CHECK(fake.calls("make_stream") == 2);
}

TEST_CASE("cuda: events", "[wall][streams]") {
  FakeCuda fake;
  Event start(kCuda, true), end(kCuda, true), plain(kCuda);
  CHECK(start.done());
  CHECK_THROWS_AS(end.milliseconds_since(start), UsageError);  // never recorded
  start.record();
  end.record();
  plain.record();
  CHECK_FALSE(end.done());
  CHECK_THROWS_AS(end.milliseconds_since(start), UsageError);  // not there yet
  end.synchronize();
  CHECK(end.milliseconds_since(start) == 1.5);
  CHECK_THROWS_AS(plain.milliseconds_since(start), UsageError);  // made without timing
  Event moved = std::move(end);
  CHECK(moved.done());
  CHECK(fake.violations().empty());
}

TEST_CASE("streams and events of cpu and simt: everything has finished", "[wall][streams]") {
  const WithStreams eager(SimtStreams::eager);
  for (const Device d : {Device::cpu(), Device::simt()}) {
    const Stream s(d);
    CHECK(s.done());
    s.synchronize();
    Event a(d, true), b(d, true);
    a.record();
    b.record();
    CHECK(b.done());
    CHECK(b.milliseconds_since(a) >= 0);
    s.wait(b);
    const StreamScope on(s);
    CHECK(mode.id == 0);
  }
}

TEST_CASE("cuda: allocator figures reach the memory report") {
  FakeCuda fake;
  {
    const Tensor x = zeros({1024}).to(kCuda);
    CHECK(cuda_pool_stats(kCuda).allocated == 4096);
    CHECK(memory::stats(kCuda).reserved == i64{2} << 20);
  }
  memory::empty_cache();
  CHECK(memory::stats(kCuda).reserved == 0);
  CHECK(cuda_pool_stats(kCuda).mallocs == 1);
}

// --- the real one ---
TEST_CASE("cuda: a machine without a usable device says so in every way") {
  if (cuda::is_available()) SKIP_TEST("this machine has a cuda device");
  CHECK(cuda::device_count() == 0);
  CHECK_FALSE(cuda::why_not().empty());
  CHECK(message_of<NotAvailable>([] { use(zeros({2}).to(kCuda)); }).find(cuda::why_not()) !=
        std::string::npos);
}
