// Cross-entropy on simt and cuda. The ladder:
//   naive   one thread a row; the good one when the classes are not the innermost axis, because
//           neighbouring threads then read neighbouring elements
//   warp    one warp a row, 16-byte reads, one online pass
//   block   one block a row, for long rows
// The row losses go to the workspace and are added in a fixed order.
#include "warptape/kernels/cross_entropy.h"

#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/device/bad_index.cuh"
#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/online_softmax.cuh"
#include "warptape/kernels/device/row_kernels.cuh"
#include "warptape/kernels/loss/cross_entropy_total.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class A>
struct RowLabels {
  const i64* labels;
  i64 ignore_index;
  A smoothing;
  i64 classes;
};

template <class T, class A = ComputeType<T>>
struct LossForward {
  enum { Logits, Labels };  // the operands of `rows`
  Rows<2> rows;
  RowLabels<A> target;
  const T* logits;
  A *stats, *losses;
  MailboxRecord* mailbox;
  u32 op_id;
  template <class F>
  void visit_pointers(F&& f) const {
    f(target.labels), f(logits), f(stats), f(losses), f(mailbox);
  }

  __device__ void finish(i64 row, i64 label, A max, A sum, A total, RowOf<const T> x) const {
    const A log_sum = logarithm(sum);
    // log(sum(exp(x - max))) + max - x[label], and in this order: both terms are small where the
    // loss is, while max + log_sum and x[label] may be large and equal to the last digit.
    A loss = log_sum + (max - A(x[label]));
    if (target.smoothing != 0)
      loss = (1 - target.smoothing) * loss +
             target.smoothing * (log_sum + (max - total / A(rows.length)));
    // The gradient needs max and log_sum only, two numbers a row: the probabilities, which would be
    // as many bytes as the logits, are made anew there.
    losses[row] = loss;
    stats[row] = max;
    stats[rows.count + row] = log_sum;
  }
};

template <class T, class A = ComputeType<T>>
struct LossBackward {
  enum { GLogits, Logits, Labels };  // the operands of `rows`
  Rows<3> rows;
  RowLabels<A> target;
  T* glogits;
  const T* logits;
  const A *stats, *grad;
  template <class F>
  void visit_pointers(F&& f) const {
    f(target.labels), f(glogits), f(logits), f(stats), f(grad);
  }
};

// The class of a row; -1 for an ignored one. `report`: this thread raises the mailbox.
template <class T>
__device__ __forceinline__ i64 label_of(const LossForward<T>& a, i64 row, bool report) {
  const i64 label = a.target.labels[a.rows.start(a.Labels, row)];
  if (label == a.target.ignore_index) return -1;
  if (label >= 0 && label < a.rows.length) return label;
  // One thread of a row says so: the record is taken by an atomicCAS, where the others would queue.
  // The row goes on with class 0: a kernel cannot throw, and the host learns of it at its next
  // wait.
  if (report)
    report_bad_index(a.mailbox, MailboxCode::label_out_of_range, a.op_id, row, label,
                     a.rows.length);
  return 0;
}

// What the gradient of a row needs beside its logits.
template <class T>
struct RowGradient {
  using A = ComputeType<T>;
  A max, log_sum, grad, hit, every;
  i64 label;
  bool ignored;

  __device__ __forceinline__ RowGradient(const LossBackward<T>& a, i64 row) {
    label = a.target.labels[a.rows.start(a.Labels, row)];
    ignored = label == a.target.ignore_index;
    if (label < 0 || label >= a.rows.length) label = 0;
    max = ignored ? A(0) : a.stats[row];
    log_sum = ignored ? A(0) : a.stats[a.rows.count + row];
    grad = *a.grad;
    // The target is `every` for all classes, and `hit` more for the right one: no one-hot row is
    // read.
    hit = 1 - a.target.smoothing;
    every = a.target.smoothing / A(a.rows.length);
  }
  __device__ __forceinline__ T at(T x, i64 i) const {
    if (ignored) return T(A(0));
    // softmax without a division: exp(x - max) / sum is exp(x - max - log(sum)).
    const A p = exp_for<T>(A(x) - max - log_sum);
    return T(grad * (p - every - (i == label ? hit : A(0))));
  }
};

