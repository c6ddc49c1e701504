// Correct kernels give correct results in every order; device memory is protected meanwhile.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>
#include <thread>

#include "warptape/core/half.h"
#include "warptape/tests/simt/device_memory.h"
#include "warptape/tests/simt/good_kernels.h"
#include "warptape/tests/support/catch.h"

using namespace wt;
using namespace wt::simt;

namespace {

// Runs a test for each order; the random one with several seeds. Kernels run with the arena
// protected, so that a forgotten copy would fault.
template <class F>
void in_every_order(F test) {
  const bool before = simt_protect(true);
  struct Order {
    SimtOrder order;
    uint64_t seed;
  };
  for (const Order o :
       {Order{SimtOrder::forward, 1}, Order{SimtOrder::reverse, 1}, Order{SimtOrder::random, 1},
        Order{SimtOrder::random, 2}, Order{SimtOrder::random, 3}}) {
    const WithSimt options(o.order, o.seed);
    CAPTURE(int(o.order), o.seed);
    test();
  }
  simt_protect(before);
}

std::vector<float> ramp(size_t n, float scale = 0.25f) {
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = float(int(i * 37 % 101) - 50) * scale;
  return v;
}

}  // namespace

TEST_CASE("vector add with vector loads and a ragged tail") {
  in_every_order([] {
    const std::vector<float> a = ramp(1003), b = ramp(1003, 2.0f);
    const DeviceArray<float> da(a), db(b), dc(1003);
    test_vector_add(dc, da, db, 1003);
    const std::vector<float> c = dc.host();
    bool same = true;
    for (size_t i = 0; i < c.size(); ++i) same &= c[i] == a[i] + b[i];
    CHECK(same);
  });
}

TEST_CASE("the kernel of docs/simt.md sums rows") {
  in_every_order([] {
    for (const int columns : {0, 4, 132, 1028}) {
      const std::vector<float> x =
          ramp(size_t(3 * columns));  // multiples of a quarter: sums are exact
      const DeviceArray<float> dx(x), out(3);
      row_sum_launch(out, dx, 3, columns, nullptr);
      const std::vector<float> sums = out.host();
      for (int row = 0; row < 3; ++row)
        CHECK(sums[size_t(row)] ==
              std::accumulate(x.begin() + row * columns, x.begin() + (row + 1) * columns, 0.0f));
    }
  });
}

TEST_CASE("block reduction through shuffles and shared memory") {
  in_every_order([] {
    const std::vector<float> x = ramp(1000);
    double want = 0;
    for (float v : x) want += v;
    const DeviceArray<float> dx(x), out(1);
    test_block_sum(out, dx, 1000);
    CHECK(out.host()[0] == float(want));  // quarters: every partial sum is exact
  });
}

TEST_CASE("shuffles move 2, 4 and 8 bytes with width and mask") {
  in_every_order([] {
    const DeviceArray<double> out(288);
    test_shuffles(out);
    const std::vector<double> v = out.host();
    for (int lane = 0; lane < 32; ++lane) {
      CAPTURE(lane);
      CHECK(v[lane] == 3);
      CHECK(v[lane + 32] == (lane < 2 ? lane : lane - 2));
      CHECK(v[lane + 64] == (lane + 5 > 31 ? lane : lane + 5));
      CHECK(v[lane + 96] == (lane ^ 7));
      for (int k = 128; k <= 224; k += 32) CHECK(v[lane + k] == (lane ^ 1));
      CHECK(v[lane + 256] == (lane % 8 == 7 ? lane : lane + 1));
    }
  });
}

TEST_CASE("votes of a warp and of a block") {
  in_every_order([] {
    const DeviceArray<unsigned> votes(7);
    test_votes(votes);
    CHECK(votes.host() == std::vector<unsigned>{0x49249249u, 0, 1, 1, 0, 0xaaaau, 1});
    const DeviceArray<int> counts(3);
    test_barrier_votes(counts);
    CHECK(counts.host() == std::vector<int>{40, 0, 1});
  });
}

