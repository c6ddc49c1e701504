// The loss of all rows of a cross-entropy: the rows' losses, which lie in the workspace, and their
// weights, added in a fixed order.
#pragma once
#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/common/strided.h"
#include "warptape/kernels/cross_entropy.h"
#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/row_kernels.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

struct LossPart {
  // Doubles: a million rows added in f32 would lose the last rows' digits, and these are few
  // additions.
  double sum, weight;
};
constexpr int kTotalThreads = 128;
constexpr i64 kRowsPerPart = 4096, kMaxParts = 128;

template <class A>
struct LossTotal {
  enum { Logits, Labels };  // the operands of `rows`
  Rows<2> rows;
  bool in_order;  // label i is row i's
  const i64* labels;
  i64 ignore_index;
  const A* losses;
  LossPart* parts;  // null: one block writes the totals
  A *loss_sum, *weight;
  template <class F>
  void visit_pointers(F&& f) const {
    f(labels), f(losses), f(parts), f(loss_sum), f(weight);
  }
};

// Block b adds the b-th run of rows.
template <class A>
__global__ void __launch_bounds__(kTotalThreads) cross_entropy_total(LossTotal<A> a) {
  // Runs of rows and threads within them are fixed by the number of rows; block_reduce adds in a
  // fixed order, too. The loss is the same bits at every run, which atomicAdd on one double would
  // not give.
  const i64 run = (a.rows.count + gridDim.x - 1) / gridDim.x;
  const i64 begin = run * blockIdx.x, stop = begin + run;
  const i64 end = stop < a.rows.count ? stop : a.rows.count;
  double sum = 0, weight = 0;
  const auto add = [&](A loss, i64 label) WT_INLINE_LAMBDA {
    sum += double(loss);
    weight += label == a.ignore_index ? 0 : 1;
  };
  if (a.in_order) {
    // A few blocks have all the rows: four loads of each a thread are under way where one would
    // wait for itself.
#pragma unroll 4
    for (i64 row = begin + threadIdx.x; row < end; row += kTotalThreads)
      add(a.losses[row], a.labels[row]);
  } else {
    for (i64 row = begin + threadIdx.x; row < end; row += kTotalThreads)
      add(a.losses[row], a.labels[a.rows.start(a.Labels, row)]);
  }
  sum = block_reduce(sum, Plus());
  weight = block_reduce(weight, Plus());
  if (threadIdx.x != 0) return;
  if (a.parts) {
    a.parts[blockIdx.x] = {sum, weight};
  } else {
    *a.loss_sum = A(sum);
    *a.weight = A(weight);
  }
}

template <class A>
__global__ void __launch_bounds__(kTotalThreads)
    cross_entropy_total_of_parts(LossTotal<A> a, int parts) {
  // A kernel of its own because blocks cannot wait for each other: the end of a kernel is the
  // barrier of the grid.
  const int t = int(threadIdx.x);
  const double sum = block_reduce(t < parts ? a.parts[t].sum : 0.0, Plus());
  const double weight = block_reduce(t < parts ? a.parts[t].weight : 0.0, Plus());
  if (t != 0) return;
  *a.loss_sum = A(sum);
  *a.weight = A(weight);
}
static_assert(kMaxParts <= kTotalThreads);

inline i64 row_count(const View& logits, int axis) {
  i64 n = 1;
  for (int d = 0; d < logits.ndim(); ++d)
    if (d != axis) n *= logits.size(d);
  return n;
}
// Row losses, then partial sums.
inline i64 losses_bytes(const CrossEntropyForwardArgs& a) {
  const i64 bytes = row_count(a.logits, a.axis) * item_size(a.loss_sum.dtype());
  // The partial sums after them are doubles.
  return (bytes + 15) / 16 * 16;
}
inline i64 forward_workspace(const CrossEntropyForwardArgs& a) {
  return losses_bytes(a) + kMaxParts * i64(sizeof(LossPart));
}

template <class T>
void launch_total(const CrossEntropyForwardArgs& a, const Launch& l) {
  using A = ComputeType<T>;
  LossTotal<A> t{rows_along<2>(a.axis, {{a.logits}, {a.labels, false}}),
                 loop_nest({a.labels}).dense(),
                 a.labels.as<const i64>(),
                 a.ignore_index,
                 static_cast<const A*>(l.workspace),
                 nullptr,
                 a.loss_sum.as<A>(),
                 a.weight.as<A>()};
  const i64 wanted = ceil_div(t.rows.count, kRowsPerPart);
  const i64 parts = wanted < 1 ? 1 : wanted > kMaxParts ? kMaxParts : wanted;
  if (parts > 1)
    t.parts = reinterpret_cast<LossPart*>(static_cast<char*>(l.workspace) + losses_bytes(a));
  launch<cross_entropy_total<A>>(grid_of(l, parts, kTotalThreads), t);
  if (parts > 1)
    launch<cross_entropy_total_of_parts<A>>(grid_of(l, 1, kTotalThreads), t, int(parts));
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
