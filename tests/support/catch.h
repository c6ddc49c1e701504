// Catch2 2.13 and 3 through one header. Portable: TEST_CASE, SECTION, TEMPLATE_TEST_CASE, GENERATE,
// CHECK, REQUIRE, REQUIRE_THROWS_AS, CAPTURE, INFO. Not portable, so not used: Approx and the
// string matchers.
#pragma once

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_adapters.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#else
#include <catch2/catch.hpp>
#endif

#include <cstdio>

// Leaves the test case and makes ctest show it as skipped. `why` is a C string.
// Version 2 counts such a case as passed, and version 3's SKIP gives the whole program an exit code
// of its own: the printed line is what tests/support/run_case.sh counts, for both alike.
#define SKIP_TEST(why)                   \
  do {                                   \
    std::printf("SKIPPED: %s\n", (why)); \
    std::fflush(stdout);                 \
    SUCCEED("skipped");                  \
    return;                              \
  } while (false)
