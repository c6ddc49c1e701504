// Occupancy against figures worked out by hand from NVIDIA's limits of compute capability 9.0.
#include "warptape/tools/wt/look/occupancy.h"

#include "warptape/core/error.h"
#include "warptape/tests/support/catch.h"

using namespace wt;
using namespace wt::tools;

TEST_CASE("occupancy: the least of four limits, by name") {
  struct Case {
    BlockNeeds block;
    i64 blocks, warps;
    std::vector<std::string> limiters;
  };
  for (const Case& c : {
           Case{{.threads = 256, .registers = 32}, 8, 64, {}},
           // 40 x 32 = 1,280 registers a warp: 12 warps of each quarter's 16,384.
           Case{{.threads = 256, .registers = 40}, 6, 48, {"registers"}},
           // 41 are handed out as 48: 1,536 a warp, 10 of a quarter.
           Case{{.threads = 32, .registers = 41}, 32, 32, {"blocks"}},
           Case{{.threads = 128, .registers = 41}, 10, 40, {"registers"}},
           Case{{.threads = 32, .registers = 16}, 32, 32, {"blocks"}},
           // 228 KiB, of which a block takes 1 KiB more than it asks for.
           Case{{.threads = 128, .registers = 32, .shared = 48 << 10}, 4, 16, {"shared memory"}},
           // In units of 128 bytes, as NVIDIA's cuda_occupancy.h has it: 21,133 are 21,248.
           Case{{.threads = 115, .registers = 21, .shared = 20'109}, 10, 40, {"shared memory"}},
           Case{{.threads = 768, .registers = 16}, 2, 48, {"threads"}},
           Case{{.threads = 768, .registers = 40, .shared = 100 << 10},
                2,
                48,
                {"threads", "registers", "shared memory"}},
           Case{{.threads = 1024, .registers = 168}, 0, 0, {"registers"}},
           // A warp that is not full takes a whole one's place.
           Case{{.threads = 33}, 32, 64, {}},
       }) {
    CAPTURE(c.block.threads, c.block.registers, c.block.shared);
    const Occupancy o = occupancy_of(c.block);
    CHECK(o.blocks == c.blocks);
    CHECK(o.warps == c.warps);
    CHECK(o.most_warps == 64);
    CHECK(o.limiters == c.limiters);
  }
}

TEST_CASE("occupancy: registers that are not known are no limit, and a block has threads") {
  CHECK(occupancy_of({.threads = 256}).limits.size() == 3);
  CHECK(occupancy_of({.threads = 256, .registers = 1}).limits.size() == 4);
  CHECK_THROWS_AS(occupancy_of({}), UsageError);
}