TEST_CASE("mma.m16n8k16 equals the triple loop, f16 and bf16, with and without ldmatrix") {
  in_every_order([] {
    for (const bool bf16 : {false, true}) {
      CAPTURE(bf16);
      const auto bits = [bf16](float v) { return bf16 ? BFloat16(v).bits : Half(v).bits; };
      std::vector<uint16_t> a(256), b(128);
      std::vector<float> fa(256), fb(128);
      for (int i = 0; i < 256; ++i) a[i] = bits(fa[i] = float(i * 7 % 23 - 11) / 8);
      for (int i = 0; i < 128; ++i) b[i] = bits(fb[i] = float(i * 5 % 19 - 9) / 4);
      const DeviceArray<uint16_t> da(a), db(b);
      const DeviceArray<float> dc(128);
      test_mma(dc, da, db, bf16);
      const std::vector<float> c = dc.host();
      if (!bf16) {
        test_ldmatrix_mma(dc, da, db);
        CHECK(dc.host() == c);
      }
      for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 8; ++j) {
          float want = 0;  // exact: eighths of small integers
          for (int k = 0; k < 16; ++k) want += fa[i * 16 + k] * fb[k * 8 + j];
          CAPTURE(i, j);
          CHECK(c[i * 8 + j] == want);
        }
    }
  });
}

TEST_CASE("atomics of all types") {
  in_every_order([] {
    const DeviceArray<int> i(std::vector<int>{0, 5});
    const DeviceArray<unsigned> u(std::vector<unsigned>{0, 0, 0, 0, 0});
    const DeviceArray<unsigned long long> l(std::vector<unsigned long long>{0, 0});
    const DeviceArray<float> f(std::vector<float>{0, NAN});
    const DeviceArray<double> d(std::vector<double>{0, 0});
    test_atomics(i, u, l, f, d);
    CHECK(i.host() == std::vector<int>{256, -255});
    CHECK(u.host() == std::vector<unsigned>{255, 512, 7, 256, 0});
    CHECK(l.host() == std::vector<unsigned long long>{256ull << 33, (1ull << 33) + 255});
    CHECK(f.host() == std::vector<float>{256, 255});
    CHECK(d.host() == std::vector<double>{256, -255});
  });
}

TEST_CASE("dynamic shared memory, beyond the static limit too") {
  in_every_order([] {
    for (const int n : {1, 100, 56 * 1024}) {
      const std::vector<float> x = ramp(size_t(n));
      const DeviceArray<float> in(x), out(x.size());
      test_reverse(out, in, n);
      const std::vector<float> y = out.host();
      CHECK(std::vector<float>(y.rbegin(), y.rend()) == x);
    }
  });
}

TEST_CASE("asynchronous copies of 16, 8 and 4 bytes, with zeros for what lies beyond the source") {
  in_every_order([] {
    for (const int n : {1, 255, 256, 517, 1280, 1999}) {
      const std::vector<float> x = ramp(size_t(n));
      const DeviceArray<float> in(x), out(256);
      test_copy_pipeline(out, in, n);
      std::vector<float> sum(256, 0);
      for (int i = 0; i < n; ++i) sum[size_t(i % 256)] += x[size_t(i)];
      CAPTURE(n);
      CHECK(out.host() == sum);
    }
  });
}

TEST_CASE("the last block reads what the others wrote") {
  in_every_order([] {
    const DeviceArray<float> out(1), part(14);
    const DeviceArray<unsigned> ticket(std::vector<unsigned>{0});
    test_last_block(out, part, ticket, 7);
    CHECK(out.host()[0] == 28);
  });
}

