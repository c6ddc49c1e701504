// A rank that comes together with others, or does not: a hidden case that
// tests/dist/tcp/tcp_test.sh starts. WT_START_DEADLINE (ms). It says the sum of all ranks' numbers,
// or what it throws, and ends with that error's code.
#include <cstdio>
#include <cstdlib>

#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/dist/init.h"
#include "warptape/tests/support/catch.h"

using namespace wt;

TEST_CASE("ranks: they come together", "[.][rank_start]") {
  std::printf("BEGINS\n");
  std::fflush(stdout);
  const char* const ms = std::getenv("WT_START_DEADLINE");
  try {
    const auto comm =
        dist::init({.deadline = std::chrono::milliseconds(ms ? std::atoi(ms) : 60000)});
    const Tensor t = full({1}, double(comm->rank()));
    comm->all_reduce(t);
    std::printf("SUM %g\n", t.item<double>());
  } catch (const Error& e) {
    std::printf("%s\n", e.what());
    std::fflush(stdout);
    std::exit(e.exit_code());
  }
}
