// The ceilings of the machine, measured at the start of every run.
#pragma once
#include "warptape/bench/gpu/measure.h"

namespace wt::bench {

// Copy bandwidth, products by cuBLASLt (cuda only), an empty launch. Rows are appended.
Ceilings measure_ceilings(Device d, std::vector<Row>& rows);
// TFLOP/s of the best of cuBLASLt's first eight choices on an n x n x n product of random numbers.
// Only in builds with cuda.
double gemm_ceiling(Device d, i64 n, DType t);

}  // namespace wt::bench
