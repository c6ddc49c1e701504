// Copies and fills of the emulated runtime, and what it finds wrong with them.
#include "runtime.h"

TEST_CASE("emulated copies: pageable sources are taken at the call") {
  const Stream s;
  const DeviceBytes d(1000);
  for (int round = 0; round < 20; ++round) {
    std::vector<unsigned char> h(1000, 1);
    OK(cudaMemcpyAsync(d, h.data(), 1000, cudaMemcpyHostToDevice, s));
    std::fill(h.begin(), h.end(), 2);
    OK(cudaMemcpyAsync(h.data(), d, 1000, cudaMemcpyDeviceToHost, s));
    CHECK(h[999] == 1);  // the copy into pageable memory was waited for
  }
}

TEST_CASE("emulated copies: a page-locked source that changes too early is found") {
  const Findings found;
  const Stream s;
  const DeviceBytes d(4096);
  const PinnedBytes h(4096);
  int changed_before_the_copy = 0;
  for (int round = 0; round < 20; ++round) {
    h[7] = 1;
    OK(cudaMemcpyAsync(d, h, 4096, cudaMemcpyHostToDevice, s));
    h[7] = 2;
    OK(cudaStreamSynchronize(s));
    changed_before_the_copy += d.read()[7] == 2;
  }
  CHECK(changed_before_the_copy > 0);
  CHECK(found.count() == uint64_t(changed_before_the_copy));
}

TEST_CASE("emulated copies: a page-locked source filled by queued work is no finding") {
  const Findings found;
  const Stream s;
  const DeviceBytes a(4096), b(4096);
  const PinnedBytes h(4096);
  for (int round = 1; round < 20; ++round) {
    OK(cudaMemsetAsync(a, round, 4096, s));
    OK(cudaMemcpyAsync(h, a, 4096, cudaMemcpyDeviceToHost, s));
    OK(cudaMemcpyAsync(b, h, 4096, cudaMemcpyHostToDevice, s));
    OK(cudaLaunchHostFunc(
        s, [](void* p) { *static_cast<unsigned char*>(p) = 200; }, h.data));
    OK(cudaMemcpyAsync(a, h, 4096, cudaMemcpyHostToDevice, s));
    OK(cudaStreamSynchronize(s));
    CHECK(b.read()[0] == round);
    CHECK(a.read()[0] == 200);
    CHECK(h[1] == round);
  }
  CHECK(found.count() == 0);
}

TEST_CASE("emulated copies: a page-locked destination is NaN until the copy ran") {
  const Stream s;
  const DeviceBytes d(4096);
  const PinnedBytes h(4096);
  OK(cudaMemset(d, 5, 4096));
  OK(cudaDeviceSynchronize());
  int early = 0;
  for (int round = 0; round < 20; ++round) {
    h[0] = 1;
    OK(cudaMemcpyAsync(h, d, 4096, cudaMemcpyDeviceToHost, s));
    CHECK((h[0] == 0xff || h[0] == 5));
    early += h[0] == 0xff;
    OK(cudaStreamSynchronize(s));
    CHECK(h[0] == 5);
  }
  CHECK(early > 0);
}

TEST_CASE("emulated copies: page-locked memory freed under a copy is found") {
  const Findings found;
  const Stream s;
  const DeviceBytes d(4096);
  void* h = nullptr;
  OK(cudaMallocHost(&h, 4096));
  OK(cudaMemcpyAsync(h, d, 4096, cudaMemcpyDeviceToHost, s));
  OK(cudaFreeHost(h));
  CHECK(found.count() == 1);
  OK(cudaMallocHost(&h, 4096));
  OK(cudaMemcpyAsync(h, d, 4096, cudaMemcpyDeviceToHost, s));
  OK(cudaStreamSynchronize(s));
  OK(cudaFreeHost(h));
  CHECK(found.count() == 1);
}

