// main() of wt_gpu_bench, by itself: wt_gpu has the benchmark beside its tests.
#include "warptape/bench/gpu/gpu_bench.h"

int main(int argc, char** argv) { return wt::bench::gpu_bench(argc, argv); }
