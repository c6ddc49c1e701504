// The command line of wt_gpu_bench, for wt_gpu too (tools/gate/wt_gpu.cpp).
#pragma once
#include <string>

namespace wt::bench {

// Whether it has a subcommand of that name.
bool gpu_bench_has(const std::string& what);
// argv[1] is what is measured; what it returns is the exit code (gpu_bench.cpp).
int gpu_bench(int argc, char** argv);

}  // namespace wt::bench
