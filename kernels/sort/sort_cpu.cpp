// The reference's loops, divided among threads. A part writes what no other part does, and each of
// its elements in the reference's order: the bits are the reference's.
#include <algorithm>

#include "warptape/core/device.h"
#include "warptape/kernels/cpu/threads.h"
#include "warptape/kernels/sort/sort_cpu.h"

namespace wt {

static int sorting_threads(i64 rows) { return int(std::min<i64>({rows, num_threads(), 64})); }
i64 sort_threaded_workspace(const SortArgs& a) {
  return sorting_threads(sort_row_count(a)) * sort_scratch(a);
}
void sort_threaded(const SortArgs& a, const Launch& l) {
  const i64 rows = sort_row_count(a), scratch = sort_scratch(a);
  const i64 tasks = std::min<i64>(rows, 4096);
  parallel(sorting_threads(rows), int(tasks), [&](int task, int worker) {
    sort_rows(a, static_cast<char*>(l.workspace) + worker * scratch, rows * task / tasks,
              rows * (task + 1) / tasks);
  });
}

}  // namespace wt
