// Every deliberately broken kernel gets its diagnosis, in every order and in every flavour.
#include "warptape/tests/simt/broken_kernels.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <string>

#include "warptape/core/half.h"
#include "warptape/tests/simt/device_memory.h"
#include "warptape/tests/simt/good_kernels.h"
#include "warptape/tests/support/catch.h"

using namespace wt;

namespace {

using Values = std::vector<float>;

// What must happen: "wrong", a result that differs from `want`; "right", no difference: the flavour
// cannot see the mistake; else a KernelError whose text contains every part between bars. "@tag" is
// the place of the comment BUG tag. A text that begins with "dies|" is printed by the sanitizer,
// which ends the process.
struct Expected {
  const char* name;
  const char* plain;
  const char* asan;  // null: as plain
  const char* race;  // null: as plain
};

constexpr Expected kExpected[] = {
    {"missing_barrier", "wrong", nullptr,
     "race in shared memory|read at @missing_barrier_read|write at @missing_barrier_write"},
    {"missing_trailing_barrier", "wrong", nullptr,
     "race in shared memory|@missing_trailing_barrier_write|@missing_trailing_barrier_read"},
    {"plain_shared_add", "right", nullptr, "race in shared memory|write at @plain_shared_add"},
    {"no_syncwarp", "wrong", nullptr, "race in shared memory|@no_syncwarp"},
    {"half_syncwarp", "any", nullptr,
     "race in shared memory|read at @half_syncwarp_read|write at @half_syncwarp_write"},
    {"scratch_reused", "any", nullptr,
     "race in shared memory|@scratch_reused_write|@scratch_reused_read"},
    {"two_blocks_add", "right", nullptr,
     "race in global memory|write at @two_blocks_add|of block (0,0,0)|of block (1,0,0)"},
    {"atomic_and_plain", "right", nullptr,
     "race in shared memory|atomic at @atomic_and_plain_atomic|read at @atomic_and_plain_read"},
    {"ticket_without_fence", "any", nullptr,
     "race in global memory|write at @ticket_without_fence_write|read at "
     "@ticket_without_fence_read"},
    {"shared_off_by_one",
     "wrote outside of shared array s (@shared_off_by_one_array): at byte 512 of 512",
     "dies|runtime error: index 128 out of bounds|@shared_off_by_one", nullptr},
    {"shared_before_begin", "array second (@shared_before_begin_array): 4 byte(s) before its begin",
     "dies|AddressSanitizer: use-after-poison|@shared_before_begin", nullptr},
    {"dynamic_overrun", "wrote outside of shared array (dynamic): at byte 512 of 512",
     "dies|AddressSanitizer: use-after-poison|@dynamic_overrun", nullptr},
    {"row_overflow", "any", "dies|runtime error: index 32 out of bounds|@row_overflow", nullptr},
    {"uninitialised_shared", "wrong", nullptr, nullptr},
    {"global_read_beyond", "any", "dies|AddressSanitizer: use-after-poison|@global_read_beyond",
     "read of 4 bytes outside live device memory at @global_read_beyond"},
    {"misaligned_load", "misaligned vload at @misaligned_load|accesses 16 bytes", nullptr, nullptr},
    {"misaligned_store", "misaligned vstore at @misaligned_store|8 bytes", nullptr, nullptr},
    {"null_pointer", "invalid memory access|at @null_pointer",
     "dies|AddressSanitizer: SEGV on unknown address|@null_pointer", nullptr},
#ifdef __clang__  // its prologue touches the stack, where debug info has no line
    {"large_locals", "stack overflow in thread",
#else
    {"large_locals", "stack overflow in thread|at @large_locals",
#endif
     "dies|AddressSanitizer: stack-overflow|@large_locals", nullptr},
    {"index_overflow", "any", "dies|runtime error: signed integer overflow|@index_overflow",
     nullptr},
    {"host_pointer", "copy_kernel [copy]: argument 2 is|not device memory of simt", nullptr,
     nullptr},
    {"large_block", "at most 1024 threads|block (64,17,1)", nullptr, nullptr},
    {"too_much_shared", "shared array more (@too_much_shared)|48 KiB", nullptr, nullptr},
    {"barrier_of_half", "__syncthreads at @barrier_of_half|returned from the kernel", nullptr,
     nullptr},
    {"two_barriers", "divergent __syncthreads|@two_barriers_first|@two_barriers_second", nullptr,
     nullptr},
    {"return_before_barrier", "__syncthreads at @return_before_barrier|returned from the kernel",
     nullptr, nullptr},
    {"barrier_count", "__syncthreads at @barrier_count|returned from the kernel", nullptr, nullptr},
    {"barrier_against_shuffle",
     "deadlock in block (0,0,0)|64 thread(s) waiting in __shfl_xor_sync at "
     "@barrier_against_shuffle_shfl mask 0xffffffff: 0-15,32-47,64-79,96-111|64 thread(s) waiting "
     "in "
     "__syncthreads at @barrier_against_shuffle_barrier: 16-31,48-63,80-95,112-127",
     nullptr, nullptr},
    {"dead_lock", "livelock|polls at @dead_lock", nullptr, nullptr},
    {"grid_barrier", "livelock|polls at @grid_barrier", nullptr, nullptr},
    {"shuffle_of_half",
     "different operation|__shfl_xor_sync at @shuffle_of_half_shfl|__syncwarp at "
     "@shuffle_of_half_sync",
     nullptr, nullptr},
    {"lane_outside_mask",
     "__shfl_down_sync at @lane_outside_mask: lane 8 reads lane 16, which does not take part",
     nullptr, nullptr},
    {"caller_outside_mask", "__shfl_xor_sync at @caller_outside_mask|is not in mask 0x0000ffff",
     nullptr, nullptr},
    {"lanes_left_loop", "__shfl_down_sync at @lanes_left_loop|does not take part", nullptr,
     nullptr},
    {"overlapping_masks", "__ballot_sync at @overlapping_masks", nullptr, nullptr},
    {"mma_of_31_lanes", "mma_m16n8k16 at @mma_of_31_lanes", nullptr, nullptr},
    {"ldmatrix_of_global", "ldmatrix at @ldmatrix_of_global|is not in a shared array", nullptr,
     nullptr},
    {"ldmatrix_misaligned", "ldmatrix at @ldmatrix_misaligned|not 16-byte aligned", nullptr,
     nullptr},
    {"trap", "__trap() at @trap|thread (77,0,0)", nullptr, nullptr},
};

constexpr Expected kExpectedCopies[] = {
    {"copy_without_wait", "wrong", nullptr,
     "race in shared memory: asynchronous copy at @copy_without_wait by|read at "
     "@copy_without_wait_read|while the copy is under way"},
    {"copy_used_at_once", "wrong", nullptr,
     "asynchronous copy at @copy_used_at_once by thread 0 |read at @copy_used_at_once_read by "
     "thread 0 |while the copy is under way"},
    {"copy_not_committed", "wrong", nullptr,
     "asynchronous copy at @copy_not_committed|read at @copy_not_committed_read|while the copy is "
     "under way"},
    {"copy_wrong_group", "wrong", nullptr,
     "asynchronous copy at @copy_wrong_group|read at @copy_wrong_group_read|while the copy is "
     "under way"},
    {"copy_without_barrier", "wrong", nullptr,
     "race in shared memory|asynchronous copy at @copy_without_barrier|read at "
     "@copy_without_barrier_read|without synchronisation"},
    {"copy_into_used_stage", "wrong", nullptr,
     "read at @copy_into_used_stage_read|then asynchronous copy at @copy_into_used_stage|without "
     "synchronisation"},
    {"copy_misaligned_source", "cp_async at @copy_misaligned_source|source that is misaligned",
     nullptr, nullptr},
    {"copy_misaligned_target", "cp_async at @copy_misaligned_target|destination that is misaligned",
     nullptr, nullptr},
    {"copy_beyond_source",
     "cp_async at @copy_beyond_source: reads 4 bytes outside live device memory|thread (127,0,0)",
     nullptr, nullptr},
    {"copy_beyond_array",
     "cp_async at @copy_beyond_array: its destination is not in a shared array|thread (127,0,0)",
     nullptr, nullptr},
    {"copy_more_than_its_size",
     "cp_async at @copy_more_than_its_size wants more bytes from the source than it copies",
     nullptr, nullptr},
    {"tile_without_wait", "wrong", nullptr,
     "race in shared memory: asynchronous copy at |attention_mma.cuh|read at |while the copy is "
     "under way"},
};

constexpr Expected kExpectedHopper[] = {
    {"loads", "right", nullptr, nullptr},
    {"barrier_not_made", "mbarrier_wait at @barrier_wait: no mbarrier_init has made", nullptr,
     nullptr},
    {"barrier_made_twice",
     "mbarrier_init at @barrier_made_twice: the mbarrier has been made before", nullptr, nullptr},
    {"barrier_misplaced",
     "mbarrier_init at @barrier_misplaced: the mbarrier is not in a shared array", nullptr,
     nullptr},
    {"barrier_without_sync", "any", nullptr,
     "race in shared memory|write at @barrier_made|atomic at @barrier_wait"},
    {"barrier_without_fence", "tma_load_2d at @tma_load|no mbarrier_init_fence", nullptr, nullptr},
    {"barrier_overwritten",
     "mbarrier_arrive at @barrier_expect: something has been written over the mbarrier made at "
     "@barrier_made",
     nullptr, nullptr},
    {"barrier_passed_early", "wrong", nullptr,
     "race in shared memory: asynchronous copy at @tma_load by|read at @barrier_passed_early|while "
     "the copy is under way"},
    {"barrier_hangs",
     "deadlock|128 thread(s) waiting in mbarrier_wait at @barrier_hangs|made at @barrier_made is "
     "in phase 1: 1 of 1 arrivals are missing",
     nullptr, nullptr},
    {"barrier_too_few_arrivals",
     "deadlock|waiting in mbarrier_wait at @barrier_wait|made at @barrier_made is in phase 0: 1 of "
     "2 arrivals are missing, 0 bytes",
     nullptr, nullptr},
    {"barrier_too_many_arrivals",
     "mbarrier_arrive at @barrier_too_many_arrivals: more than the 1 arrivals", nullptr, nullptr},
    {"barrier_more_bytes",
     "the mbarrier made at @barrier_made: everybody has arrived and its loads have landed, but it "
     "expects 128 bytes more than they bring",
     nullptr, nullptr},
    {"barrier_fewer_bytes",
     "the mbarrier made at @barrier_made: its phase 0 ends while the TMA load at "
     "@barrier_fewer_bytes|expects fewer bytes than its loads bring",
     nullptr, nullptr},
    {"barrier_two_phases",
     "the mbarrier made at @barrier_made: phase 1 has ended before anybody waited for phase 0",
     nullptr, nullptr},
    {"tma_read_early", "wrong", nullptr,
     "race in shared memory: asynchronous copy at @tma_load by|read at @tma_read_early|while the "
     "copy is under way"},
    {"tma_wait_of_another", "wrong", nullptr,
     "race in shared memory|at @tma_load|read at @tma_wait_of_another"},
    {"tma_not_waited",
     "ended while the TMA load at @tma_load is under way: nobody has waited for it", nullptr,
     nullptr},
    {"tma_into_used_stage", "wrong", nullptr,
     "race in shared memory|read at @tma_read|asynchronous copy at @tma_second_load|without "
     "synchronisation"},
    {"tma_twice",
     "tma_load_2d at @tma_twice: the one at @tma_load, to the same bytes, is under way", nullptr,
     nullptr},
    {"tma_misaligned_target",
     "tma_load_2d at @tma_misaligned_target: its destination is not at a multiple of 128 bytes",
     nullptr, nullptr},
    {"tma_beyond_array",
     "tma_load_2d at @tma_beyond_array: its destination is not in a shared array", nullptr,
     nullptr},
    {"map_misaligned", "a tensor map's data begin at a multiple of 16 bytes", nullptr, nullptr},
    {"map_stride", "a tensor map's stride is a multiple of 16 bytes|100 bytes from one to the next",
     nullptr, nullptr},
    {"map_box_row", "a row of a box of TMA is a multiple of 16 bytes|boxes of 4 by 30", nullptr,
     nullptr},
    {"map_box", "a box of TMA has 1 to 256 elements a side", nullptr, nullptr},
    {"map_swizzle", "a row of a box with the 128-byte swizzle is 128 bytes", nullptr, nullptr},
    {"map_beyond_source",
     "tma_load_2d at @tma_second_load: run 6 of its matrix lies outside live device memory",
     nullptr, nullptr},
    {"product", "right", nullptr, nullptr},
    {"tma_misaligned_swizzle",
     "tma_load_2d at @tma_swizzled: its destination, swizzled, is not at a multiple of 1024 bytes",
     nullptr, nullptr},
    {"wgmma_no_fence", "wgmma at @wgmma: no wgmma_fence before the first wgmma", nullptr, nullptr},
    {"wgmma_no_second_fence",
     "wgmma at @wgmma: no wgmma_fence since the thread has written its accumulators", nullptr,
     nullptr},
    {"wgmma_not_waited", "wrong", nullptr,
     "read at @wgmma_not_waited of an accumulator of the wgmma at @wgmma, which has not been "
     "waited for"},
    {"wgmma_wrong_group", "wrong", nullptr,
     "read at @wgmma_wrong_group of an accumulator of the wgmma at @wgmma, which has not been "
     "waited for"},
    {"wgmma_not_committed", "wrong", nullptr,
     "read at @wgmma_not_committed of an accumulator of the wgmma at @wgmma, which has not been "
     "waited for"},
    {"wgmma_tile_overwritten",
     "tma_load_2d at @wgmma_tile_overwritten: it writes a tile that the wgmma at @wgmma still "
     "reads",
     nullptr, nullptr},
    {"wgmma_tile_stored", "any", nullptr,
     "write at @wgmma_tile_stored into a tile of the wgmma at @wgmma, which has not been waited "
     "for"},
    {"wgmma_before_load",
     "wgmma at @wgmma: A is what the TMA load at @tma_swizzled brings, which is under way", nullptr,
     nullptr},
    {"wgmma_wrong_swizzle", "wgmma at @wgmma: the descriptor of B has another swizzle", nullptr,
     nullptr},
    {"wgmma_unswizzled_tile",
     "wgmma at @wgmma: A is read as swizzled, the TMA load at @tma_swizzled was not", nullptr,
     nullptr},
    {"wgmma_wrong_start", "wgmma at @wgmma: the descriptor of A begins in the middle of eight rows",
     nullptr, nullptr},
    {"wgmma_beyond_array", "wgmma at @wgmma: A is not in a shared array", nullptr, nullptr},
    {"wgmma_of_three_warps", "deadlock|waiting in wgmma at @wgmma", nullptr, nullptr},
    {"wgmma_two_descriptors", "wgmma at @wgmma: the threads of a warpgroup do one and the same",
     nullptr, nullptr},
};

Values input() {
  Values x(512);
  for (int i = 0; i < 512; ++i) x[i] = float(i * 37 % 101) - 50;
  return x;
}

// A A^T of the first two or all four blocks of 16 columns, thread by thread, where row i of A are
// the 64 halves from 8 i on.
Values products() {
  const Values x = input();
  std::vector<u16> bits(2 * x.size());
  std::memcpy(bits.data(), x.data(), 4 * x.size());
  const auto a = [&](int i, int k) { return wt::detail::half_to_float(bits[8 * i + k]); };
  Values o(128);
  for (int t = 0; t < 128; ++t)
    for (int i = 0; i < 32; ++i) {
      const int row = t / 32 * 16 + t % 32 / 4 + i % 4 / 2 * 8,
                column = t % 4 * 2 + i / 4 * 8 + i % 2;
      for (int k = 0; k < 64; ++k) o[t] += a(row, k) * a(column, k);
    }
  return o;
}

// What the kernel would give without its mistake; for those that fail it does not matter.
Values want(const std::string& name) {
  const Values x = input();
  if (name == "product" || name.rfind("wgmma_", 0) == 0) return products();
  Values o(128);
  float all = 0, tiles = 0;
  for (int t = 0; t < 128; ++t) all += x[t];
  for (int i = 0; i < 512; ++i) tiles += x[i] * float(i % 128 % 3 - 1);
  for (int t = 0; t < 128; ++t) {
    o[t] = x[t];
    if (name == "missing_barrier" || name == "copy_without_wait" || name == "copy_not_committed" ||
        name == "copy_without_barrier")
      o[t] = x[127 - t];
    if (name == "copy_wrong_group") o[t] = x[127 - t] + x[255 - t];
    if (name == "loads" || name == "tma_read_early" || name == "tma_wait_of_another" ||
        name == "barrier_passed_early" || name == "tma_into_used_stage")
      o[t] = x[127 - t] + x[255 - t];
    if (name == "missing_trailing_barrier" || name == "copy_into_used_stage") o[t] = tiles;
    if (name == "plain_shared_add" || name == "scratch_reused" || name == "no_syncwarp") o[t] = all;
    if (name == "two_blocks_add") o[t] = 2 * x[t];
    if (name == "uninitialised_shared" && t >= 64) o[t] = 0;
  }
  return o;
}

const std::map<std::string, std::string>& bug_lines() {
  static const std::map<std::string, std::string> lines = [] {
    std::map<std::string, std::string> found;
    for (const std::string file : {"broken_kernels.cu", "broken_copies.cu", "broken_hopper.cu"}) {
      std::ifstream source(WT_SOURCE_DIR "/tests/simt/" + file);
      std::string text;
      for (int line = 1; std::getline(source, text); ++line)
        if (const size_t i = text.find("// BUG "); i != text.npos)
          found[text.substr(i + 7)] = file + ":" + std::to_string(line);
    }
    return found;
  }();
  return lines;
}

// "read at @tag" -> "read at broken_kernels.cu:20".
std::string with_lines(std::string text) {
  for (size_t i; (i = text.find('@')) != text.npos;) {
    size_t end = i + 1;
    while (end < text.size() && (std::isalnum(text[end]) || text[end] == '_')) ++end;
    const auto line = bug_lines().find(text.substr(i + 1, end - i - 1));
    if (line == bug_lines().end())
      FAIL("no line has the comment BUG " << text.substr(i + 1, end - i - 1));
    text.replace(i, end - i, line->second);
  }
  return text;
}

std::string run(const simt::BrokenKernel& kernel) {
  const DeviceArray<float> x(input()), out(Values(128, 0));
  try {
    kernel.run(out, x);
  } catch (const KernelError& e) {
    return e.what();
  }
  const Values got = out.host(), expected = want(kernel.name);
  for (int i = 0; i < 128; ++i)
    if (!(std::fabs(got[i] - expected[i]) <= 1e-3f * (1 + std::fabs(expected[i])))) return "wrong";
  return "right";
}

std::string run_apart(const simt::BrokenKernel& kernel) {
  int status;
  const std::string text = in_child([&kernel] { run(kernel); }, status);
  return (status == 0 ? "lives|" : "dies|") + text;
}

bool contains_all(const std::string& text, const std::string& parts) {
  for (size_t i = 0; i <= parts.size();) {
    size_t end = parts.find('|', i);
    if (end == parts.npos) end = parts.size();
    if (text.find(parts.substr(i, end - i)) == text.npos) return false;
    i = end + 1;
  }
  return true;
}

std::string expected_text(const Expected& e) {
  const std::string flavour = simt_flavour();
  const char* text = flavour == "asan" ? e.asan : flavour == "race" ? e.race : e.plain;
  return with_lines(text ? text : e.plain);
}

void check(const simt::BrokenKernel& kernel, const Expected& expected, bool forward) {
  const std::string text = expected_text(expected);
  if (text == "any") {  // seen by another flavour only
    run(kernel);
    return;
  }
  const std::string got = text.rfind("dies|", 0) == 0 ? run_apart(kernel) : run(kernel);
  CAPTURE(text, got);
  // Which of several true things is said first depends on the order.
  const bool fails = text != "wrong" && text != "right";
  if (fails && !forward)
    CHECK((got.rfind("KernelError: ", 0) == 0 || got.rfind("dies|", 0) == 0));
  else
    CHECK(contains_all(got, text));
}

void check_all(const simt::BrokenKernel* kernels, const Expected* expected, int count) {
  const WithStreams eager(SimtStreams::eager);  // what a wait says of them: streams_test.cpp
  struct Order {
    SimtOrder order;
    uint64_t seed;
  };
  for (const Order o :
       {Order{SimtOrder::forward, 1}, Order{SimtOrder::reverse, 1}, Order{SimtOrder::random, 5}}) {
    const WithSimt options(o.order, o.seed);
    simt_options().spin_limit = 20000;
    for (int i = 0; i < count; ++i) {
      const simt::BrokenKernel& kernel = kernels[i];
      REQUIRE(std::string(kernel.name) == expected[i].name);
      CAPTURE(kernel.name, int(o.order));
      check(kernel, expected[i], o.order == SimtOrder::forward);
      // The executor works on after every error.
      const DeviceArray<float> sum(1), ones(Values(256, 1));
      simt::test_block_sum(sum, ones, 256);
      CHECK(sum.host()[0] == 256);
    }
  }
}

}  // namespace

TEST_CASE("broken kernels are diagnosed with their source lines") {
  REQUIRE(sizeof kExpected / sizeof kExpected[0] == size_t(simt::broken_kernel_count));
  check_all(simt::broken_kernels, kExpected, simt::broken_kernel_count);
}

TEST_CASE("broken asynchronous copies are diagnosed with their source lines") {
  REQUIRE(sizeof kExpectedCopies / sizeof kExpectedCopies[0] == size_t(simt::broken_copy_count));
  check_all(simt::broken_copies, kExpectedCopies, simt::broken_copy_count);
}

TEST_CASE("broken uses of mbarrier, TMA and wgmma are diagnosed with their source lines") {
  REQUIRE(sizeof kExpectedHopper / sizeof kExpectedHopper[0] == size_t(simt::broken_hopper_count));
  check_all(simt::broken_hopper, kExpectedHopper, simt::broken_hopper_count);
}

TEST_CASE("without strict, threads that returned do not hold up a barrier") {
  const WithStreams eager(SimtStreams::eager);
  const WithSimt options;
  simt_options().strict = false;
  for (int i = 0; i < simt::broken_kernel_count; ++i) {
    const std::string name = simt::broken_kernels[i].name;
    if (name == "return_before_barrier" || name == "two_barriers" || name == "barrier_of_half")
      CHECK(run(simt::broken_kernels[i]) == "right");
  }
}
