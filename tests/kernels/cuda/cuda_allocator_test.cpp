// The caching allocator over a fake runtime.
#include "warptape/kernels/cuda/allocator.h"

#include <random>

#include "warptape/core/error.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/fake_cuda.h"

using namespace wt;
using wt_test::FakeCuda;

namespace {
constexpr i64 kKiB = 1024, kMiB = i64{1} << 20;
void* const kMain = nullptr;
void* stream(int i) {
  static char names[8];
  return names + i;
}
}  // namespace

TEST_CASE("cuda allocator: a block is reused on its stream at once, without the runtime") {
  FakeCuda fake;
  CudaPool pool(fake.api(), 0, false);
  void* a = pool.take(3000, kMain);
  REQUIRE(a);
  CHECK(u64(a) % 512 == 0);
  CHECK(pool.stats().allocated == 3072);
  CHECK(pool.stats().reserved == 2 * kMiB);
  pool.give(a);
  CHECK(pool.stats().allocated == 0);
  for (int i = 0; i < 10; ++i) {
    void* b = pool.take(2900, kMain);
    CHECK(b == a);
    pool.give(b);
  }
  CHECK(pool.stats().mallocs == 1);
  CHECK(fake.calls("free_memory") == 0);
}

TEST_CASE("cuda allocator: another stream never gets a block that its own stream may still use") {
  FakeCuda fake;
  CudaPool pool(fake.api(), 0, false);
  void* a = pool.take(4096, kMain);
  pool.give(a);
  void* b = pool.take(4096, stream(1));
  CHECK(b != a);
  CHECK(pool.stats().reserved == 4 * kMiB);
}

TEST_CASE("cuda allocator: a block used on other streams waits for all of them") {
  FakeCuda fake;
  CudaPool pool(fake.api(), 0, false);
  void* a = pool.take(4096, kMain);
  pool.use(a, kMain);  // its own stream: nothing to wait for
  pool.use(a, stream(1));
  pool.use(a, stream(2));
  pool.use(a, stream(1));
  pool.give(a);
  CHECK(fake.calls("record") == 2);
  CHECK(pool.stats().waiting == 4096);
  void* b = pool.take(4096, kMain);
  CHECK(b != a);
  fake.run(stream(1));
  void* c = pool.take(4096, kMain);
  CHECK(c != a);
  fake.run(stream(2));
  void* d = pool.take(4096, kMain);
  CHECK(d == a);
  CHECK(pool.stats().waiting == 0);
  // The events are used again.
  pool.use(d, stream(1));
  pool.give(d);
  CHECK(fake.calls("make_event") == 2);
  // A block whose users were seen once is free of them the next time.
  fake.run_all();
  void* e = pool.take(4096, kMain);
  CHECK(e == a);
  pool.give(e);
  CHECK(fake.calls("record") == 3);
}

TEST_CASE("cuda allocator: large blocks are split, neighbours merge again") {
  FakeCuda fake;
  CudaPool pool(fake.api(), 0, false);
  void* whole = pool.take(64 * kMiB, kMain);
  pool.give(whole);
  void* parts[8];
  for (void*& p : parts) p = pool.take(8 * kMiB, kMain);
  CHECK(pool.stats().mallocs == 1);
  for (int i : {1, 3, 5, 7, 0, 2, 6, 4}) pool.give(parts[i]);
  CHECK(pool.take(64 * kMiB, kMain) == whole);
  CHECK(pool.stats().mallocs == 1);
  // A rest too small to be of use stays with its block.
  pool.give(whole);
  void* most = pool.take(63 * kMiB + 512 * kKiB, kMain);
  CHECK(pool.stats().allocated == 64 * kMiB);
  pool.give(most);
}

TEST_CASE("cuda allocator: the best of the fitting blocks is taken") {
  FakeCuda fake;
  CudaPool pool(fake.api(), 0, false);
  void* a = pool.take(40 * kMiB, kMain);
  void* b = pool.take(30 * kMiB, kMain);
  pool.give(a);
  pool.give(b);
  CHECK(pool.take(30 * kMiB, kMain) == b);
}

TEST_CASE("cuda allocator: out of memory gives back what is unused, then says null") {
  FakeCuda fake(1, size_t(100 * kMiB));
  CudaPool pool(fake.api(), 0, false);
  void* a = pool.take(60 * kMiB, stream(1));
  REQUIRE(a);
  CHECK(pool.take(60 * kMiB, kMain) == nullptr);
  CHECK(pool.stats().reserved == 60 * kMiB);
  pool.give(a);
  void* b = pool.take(60 * kMiB, kMain);  // the other stream's segment had to go
  CHECK(b != nullptr);
  CHECK(fake.calls("free_memory") == 1);
  // What another stream still uses is waited for, not taken from under it.
  pool.use(b, stream(2));
  pool.give(b);
  CHECK(pool.take(98 * kMiB, kMain) != nullptr);
  CHECK(fake.violations().empty());
  CHECK(pool.take(i64{1} << 60, kMain) == nullptr);
}

TEST_CASE("cuda allocator: some memory is left for what CUDA loads when a kernel first runs") {
  FakeCuda fake(1, size_t(640 * kMiB));  // a 64th: 10 MiB
  CudaPool pool(fake.api(), 0, false);
  CHECK(pool.take(632 * kMiB, kMain) == nullptr);
  REQUIRE(pool.take(600 * kMiB, kMain) != nullptr);
  CHECK(pool.take(30 * kMiB, kMain) != nullptr);
  CHECK(pool.take(1, kMain) == nullptr);
  CHECK(size_t(640 * kMiB) - fake.device_bytes() == size_t(10 * kMiB));
}

