// The device arena: blocks, bounds, protection against host code, environment.
#include "warptape/tests/simt/device_memory.h"

#include <random>

#include "warptape/kernels/simt/runtime.h"
#include "warptape/tests/simt/good_kernels.h"
#include "warptape/tests/support/catch.h"

using namespace wt;

TEST_CASE("arena blocks are aligned, disjoint, NaN-filled and reused") {
  const size_t live = simt_arena_info().live_blocks;
  std::mt19937 rng(1);
  struct Block {
    unsigned char* p;
    size_t bytes;
    unsigned char mark;
  };
  std::vector<Block> blocks;
  size_t committed = 0;
  bool intact = true;
  for (int step = 0; step < 4000; ++step) {
    if (blocks.size() < 50 || rng() % 2) {
      const size_t bytes = rng() % 5 == 0 ? rng() % 200000 : rng() % 700;
      auto* p = static_cast<unsigned char*>(simt_arena_alloc(bytes));
      REQUIRE(p != nullptr);
      intact &= reinterpret_cast<uintptr_t>(p) % 256 == 0;
      for (size_t i = 0; i < bytes; ++i) intact &= p[i] == 0xff;
      const auto mark = static_cast<unsigned char>(rng());
      std::memset(p, mark, bytes);
      blocks.push_back({p, bytes, mark});
    } else {
      std::swap(blocks[rng() % blocks.size()], blocks.back());
      const Block b = blocks.back();
      blocks.pop_back();
      for (size_t i = 0; i < b.bytes; ++i) intact &= b.p[i] == b.mark;
      simt_arena_free(b.p);
    }
    if (step == 2000) committed = simt_arena_info().committed;
  }
  CHECK(intact);
  CHECK(simt_arena_info().live_blocks == live + blocks.size());
  for (const Block& b : blocks) simt_arena_free(b.p);
  CHECK(simt_arena_info().live_blocks == live);
  CHECK(simt_arena_info().committed <= 2 * committed);
}

TEST_CASE("what is device memory and what is not") {
  char* p = static_cast<char*>(simt_arena_alloc(1000));
  char host[16];
  CHECK(simt_is_device(p, 1000));
  CHECK(simt_is_device(p + 500, 500));
  CHECK(simt_is_device(p + 1000, 0));  // an empty view at the end
  CHECK_FALSE(simt_is_device(p + 500, 501));
  CHECK_FALSE(simt_is_device(host, 1));
  simt_register(host, sizeof host);
  CHECK(simt_is_device(host, sizeof host));
  CHECK_FALSE(simt_is_device(host + 1, sizeof host));
  simt_unregister(host);
  CHECK_FALSE(simt_is_device(host, 1));
  CHECK_THROWS_AS(simt_unregister(host), InternalError);
  CHECK_THROWS_AS(simt_arena_free(p + 256), InternalError);
  simt_arena_free(p);
  CHECK_FALSE(simt_is_device(p, 1));
  CHECK_THROWS_AS(simt_arena_free(p), InternalError);
  simt_arena_free(nullptr);
  CHECK(simt_arena_alloc(size_t(1) << 40) == nullptr);
}

TEST_CASE("a kernel may use registered host memory and null, not a freed block") {
  std::vector<float> host(256, 2), sum(1);
  CHECK_THROWS_AS(simt::test_block_sum(sum.data(), host.data(), 256), KernelError);
  simt_register(host.data(), host.size() * sizeof(float));
  simt_register(sum.data(), sizeof(float));
  simt::test_block_sum(sum.data(), host.data(), 256);
  simt_unregister(host.data());  // waits for the kernel
  CHECK(sum[0] == 512);
  simt_unregister(sum.data());
  float* freed = static_cast<float*>(simt_arena_alloc(4096));
  simt_arena_free(freed);
  CHECK_THROWS_AS(simt::test_block_sum(freed, freed, 256), KernelError);
}

TEST_CASE("pointers inside a struct argument are checked if it lists them") {
  const DeviceArray<float> x(std::vector<float>(100, 3)), out(100);
  simt::test_struct_copy(out, x, 100);
  CHECK(out.host() == std::vector<float>(100, 3));
  const std::vector<float> host(100, 3);
  try {
    simt::test_struct_copy(out, host.data(), 100);
    FAIL("a host pointer was accepted");
  } catch (const KernelError& e) {
    CHECK(std::string(e.what()).find("struct_copy_kernel: argument 2 is") != std::string::npos);
  }
}

TEST_CASE("the environment sets order, seed and protection, and is checked") {
  bool protect = false;
  const SimtOptions none = simt_runtime::parse_options(nullptr, nullptr, protect);
  CHECK((none.order == SimtOrder::forward && none.seed == 1 && !protect));
  CHECK(simt_runtime::parse_options("reverse", "0", protect).order == SimtOrder::reverse);
  CHECK(simt_runtime::parse_options("", "", protect).order == SimtOrder::forward);
  CHECK_FALSE(protect);
  const SimtOptions random = simt_runtime::parse_options("random:42", "1", protect);
  CHECK((random.order == SimtOrder::random && random.seed == 42 && protect));
  for (const char* bad : {"backward", "random:", "random:x", "random:1x", "forward:1", "reverse:2"})
    CHECK_THROWS_AS(simt_runtime::parse_options(bad, nullptr, protect), UsageError);
  CHECK_THROWS_AS(simt_runtime::parse_options(nullptr, "yes", protect), UsageError);
}

TEST_CASE("host code that touches protected device memory faults with a message") {
  const DeviceArray<float> x(std::vector<float>(256, 1));
  const bool before = simt_protect(true);
  int status = 0;
  const std::string text = in_child(
      [&x] {
        simt_protect(false);
        simt_protect(true);  // with the message's handler once more
        _exit(x.data()[3] == 1 ? 0 : 1);
      },
      status);
  CAPTURE(text);
  CHECK(status != 0);
  CHECK(text.find("host code touched device memory of simt") != text.npos);
  CHECK(text.find("device_memory_test.cpp:") != text.npos);
  {  // copies and launches open it
    CHECK(x.host()[3] == 1);
    const DeviceArray<float> sum(1);
    simt::test_block_sum(sum, x, 256);
    CHECK(sum.host()[0] == 256);
  }
  simt_protect(false);
  CHECK(x.data()[3] == 1);
  simt_protect(before);
}

TEST_CASE("a block of no bytes is a block") {
  void* a = simt_arena_alloc(0);
  void* b = simt_arena_alloc(0);
  CHECK(a != b);
  CHECK(simt_is_device(a, 0));
  CHECK_FALSE(simt_is_device(a, 1));
  simt_arena_free(a);
  simt_arena_free(b);
}
