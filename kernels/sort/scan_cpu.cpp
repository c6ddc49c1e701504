// The reference's loops, divided among threads. A part writes what no other part does, and each of
// its elements in the reference's order: the bits are the reference's.
#include <algorithm>

#include "warptape/core/device.h"
#include "warptape/kernels/cpu/threads.h"
#include "warptape/kernels/sort/scan_cpu.h"

namespace wt {

void scan_threaded(const ScanArgs& a, const Launch&) {
  constexpr i64 kElementsOfTask = i64{1} << 15;
  const i64 rows = scan_row_count(a);
  if (rows == 0) return;
  const i64 each = std::max<i64>(1, kElementsOfTask / (a.out.numel() / rows));
  const int tasks = int(std::min<i64>((rows + each - 1) / each, 1024));
  parallel(num_threads(), tasks,
           [&](int task, int) { scan_rows(a, rows * task / tasks, rows * (task + 1) / tasks); });
}

}  // namespace wt
