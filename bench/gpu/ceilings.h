// The ceilings of the machine, measured at the start of every run. Each row is kept as it comes;
// what cannot be measured is a row that says why, and the others follow.
#pragma once
#include <functional>
#include <string>

#include "warptape/bench/gpu/gpu_bench_jobs.h"

namespace wt::bench {

// Measures one ceiling into `r`, and keeps it. False where that failed.
bool measure_ceiling(RowFile& rows, Row& r, const std::function<void()>& measure);

// Copy bandwidth, products by cuBLASLt (cuda only), an empty launch. `good`: nothing failed.
Ceilings measure_roofs(const BenchOptions& o, RowFile& rows, bool& good);
// These say whether nothing failed.
bool measure_graphs(const BenchOptions& o, RowFile& rows);     // launches of a replayed graph
bool measure_transfers(const BenchOptions& o, RowFile& rows);  // between host and a cuda device
void measure_disk(const BenchOptions& o, RowFile& rows);       // o.disk; a row says where it cannot

// What an earlier run on this device has left in a file of rows; zero what it has not. Lines that
// are torn are passed over. Throws UsageError where the file cannot be read.
Ceilings read_ceilings(const std::string& path, Device d);

// Sizes for this scale: the real one only where there is a GPU to fill.
inline bool at_full_size(const BenchOptions& o) {
  return o.device.kind == DeviceKind::cuda && o.scale == Scale::real;
}
void launch_empty(Device d);

// The best of cuBLASLt's first eight choices on an n x n x n product of random numbers, back to
// back. dtype: bf16, f16, tf32, f32. Throws NotAvailable. Only in builds with cuda.
Timing gemm_ceiling(Device d, i64 n, const std::string& dtype, double seconds);

}  // namespace wt::bench
