// Damaged IDX files, plain and compressed.
#include "warptape/data/idx.h"

#include "warptape/config.h"
#include "warptape/core/factories.h"
#include "warptape/tests/fuzz/readers.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/mutate.h"
#include "warptape/tests/support/temp_dir.h"

using namespace std::string_literals;

TEST_CASE("idx: sizes that overflow are refused with their byte, also beside an empty axis") {
  const TempDir dir;
  const std::string huge = "\xff\xff\xff\xff", none = "\0\0\0\0"s;
  for (const std::string& sizes : {huge + huge + none, none + huge + huge, huge + none + huge}) {
    spit(dir / "f", "\0\0\x08\x03"s + sizes);
    CHECK_THROWS_AS((void)wt::data::idx_shape(dir / "f"), wt::DataError);
    try {
      (void)wt::data::read_idx(dir / "f");
      FAIL("must throw");
    } catch (const wt::DataError& error) {
      CHECK(std::string(error.what()).find("the sizes overflow") != std::string::npos);
    }
  }
}

TEST_CASE("idx: whatever is done to a file, the reader refuses it or reads what is there") {
  FuzzPlan plan(10'000, 3);
  const std::string golden = "\0\0\x08\x02\0\0\0\x02\0\0\0\x03"s + "abcdef";
  // A stored block: its check sum and length are wrong after any change but to the name.
  const std::string packed = "\x1f\x8b\x08\0\0\0\0\0\0\x03"s + "\x01\x12\0\xed\xff"s + golden +
                             "\x83\xda\x46\x2f\x12\0\0\0"s;
  const std::vector<std::string_view> words{"\x08",
                                            "\x0d",
                                            "\xff\xff\xff\xff",
                                            "\x1f\x8b\x08",
                                            std::string_view("\0\0\0\0", 4),
                                            std::string_view("\0\0\0\x01", 4),
                                            "\x7f"};
  if (WARPTAPE_HAS_ZLIB) REQUIRE(wt_test::takes_idx(packed));
  long long accepted = 0;
  for (long long i = 0; i < plan.cases; ++i) {
    const bool gz = WARPTAPE_HAS_ZLIB && i % 4 == 0;
    accepted += wt_test::takes_idx(mutated(gz ? packed : golden, plan.random, words));
  }
  CHECK(accepted > 0);
  CHECK(accepted < plan.cases / 2);
}