// --- naive ---

template <class T>
__global__ void __launch_bounds__(64) cross_entropy_naive(LossForward<T> a) {
  using A = ComputeType<T>;
  const i64 row = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= a.rows.count) return;
  const i64 label = label_of(a, row, true);
  if (label < 0) {
    a.losses[row] = 0;
    return;
  }
  const auto x = a.rows.row(a.Logits, a.logits, row);
  const i64 n = a.rows.length;
  // Where the classes are the innermost axis, neighbouring threads read a row apart, a sector of 32
  // bytes an element. Where pixels are ([N, C, H, W]), they read neighbouring pixels of one class:
  // 128 bytes in a row a warp (f32), and this rung is the good one.
  A largest = A(-INFINITY), sum = 0, total = 0;
  for (i64 i = 0; i < n; ++i) largest = max(largest, A(x[i]));
  for (i64 i = 0; i < n; ++i) sum += exp_for<T>(A(x[i]) - largest);
  if (a.target.smoothing != 0)
    for (i64 i = 0; i < n; ++i) total += A(x[i]);
  a.finish(row, label, largest, sum, total, x);
}

template <class T>
__global__ void __launch_bounds__(64) cross_entropy_backward_naive(LossBackward<T> a) {
  const i64 row = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= a.rows.count) return;
  const RowGradient<T> gradient(a, row);
  const auto gx = a.rows.row(a.GLogits, a.glogits, row);
  const auto x = a.rows.row(a.Logits, a.logits, row);
  for (i64 i = 0; i < a.rows.length; ++i) gx[i] = gradient.at(x[i], i);
}

// --- warp and block ---

// The threads that share a row: a warp, or the whole block.
template <bool Block>
struct Team {
  i64 row, rows_apart, rank, size;
  __device__ __forceinline__ Team() {
    const i64 per_block = Block ? 1 : blockDim.x / 32;
    // Known at compile time which: a warp's rows need shuffles only, a block's shared memory and
    // barriers.
    row = i64(blockIdx.x) * per_block + (Block ? 0 : threadIdx.x / 32);
    rows_apart = i64(gridDim.x) * per_block;
    rank = Block ? threadIdx.x : threadIdx.x % 32;
    size = Block ? blockDim.x : 32;
  }
  template <class V, class Op>
  __device__ __forceinline__ V reduce(V v, Op op) const {
    if constexpr (Block)
      return block_reduce(v, op);
    else
      return warp_reduce(v, op);
  }
};

