// The cuda device on a GPU; skipped, visibly, where there is none.
#include <cmath>
#include <cstring>

#include "warptape/autograd/ops/index.h"
#include "warptape/core/async_copy.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/stream.h"
#include "warptape/kernels/copy.h"
#include "warptape/kernels/cuda/device.h"
#include "warptape/kernels/run.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"

using namespace wt;

#define NEED_A_GPU() \
  if (!cuda::is_available()) SKIP_TEST(cuda::why_not().c_str())

namespace {

const Device kCuda = Device::cuda(0);

// On an emulated device, which sees by itself what nothing orders, fewer rounds of less.
i64 fewer(i64 on_gpu, i64 emulated) { return wt_test::whole_walk() ? on_gpu : emulated; }

std::vector<float> counting(i64 n, int from = 0) {
  std::vector<float> v(static_cast<size_t>(n));
  for (i64 i = 0; i < n; ++i) v[size_t(i)] = float((i + from) % 1000);
  return v;
}
Tensor on_gpu(const std::vector<float>& v) { return tensor(v).to(kCuda); }
void use(const Tensor&) {}
// The copy kernel: out = in as another dtype.
Tensor converted(const Tensor& in, DType t) { return in.to(t); }

}  // namespace

// tests/support/run_gpu_case.sh asks this first.
TEST_CASE("gpu: there is one", "[gpu_probe]") {
  NEED_A_GPU();
  const cuda::Properties p = cuda::properties();
  CHECK_FALSE(p.name.empty());
  CHECK(p.multiprocessors > 0);
  CHECK(p.memory_bytes > 0);
  CHECK(p.l2_bytes > 0);
  CHECK(p.shared_bytes >= 48 * 1024);
  CHECK(p.driver >= p.runtime - p.runtime % 1000);
}

TEST_CASE("gpu: bytes come back as they went, whatever their number") {
  NEED_A_GPU();
  for (const i64 n : {i64{1}, i64{3}, i64{255}, i64{1 << 20}, fewer(20'000'003, 2'000'003)}) {
    CAPTURE(n);
    const std::vector<float> v = counting(n);
    Tensor host = tensor(v);
    const Tensor x = host.to(kCuda);
    std::memset(host.mutable_data<float>(), 0, size_t(n) * 4);  // free on return
    CHECK((x.to(Device::cpu()).to_vector<float>() == v));
  }
}

TEST_CASE("gpu: asynchronous copies and their lifetimes") {
  NEED_A_GPU();
  const std::vector<float> v = counting(fewer(5'000'000, 500'000));
  Tensor host = pin(tensor(v), kCuda);
  const Tensor x = copy_async(host, kCuda);
  host.mutable_data<float>()[0] = -1;  // waits
  const Tensor back = copy_async(x, Device::cpu());
  CHECK((back.to_vector<float>() == v));
  for (int round = 0; round < 20; ++round) {  // blocks of page-locked memory go around
    const std::vector<float> w = counting(100'000, round);
    Tensor p = pin(tensor(w), kCuda);
    const Tensor y = copy_async(p, kCuda);
    p = Tensor();
    CHECK((copy_async(y, Device::cpu()).to_vector<float>() == w));
  }
}

TEST_CASE("gpu: kernels on two streams with tensors that die early") {
  NEED_A_GPU();
  const Stream side(kCuda);
  const i64 n = fewer(300'000, 30'000), rounds = fewer(50, 12);
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    Tensor x = on_gpu(counting(n, round));
    Tensor y;
    side.wait(Stream::current(kCuda));
    {
      const StreamScope on(side);
      y = converted(x, DType::f64);
      y = converted(y, DType::f32);
    }
    x = Tensor();                              // the side stream may still read it
    const Tensor z = on_gpu(counting(n, -1));  // must not land there
    Stream::current(kCuda).wait(side);
    CHECK((y.to_vector<float>() == counting(n, round)));
  }
}

TEST_CASE("gpu: after a warm-up the allocator asks the runtime for nothing") {
  NEED_A_GPU();
  const Tensor x = on_gpu(counting(fewer(100'000, 10'000)));
  const auto step = [&] {
    Tensor y = converted(x, DType::f16);
    y = converted(y, DType::f32);
    return converted(y, DType::bf16);
  };
  for (int i = 0; i < 3; ++i) use(step());
  const CudaPoolStats before = cuda_pool_stats(kCuda);
  for (i64 i = fewer(100, 10); i-- > 0;) use(step());
  const CudaPoolStats after = cuda_pool_stats(kCuda);
  CHECK(after.mallocs == before.mallocs);
  CHECK(after.allocated == before.allocated);
}

TEST_CASE("gpu: events measure time") {
  NEED_A_GPU();
  const i64 n = fewer(1 << 26, 1 << 24);
  const Tensor a = empty({n}, {.device = kCuda}), b = empty({n}, {.device = kCuda});
  Event start(kCuda, true), end(kCuda, true);
  start.record();
  for (int i = 0; i < 10; ++i)
    copy_bytes(b.impl()->data, kCuda, a.impl()->data, kCuda, a.numel() * 4);
  end.record();
  end.synchronize();
  const double ms = end.milliseconds_since(start);
  CHECK(ms > 0.1);     // 5 GB, or emulated 1.3, faster than 50 or 13 TB/s would be no copy
  CHECK(ms < 10'000);  // and slower than 0.5 GB/s no GPU
}

TEST_CASE("gpu: a bad index is reported at the next wait and the device lives on") {
  NEED_A_GPU();
  const Tensor table = on_gpu(counting(40)).reshape({10, 4});
  const Tensor good = tensor(std::vector<i64>{1, 9}).to(kCuda);
  const Tensor bad = tensor(std::vector<i64>{3, 10}).to(kCuda);
  const Tensor y = embedding(bad, table);
  CHECK_THROWS_AS(y.to_vector<float>(), IndexError);
  CHECK(embedding(good, table).to_vector<float>()[4] == 36);
}

TEST_CASE("gpu: out of memory is an error like any other") {
  NEED_A_GPU();
  const auto before = memory::live_objects();
  const i64 too_much = cuda::properties().memory_bytes * 2;
  CHECK_THROWS_AS(empty({too_much}, {.dtype = DType::u8, .device = kCuda}), OutOfMemory);
  CHECK(memory::live_objects() == before);
  CHECK(on_gpu({1, 2, 3}).to_vector<float>()[2] == 3);
}

// Ends the device for this process, so it runs alone: tools/gpu_gate.sh names its tag.
TEST_CASE("gpu: an illegal address kills the device, with its cause", "[.][gpu_fatal]") {
  NEED_A_GPU();
  const Tensor x = on_gpu(counting(1000));
  synchronize(kCuda);
  CopyArgs a{view_of(x.impl()), view_of(x.impl())};
  a.out.data = reinterpret_cast<void*>(u64{256});
  std::string text;
  try {
    run(a, Launch{.device = kCuda});
    synchronize(kCuda);
  } catch (const DeviceError& e) {
    text = e.what();
  }
  CHECK(text.find("cuda:0 cannot be used any more") != std::string::npos);
  CHECK(text.find("illegal memory access") != std::string::npos);
  try {
    use(on_gpu({1, 2}));
    FAIL("a dead device was used");
  } catch (const DeviceError& e) {
    CHECK(text == e.what());
  }
}