TEST_CASE("emulated copies: kinds are checked against the pointers") {
  const DeviceBytes d(64), e(64);
  const PinnedBytes p(64);
  std::vector<unsigned char> h(64);
  FAILS(cudaMemcpy(d, h.data(), 64, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  FAILS(cudaMemcpy(h.data(), d, 64, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  FAILS(cudaMemcpy(h.data(), d, 64, cudaMemcpyHostToHost), cudaErrorInvalidValue);
  FAILS(cudaMemcpy(d, h.data(), 64, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
  FAILS(cudaMemcpy(d, h.data(), 64, cudaMemcpyKind(9)), cudaErrorInvalidMemcpyDirection);
  FAILS(cudaMemcpy(d, h.data(), 65, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  FAILS(cudaMemcpy(d, nullptr, 64, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  FAILS(cudaMemset(d + 1, 0, 64), cudaErrorInvalidValue);
  FAILS(cudaMemset(h.data(), 0, 64), cudaErrorInvalidValue);
  OK(cudaMemcpy(d, nullptr, 0, cudaMemcpyHostToDevice));
  OK(cudaMemcpy(d, h.data(), 64, cudaMemcpyDefault));
  OK(cudaMemcpy(e, d, 64, cudaMemcpyDefault));
  OK(cudaMemcpy(p, e, 64, cudaMemcpyDefault));
  OK(cudaMemcpy(h.data(), p, 64, cudaMemcpyDefault));
}

TEST_CASE("emulated copies: rows and boxes") {
  void* at = nullptr;
  size_t pitch = 0;
  OK(cudaMallocPitch(&at, &pitch, 30, 5));
  auto* d = static_cast<unsigned char*>(at);
  CHECK(pitch == 512);
  OK(cudaMemset2D(d, pitch, 7, 30, 5));
  std::vector<unsigned char> h(5 * 40, 1);
  OK(cudaMemcpy2D(h.data(), 40, d, pitch, 30, 5, cudaMemcpyDeviceToHost));
  CHECK(h[0] == 7);
  CHECK(h[4 * 40 + 29] == 7);
  CHECK(h[30] == 1);
  unsigned char gap = 0;
  OK(cudaMemcpy(&gap, d + 30, 1, cudaMemcpyDeviceToHost));
  CHECK(gap == 0xff);
  FAILS(cudaMemcpy2D(h.data(), 20, d, pitch, 30, 5, cudaMemcpyDeviceToHost),
        cudaErrorInvalidPitchValue);
  OK(cudaFree(d));

  const cudaExtent extent = {8, 3, 2};
  cudaPitchedPtr box;
  OK(cudaMalloc3D(&box, extent));
  OK(cudaMemset3D(box, 4, extent));
  std::vector<unsigned char> all(48, 0);
  cudaMemcpy3DParms p{};
  p.srcPtr = box;
  p.dstPtr = {all.data(), 8, 8, 3};
  p.extent = {8, 2, 2};
  p.srcPos = {0, 1, 0};
  p.kind = cudaMemcpyDeviceToHost;
  OK(cudaMemcpy3D(&p));
  CHECK(all[0] == 4);
  CHECK(all[15] == 4);
  CHECK(all[16] == 0);  // the third row was not copied
  CHECK(all[24 + 15] == 4);
  OK(cudaFree(box.ptr));
}

TEST_CASE("emulated copies: what nothing orders is found, whatever runs first") {
  const DeviceBytes d(4096);
  for (int round = 0; round < 10; ++round) {
    const Findings found;
    const Stream a, b;
    OK(cudaMemsetAsync(d, 1, 4096, a));
    OK(cudaMemsetAsync(d, 2, 4096, b));
    OK(cudaDeviceSynchronize());
    CHECK(found.count() == 1);
  }
  for (int round = 0; round < 10; ++round) {
    const Findings found;
    const Stream a, b;
    const Event e(cudaEventDisableTiming);
    OK(cudaMemsetAsync(d, 1, 4096, a));
    OK(cudaEventRecord(e, a));
    OK(cudaStreamWaitEvent(b, e, 0));
    OK(cudaMemsetAsync(d, 2, 4096, b));
    OK(cudaStreamSynchronize(b));
    OK(cudaMemsetAsync(d, 3, 4096, a));
    OK(cudaStreamSynchronize(a));
    // Beside each other, and readers of the same bytes, may run in any order.
    OK(cudaMemsetAsync(d, 4, 2000, a));
    OK(cudaMemsetAsync(d + 2000, 5, 2096, b));
    OK(cudaDeviceSynchronize());
    std::vector<unsigned char> x(4096), y(4096);
    OK(cudaMemcpyAsync(x.data(), d, 4096, cudaMemcpyDeviceToHost, a));
    OK(cudaMemcpyAsync(y.data(), d, 4096, cudaMemcpyDeviceToHost, b));
    CHECK(x[1999] == 4);
    CHECK(y[2000] == 5);
    CHECK(found.count() == 0);
  }
}

TEST_CASE("emulated copies: a plain fill does not wait, and orders blocking streams only") {
  const DeviceBytes d(4096);
  {
    const Findings found;
    const Stream blocking(cudaStreamDefault);
    OK(cudaMemset(d, 1, 4096));
    OK(cudaMemsetAsync(d, 2, 4096, blocking));
    OK(cudaDeviceSynchronize());
    CHECK(found.count() == 0);
  }
  const Findings found;
  const Stream free_running;
  OK(cudaMemset(d, 1, 4096));
  OK(cudaMemsetAsync(d, 2, 4096, free_running));
  OK(cudaDeviceSynchronize());
  CHECK(found.count() == 1);
}

TEST_CASE("emulated memory of streams: uses outside the order of its life are found") {
  {
    const Findings found;
    const Stream s;
    void* p = nullptr;
    OK(cudaMallocAsync(&p, 4096, s));
    OK(cudaMemsetAsync(p, 1, 4096, s));
    OK(cudaFreeAsync(p, s));
    OK(cudaStreamSynchronize(s));
    CHECK(found.count() == 0);
    FAILS(cudaFreeAsync(p, s), cudaErrorInvalidValue);
    CHECK(found.count() == 1);
  }
  const Findings found;
  const Stream a, b;
  void* p = nullptr;
  OK(cudaMallocAsync(&p, 4096, a));
  OK(cudaMemsetAsync(p, 1, 4096, b));
  OK(cudaDeviceSynchronize());
  CHECK(found.count() == 1);
  OK(cudaFree(p));
}

TEST_CASE("emulated memory pools are there") {
  cudaMemPool_t pool = nullptr, mine = nullptr;
  OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  uint64_t most = ~uint64_t(0), back = 0;
  OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &most));
  OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &back));
  CHECK(back == most);
  cudaMemPoolProps props{};
  props.allocType = cudaMemAllocationTypePinned;
  props.location.type = cudaMemLocationTypeDevice;
  OK(cudaMemPoolCreate(&mine, &props));
  const Stream s;
  void* p = nullptr;
  OK(cudaMallocFromPoolAsync(&p, 100, mine, s));
  OK(cudaFreeAsync(p, s));
  OK(cudaStreamSynchronize(s));
  OK(cudaMemPoolDestroy(mine));
}
