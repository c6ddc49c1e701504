// The command line of wt_gpu_bench, for wt_gpu too (tools/gate/wt_gpu.cpp).
#pragma once

namespace wt::bench {

// argv[1] is what is measured; what it returns is the exit code (gpu_bench.cpp).
int gpu_bench(int argc, char** argv);

}  // namespace wt::bench