TEST_CASE("blocks run in the order that was asked for; random shuffles them by its seed") {
  using Blocks = std::vector<unsigned>;
  const auto ran = [](SimtOrder order, uint64_t seed, int blocks) {
    const WithSimt options(order, seed);
    const DeviceArray<unsigned> out(static_cast<size_t>(blocks));
    const DeviceArray<unsigned> ticket(Blocks{0});
    test_block_order(out, ticket, blocks);
    return out.host();
  };
  for (const int n : {1, 2, 3, 64, 65, 1000}) {
    CAPTURE(n);
    Blocks sorted(static_cast<size_t>(n));
    std::iota(sorted.begin(), sorted.end(), 0u);
    CHECK(ran(SimtOrder::forward, 1, n) == sorted);
    CHECK(ran(SimtOrder::reverse, 1, n) == Blocks(sorted.rbegin(), sorted.rend()));
    std::set<Blocks> orders;
    for (uint64_t seed = 1; seed <= 16; ++seed) {
      const Blocks once = ran(SimtOrder::random, seed, n);
      CHECK(once == ran(SimtOrder::random, seed, n));
      CHECK(std::is_permutation(once.begin(), once.end(), sorted.begin()));
      orders.insert(once);
    }
    CHECK(orders.size() >= (n == 1 ? 1u : n < 64 ? 2u : 16u));
  }
}

TEST_CASE("three-dimensional grids and blocks, blocks that end inside a warp") {
  in_every_order([] {
    const DeviceArray<unsigned> out(2 * 3 * 2 * 5 * 3 * 3);
    test_indices(out, 2, 3, 2, 5, 3, 3);
    const std::vector<unsigned> v = out.host();
    bool same = true;
    for (size_t i = 0; i < v.size(); ++i) same &= v[i] == i;
    CHECK(same);
  });
}

TEST_CASE("__syncwarp orders shared memory within a warp") {
  in_every_order([] {
    const DeviceArray<float> out(64);
    test_syncwarp(out);
    const std::vector<float> v = out.host();
    for (int t = 0; t < 64; ++t) CHECK(v[t] == t / 32 * 32 + (t + 2) % 32);
  });
}

TEST_CASE("neighbouring bytes and halves belong to different threads") {
  in_every_order([] {
    const DeviceArray<unsigned char> bytes(100);
    const DeviceArray<uint16_t> halves(100);
    test_small_types(bytes, halves, 100);
    CHECK(bytes.host()[99] == 99);
    CHECK(halves.host()[99] == 198);
  });
}

TEST_CASE("16-bit floats and scalar intrinsics") {
  const DeviceArray<float> out(13);
  test_scalars(out);
  const std::vector<float> v = out.host();
  CHECK(v[0] == 0.333251953125f);
  CHECK(v[1] == 0.333984375f);
  CHECK(v[2] == 6.5f);
  CHECK(std::isinf(v[3]));
  CHECK(v[4] == 0.25f);
  CHECK(v[5] == 4 + 31 + 4);
  CHECK(v[6] == 10 + 2 + 3);
  CHECK(v[7] == std::erf(0.5f));
  CHECK(v[8] == std::tanh(0.5f));
  CHECK(v[9] == 3);
  CHECK(v[10] == std::exp(1.0f));
  CHECK(v[11] == 1);
  CHECK(v[12] == -0.5f);
}

TEST_CASE("a grid with a zero dimension launches nothing") {
  const uint64_t before = simt_stats().launches;
  test_empty_grid();
  CHECK(simt_stats().launches == before);
}

TEST_CASE("several OS threads launch at the same time") {
  const std::vector<float> x = ramp(1000);
  const DeviceArray<float> dx(x);
  std::vector<float> sums(4, NAN);
  std::vector<std::thread> threads;
  for (float& sum : sums)
    threads.emplace_back([&dx, &sum] {
      const DeviceArray<float> out(1);
      for (int i = 0; i < 20; ++i) test_block_sum(out, dx, 1000);
      sum = out.host()[0];
    });
  for (std::thread& t : threads) t.join();
  double want = 0;
  for (float v : x) want += v;
  CHECK(sums == std::vector<float>(4, float(want)));
}