template <class T, bool Block>
__global__ void __launch_bounds__(kTeamThreads<Block>) cross_entropy_rows(LossForward<T> a) {
  Team<Block> team;
  const i64 n = a.rows.length;
  const bool smooth = a.target.smoothing != 0;
  for (i64 row = team.row; row < a.rows.count; row += team.rows_apart) {
    const i64 label = label_of(a, row, team.rank == 0);
    // `continue` past the reductions below is safe, because all threads of the team take it: a
    // barrier or a shuffle that some of them skip would hang the others.
    if (label < 0) {  // the same for the whole team
      if (team.rank == 0) a.losses[row] = 0;
      continue;
    }
    const auto x = a.rows.row(a.Logits, a.logits, row);
    const PackSplit split = split_into_packs<T>(x.data, x.data, n, x.step == 1);
    OnlineSoftmax<T> state;
    float total = 0;
    // Three stretches: elements up to the first 16-byte boundary, packs, what is left. The lanes of
    // a warp take neighbouring packs, 512 bytes a load; a vocabulary of 50257 in f16 begins every
    // second row off a boundary of 4 bytes, and is still read so.
    const auto single = [&](i64 i) WT_INLINE_LAMBDA {
      const float v = float(x[i]);
      state.add(v);
      total += v;
    };
    for (i64 i = team.rank; i < split.head; i += team.size) single(i);
    const auto load = [&](i64 p) WT_INLINE_LAMBDA {
      return vload<Pack16<T>>(x.data + split.head + p * kPerPack<T>);
    };
    const auto add = [&](const Pack16<T>& v) WT_INLINE_LAMBDA {
      state.add(v);
      if (smooth)
#pragma unroll
        for (int j = 0; j < kPerPack<T>; ++j) total += float(v.v[j]);
    };
    // Four packs are asked for before the first is added: one at a time, 50,304 classes are 7 to 13
    // waits for memory a row. A warp has 8 packs a lane at most before a block is better, and many
    // neighbours that work while it waits.
    constexpr int kAhead = Block ? 4 : 2;
    i64 p = team.rank;
    for (; p + (kAhead - 1) * team.size < split.packs; p += kAhead * team.size) {
      Pack16<T> v[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) v[k] = load(p + k * team.size);
#pragma unroll
      for (int k = 0; k < kAhead; ++k) add(v[k]);
    }
    for (; p < split.packs; p += team.size) add(load(p));
    for (i64 i = split.tail + team.rank; i < n; i += team.size) single(i);
    // Each thread's sum stands on its own maximum; one more factor puts it on the row's.
    const float largest = team.reduce(state.max, Larger());
    const float sum = team.reduce(rescaled<T>(state.sum, state.max, largest), Plus());
    if (smooth) total = team.reduce(total, Plus());
    // x[label] is read once more, by one thread: it was in some other thread's registers, and is in
    // L2.
    if (team.rank == 0) a.finish(row, label, largest, sum, total, x);
  }
}

template <class T, bool Block>
__global__ void __launch_bounds__(kTeamThreads<Block>)
    cross_entropy_backward_rows(LossBackward<T> a) {
  Team<Block> team;
  const i64 n = a.rows.length;
  for (i64 row = team.row; row < a.rows.count; row += team.rows_apart) {
    const RowGradient<T> gradient(a, row);
    const auto gx = a.rows.row(a.GLogits, a.glogits, row);
    const auto x = a.rows.row(a.Logits, a.logits, row);
    const PackSplit split = split_into_packs<T>(x.data, gx.data, n, gx.step == 1 && x.step == 1);
    for (i64 i = team.rank; i < split.head; i += team.size) gx[i] = gradient.at(x[i], i);
    for (i64 p = team.rank; p < split.packs; p += team.size) {
      const i64 at = split.head + p * kPerPack<T>;
      // A read and a write, nothing kept between the threads: no reduction, no barrier. The
      // gradient is written over the logits where the operator may (gx is x): every thread reads a
      // pack before it writes it.
      auto v = vload<Pack16<T>>(x.data + at);
#pragma unroll
      for (int j = 0; j < kPerPack<T>; ++j) v.v[j] = gradient.at(v.v[j], at + j);
      vstore(gx.data + at, v);
    }
    for (i64 i = split.tail + team.rank; i < n; i += team.size) gx[i] = gradient.at(x[i], i);
  }
}

// --- choice and launch ---

template <class A, class Args>
RowLabels<A> target_of(const Args& a) {
  return {a.labels.template as<const i64>(), a.ignore_index, A(a.smoothing), a.logits.size(a.axis)};
}
template <class T>
LossForward<T> kernel_args(const CrossEntropyForwardArgs& a, const Launch& l) {
  using A = ComputeType<T>;
  return {rows_along<2>(a.axis, {{a.logits}, {a.labels, false}}),
          target_of<A>(a),
          a.logits.as<const T>(),
          a.stats.as<A>(),
          static_cast<A*>(l.workspace),
          a.mailbox,
          a.op_id};
}
template <class T>
LossBackward<T> kernel_args(const CrossEntropyBackwardArgs& a, const Launch&) {
  using A = ComputeType<T>;
  return {rows_along<3>(a.axis, {{a.glogits}, {a.logits}, {a.labels, false}}),
          target_of<A>(a),
          a.glogits.as<T>(),
          a.logits.as<const T>(),
          a.stats.as<const A>(),
          a.grad.as<const A>()};
}