TEST_CASE("cuda allocator: an address inside a block is the block's") {
  FakeCuda fake;
  CudaPool pool(fake.api(), 0, false);
  char* a = static_cast<char*>(pool.take(4096, kMain));
  char* b = static_cast<char*>(pool.take(3 * kMiB, kMain));
  const struct {
    i64 size;
    void *first, *last;
    i64 zero;
  } args{4096, a + 4095, b + 100, 0};
  pool.use_all(&args, sizeof args, stream(1));
  pool.use(a + 4096, stream(2));  // the neighbour, which is free
  pool.use(&args, stream(2));     // nobody's
  pool.give(a);
  pool.give(b);
  CHECK(fake.calls("record") == 2);
  CHECK(pool.stats().waiting == 4096 + 3 * kMiB);
  CHECK(pool.take(4096, kMain) != a);
  fake.run_all();
  pool.trim();
  CHECK(pool.stats().waiting == 0);
}

TEST_CASE("cuda allocator: a refused 20 MiB segment is retried without room for neighbours") {
  FakeCuda fake(1, size_t(10 * kMiB));
  CudaPool pool(fake.api(), 0, false);
  CHECK(pool.take(6 * kMiB, kMain) != nullptr);
  CHECK(pool.stats().reserved == 6 * kMiB);
}

TEST_CASE("cuda allocator: trim returns free segments and keeps used ones") {
  FakeCuda fake;
  CudaPool pool(fake.api(), 0, false);
  void* a = pool.take(4096, kMain);
  void* b = pool.take(30 * kMiB, kMain);
  void* c = pool.take(30 * kMiB, stream(1));
  pool.use(c, kMain);
  pool.give(b);
  pool.give(c);
  pool.trim();
  CHECK(pool.stats().reserved == 2 * kMiB);
  CHECK(pool.stats().segments == 1);
  pool.give(a);
  pool.trim();
  CHECK(pool.stats().reserved == 0);
  CHECK(fake.device_bytes() == 0);
  CHECK(fake.violations().empty());
}

TEST_CASE("cuda allocator: an error that is not a lack of memory is thrown") {
  FakeCuda fake;
  CudaPool pool(fake.api(), 0, false);
  fake.fail("take_memory", 46);
  CHECK_THROWS_AS(pool.take(512, kMain), DeviceError);
  fake.fail("take_memory", 0);
  CHECK(pool.take(512, kMain) != nullptr);
}

TEST_CASE("cuda allocator: direct mode takes each tensor's exact bytes from the runtime") {
  FakeCuda fake;
  CudaPool pool(fake.api(), 0, true);
  void* a = pool.take(1001, kMain);
  void* b = pool.take(0, kMain);
  CHECK(fake.device_bytes() == 1002);
  pool.use(a, stream(1));
  pool.give(a);
  pool.give(b);
  CHECK(fake.device_bytes() == 0);
  CHECK(pool.stats().allocated == 0);
  CHECK(fake.violations().empty());
}

// Random requests on four streams beside a plain list of what is handed out or still in use.
TEST_CASE("cuda allocator: random requests never overlap what somebody may use") {
  FakeCuda fake(1, size_t(600 * kMiB));
  CudaPool pool(fake.api(), 0, false);
  std::mt19937_64 random(7);
  struct Held {
    char* data;
    i64 bytes;
    void* owner;
    std::vector<void*> users;  // that have not run since
  };
  std::vector<Held> live, passing;
  const auto overlaps = [](const Held& h, const char* p, i64 n) {
    return p < h.data + h.bytes && h.data < p + n;
  };
  // A stream is drained by run(), or by a request that had to wait for memory.
  const auto forget_passed = [&] {
    std::erase_if(passing, [&](Held& h) {
      std::erase_if(h.users, [&](void* s) { return fake.queued(s) == 0; });
      return h.users.empty();
    });
  };
  for (int step = 0; step < 20000; ++step) {
    const u64 dice = random() % 100;
    void* s = stream(int(random() % 4));
    if (dice < 50) {
      const i64 bytes = i64(random() % (u64{1} << (random() % 23 + 1))) + 1;
      char* p = static_cast<char*>(pool.take(bytes, s));
      forget_passed();
      if (!p) continue;
      bool clash = false;
      for (const Held& h : live) clash |= overlaps(h, p, bytes);
      for (const Held& h : passing) clash |= overlaps(h, p, bytes);
      REQUIRE_FALSE(clash);
      live.push_back({p, bytes, s, {}});
    } else if (dice < 70 && !live.empty()) {
      Held& h = live[random() % live.size()];
      pool.use(h.data, s);
      if (s != h.owner) h.users.push_back(s);
    } else if (dice < 97 && !live.empty()) {
      const size_t i = random() % live.size();
      Held h = live[i];
      live[i] = live.back();
      live.pop_back();
      pool.give(h.data);
      if (!h.users.empty()) passing.push_back(h);
    } else {
      fake.run(s);
      forget_passed();
    }
  }
  i64 sum = 0;
  for (const Held& h : live) sum += h.bytes;
  CHECK(pool.stats().allocated >= sum);
  CHECK(pool.stats().peak_reserved >= pool.stats().reserved);
  for (const Held& h : live) pool.give(h.data);
  CHECK(pool.stats().allocated == 0);
  pool.trim();
  CHECK(pool.stats().reserved == 0);
  CHECK(pool.stats().waiting == 0);
  CHECK(fake.device_bytes() == 0);
  CHECK(fake.violations().empty());
}
