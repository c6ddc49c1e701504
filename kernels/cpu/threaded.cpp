// Variants that are the reference's loops, divided among threads. A part writes what no other part
// does, and each of its elements in the reference's order: the bits are the reference's.
#include "warptape/kernels/cpu/axis_parts.h"
#include "warptape/kernels/cpu/ctc.h"
#include "warptape/kernels/cpu/gather.h"
#include "warptape/kernels/cpu/resize.h"
#include "warptape/kernels/cpu/scan.h"
#include "warptape/kernels/cpu/sort.h"
#include "warptape/kernels/cpu/unfold.h"

namespace wt {

void gather_threaded(const GatherArgs& a, const Launch&) {
  if (!gather_begin(a)) return;
  const AxisLoops<3> l = gather_loops(a);
  in_axis_parts(l, a.out.numel(), [&](const AxisPart& p) { gather_part(a, l, p); });
}

void scatter_threaded(const ScatterArgs& a, const Launch& launch) {
  if (!scatter_begin(a, launch.workspace)) return;
  const AxisLoops<3> l = scatter_loops(a);
  in_axis_parts(l, a.source.numel(),
                [&](const AxisPart& p) { scatter_part(a, launch.workspace, l, p); });
  scatter_end(a, launch.workspace);
}

void resize_threaded(const ResizeArgs& a, const Launch& launch) {
  if (a.out.numel() == 0) return;
  const AxisLoops<2> l = resize_begin(a, launch.workspace);
  in_axis_parts(l, a.out.numel(),
                [&](const AxisPart& p) { resize_part(a, launch.workspace, l, p); });
}
void resize_backward_threaded(const ResizeBackwardArgs& a, const Launch& launch) {
  if (a.gin.numel() == 0) return;
  const AxisLoops<2> l = resize_backward_begin(a, launch.workspace);
  in_axis_parts(l, a.gout.numel(),
                [&](const AxisPart& p) { resize_backward_part(a, launch.workspace, l, p); });
}

void unfold_backward_threaded(const UnfoldBackwardArgs& a, const Launch&) {
  if (a.gx.numel() == 0) return;
  const AxisLoops<2> l = unfold_loops(a);
  in_axis_parts(l, a.gout.numel(), [&](const AxisPart& p) { unfold_backward_part(a, l, p); });
}

void scan_threaded(const ScanArgs& a, const Launch&) {
  constexpr i64 kElementsOfTask = i64{1} << 15;
  const i64 rows = scan_row_count(a);
  if (rows == 0) return;
  const i64 each = std::max<i64>(1, kElementsOfTask / (a.out.numel() / rows));
  const int tasks = int(std::min<i64>((rows + each - 1) / each, 1024));
  parallel(num_threads(), tasks,
           [&](int task, int) { scan_rows(a, rows * task / tasks, rows * (task + 1) / tasks); });
}

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

template <class Args>
static int ctc_threads(const Args& a) {
  return int(std::min<i64>(num_threads(), a.alpha.numel() / (1 << 13) + 1));
}
void ctc_forward_threaded(const CtcForwardArgs& a, const Launch&) {
  parallel(ctc_threads(a), int(a.log_probs.size(1)),
           [&](int n, int) { ctc_forward_samples(a, n, n + 1); });
  ctc_add_losses(a);
}
void ctc_backward_threaded(const CtcBackwardArgs& a, const Launch& l) {
  parallel(ctc_threads(a), int(a.log_probs.size(1)),
           [&](int n, int) { ctc_backward_samples(a, l.workspace, n, n + 1); });
}

}  // namespace wt
