// wt_gpu: what tools/gpu_gate.sh runs on a machine with a GPU, in one program:
//
//   wt_gpu bench ...    wt_gpu_bench (bench/gpu/gpu_bench.cpp), then what else `wt bench` has
//   wt_gpu tests ...    the tests that walk cuda, with Catch2's options
//   wt_gpu tune ...     and all else that `wt` has
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#include <string_view>

#include "warptape/bench/gpu/gpu_bench.h"
#include "warptape/tools/wt/run_command.h"

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "bench" && argc > 2 && wt::bench::gpu_bench_has(argv[2]))
    return wt::bench::gpu_bench(argc - 1, argv + 1);
  if (what == "tests") return Catch::Session().run(argc - 1, argv + 1);
  return wt::tools::run_command(argc, argv);
}