void launch_naive(const CrossEntropyForwardArgs& a, const Launch& l) {
  with_float_or_double(a.logits.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = kernel_args<T>(a, l);
    launch<cross_entropy_naive<T>>(grid_of(l, ceil_div(k.rows.count, 64), 64), k);
    launch_total<T>(a, l);
  });
}
void launch_naive(const CrossEntropyBackwardArgs& a, const Launch& l) {
  with_float_or_double(a.logits.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = kernel_args<T>(a, l);
    launch<cross_entropy_backward_naive<T>>(grid_of(l, ceil_div(k.rows.count, 64), 64), k);
  });
}

template <bool Block>
void launch_rows(const CrossEntropyForwardArgs& a, const Launch& l) {
  with_float(a.logits.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = kernel_args<T>(a, l);
    launch<cross_entropy_rows<T, Block>>(
        team_grid<Block>(l, k.rows.count, k.rows.length, sizeof(T)), k);
    launch_total<T>(a, l);
  });
}
template <bool Block>
void launch_rows(const CrossEntropyBackwardArgs& a, const Launch& l) {
  with_float(a.logits.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = kernel_args<T>(a, l);
    launch<cross_entropy_backward_rows<T, Block>>(
        team_grid<Block>(l, k.rows.count, k.rows.length, sizeof(T)), k);
  });
}

template <class Args>
const char* not_double(const Args& a) {
  return a.logits.dtype() == DType::f64 ? "f64 has the naive rung only" : nullptr;
}
template <class Args>
int rank_of_warp(const Args& a) {
  // Up to 2048 classes a lane has 64 elements and a block would spend its time in barriers; beyond,
  // one warp a row leaves too few loads under way.
  return a.logits.size(a.axis) <= 2048 ? 40 : 20;
}
template <class Args>
int rank_of_naive(const Args& a) {
  // Above all others where neighbouring threads read neighbouring elements, else below all.
  return a.logits.stride(a.axis) != 1 ? 50 : 10;
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, cross_entropy_forward, CrossEntropyForwardArgs,
            {.name = "naive",
             .rank = 50,
             .rank_of = rank_of_naive<CrossEntropyForwardArgs>,
             .workspace = forward_workspace,
             .launch = launch_naive},
            {.name = "warp",
             .rank = 40,
             .why_not = not_double<CrossEntropyForwardArgs>,
             .rank_of = rank_of_warp<CrossEntropyForwardArgs>,
             .workspace = forward_workspace,
             .launch = launch_rows<false>},
            {.name = "block",
             .rank = 30,
             .why_not = not_double<CrossEntropyForwardArgs>,
             .workspace = forward_workspace,
             .launch = launch_rows<true>});
WT_VARIANTS(WT_DEVICE_NS, cross_entropy_backward, CrossEntropyBackwardArgs,
            {.name = "naive",
             .rank = 50,
             .rank_of = rank_of_naive<CrossEntropyBackwardArgs>,
             .launch = launch_naive},
            {.name = "warp",
             .rank = 40,
             .why_not = not_double<CrossEntropyBackwardArgs>,
             .rank_of = rank_of_warp<CrossEntropyBackwardArgs>,
             .launch = launch_rows<false>},
            {.name = "block",
             .rank = 30,
             .why_not = not_double<CrossEntropyBackwardArgs>,
             .launch = launch_rows<true>});

}  // namespace wt
