// Negative log-likelihood on simt and cuda.
//   forward:  naive   one block adds everything
//             parts   many blocks add a run of rows each, one block adds their sums
//   backward: naive   one thread a row, any strides
//             filled  zeros in 16-byte stores over all of gx, then one element a row
#include "warptape/kernels/nll.h"

#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/device/bad_index.cuh"
#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/row_kernels.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 128;
constexpr i64 kMaxParts = 128, kRowsPerPart = 1024;

template <class A>
struct ClassWeights {
  const A* at;  // null: all 1
  i64 step;
  __device__ __forceinline__ A operator[](i64 c) const { return at ? at[c * step] : A(1); }
};

// --- forward ---

struct NllPart {
  double sum, weight;
};

template <class T, class A = ComputeType<T>>
struct NllForward {
  enum { LogProbs, Labels };  // the operands of `rows`
  Rows<2> rows;
  const T* log_probs;
  const i64* labels;
  ClassWeights<A> weights;
  i64 ignore_index;
  NllPart* parts;  // null: one block writes the totals
  A *loss_sum, *weight;
  MailboxRecord* mailbox;
  u32 op_id;
  template <class F>
  void visit_pointers(F&& f) const {
    f(log_probs), f(labels), f(weights.at), f(parts), f(loss_sum), f(weight), f(mailbox);
  }
};

// Block b adds the b-th run of rows.
template <class T>
__global__ void __launch_bounds__(kThreads) nll_sum(NllForward<T> a) {
  using A = ComputeType<T>;
  // Block and thread of a row depend on the number of rows and the grid alone, and so does the
  // order of the sum.
  const i64 run = (a.rows.count + gridDim.x - 1) / gridDim.x, begin = run * blockIdx.x;
  const i64 end = begin + run < a.rows.count ? begin + run : a.rows.count;
  double sum = 0, weight = 0;
  for (i64 row = begin + threadIdx.x; row < end; row += kThreads) {
    // Labels are read in a row, 256 bytes a warp. Of the log-probabilities one element a row is
    // wanted and 32 bytes are read, which nothing can help: they lie a row apart.
    i64 label = a.labels[a.rows.start(a.Labels, row)];
    if (label == a.ignore_index) continue;
    if (label < 0 || label >= a.rows.length) {
      // A kernel cannot throw: the row goes on with class 0, and the host learns of it at its next
      // wait.
      report_bad_index(a.mailbox, MailboxCode::label_out_of_range, a.op_id, row, label,
                       a.rows.length);
      label = 0;
    }
    const double w = double(a.weights[label]);
    if (w == 0) continue;
    // Doubles are exact for a product of two floats, and keep the digits of a million rows. On an
    // H100 they cost nothing here, where a thread waits for two loads in a chain.
    sum -= w * double(A(a.rows.row(a.LogProbs, a.log_probs, row)[label]));
    weight += w;
  }
  // All threads come here, those without a row with zeros: there are barriers inside.
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

// The end of a kernel is the barrier of the grid. An atomicAdd of each block would save this launch
// and lose the order.
template <class A>
__global__ void __launch_bounds__(kThreads)
    nll_sum_of_parts(const NllPart* parts, int count, A* loss_sum, A* weight) {
  const int t = int(threadIdx.x);
  const double sum = block_reduce(t < count ? parts[t].sum : 0.0, Plus());
  const double all = block_reduce(t < count ? parts[t].weight : 0.0, Plus());
  if (t != 0) return;
  *loss_sum = A(sum);
  *weight = A(all);
}
static_assert(kMaxParts <= kThreads);

void launch_forward(const NllForwardArgs& a, const Launch& l, i64 parts) {
  with_float_or_double(a.log_probs.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = ComputeType<T>;
    const NllForward<T> k{
        rows_along<2>(a.axis, {{a.log_probs}, {a.labels, false}}),
        a.log_probs.as<const T>(),
        a.labels.as<const i64>(),
        {a.class_weights.as<const A>(), a.class_weights ? a.class_weights.stride(0) : 0},
        a.ignore_index,
        parts > 1 ? static_cast<NllPart*>(l.workspace) : nullptr,
        a.loss_sum.as<A>(),
        a.weight.as<A>(),
        a.mailbox,
        a.op_id};
    launch<nll_sum<T>>(grid_of(l, parts, kThreads), k);
    if (k.parts)
      launch<nll_sum_of_parts<A>>(grid_of(l, 1, kThreads), k.parts, int(parts), k.loss_sum,
                                  k.weight);
  });
}
void forward_naive(const NllForwardArgs& a, const Launch& l) { launch_forward(a, l, 1); }

i64 parts_of(const NllForwardArgs& a) {
  // Eight rows a thread before a second block's sum is worth the second kernel.
  const i64 wanted = ceil_div(a.labels.numel(), kRowsPerPart);
  return wanted < 1 ? 1 : wanted > kMaxParts ? kMaxParts : wanted;
}
i64 parts_workspace(const NllForwardArgs& a) {
  const i64 parts = parts_of(a);
  return parts > 1 ? parts * i64(sizeof(NllPart)) : 0;
}
void forward_parts(const NllForwardArgs& a, const Launch& l) { launch_forward(a, l, parts_of(a)); }

// --- backward ---

template <class T, class A = ComputeType<T>>
struct NllBackward {
  enum { GX, Labels };  // the operands of `rows`
  Rows<2> rows;
  T* gx;
  const A* grad;
  const i64* labels;
  ClassWeights<A> weights;
  i64 ignore_index;
  template <class F>
  void visit_pointers(F&& f) const {
    f(gx), f(grad), f(labels), f(weights.at);
  }
  // Writes the one element of a row that is not zero, where the row counts.
  __device__ __forceinline__ void put(i64 row) const {
    i64 label = labels[rows.start(Labels, row)];
    if (label == ignore_index) return;
    if (label < 0 || label >= rows.length) label = 0;  // the forward has reported it
    // The incoming gradient is a number in device memory, one address for all threads.
    rows.row(GX, gx, row)[label] = T(-*grad * weights[label]);
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads) nll_backward_naive(NllBackward<T> a) {
  using A = ComputeType<T>;
  const i64 row = i64(blockIdx.x) * kThreads + threadIdx.x;
  if (row >= a.rows.count) return;
  // Where the classes are the innermost axis, neighbouring threads write a row apart: 32 sectors of
  // memory for 32 zeros. Where pixels are ([N, C, H, W]), they write neighbours.
  const auto gx = a.rows.row(a.GX, a.gx, row);
  for (i64 c = 0; c < a.rows.length; ++c) gx[c] = T(A(0));
  a.put(row);
}

// Zeros, whatever the dtype: a kernel for all of them.
__global__ void __launch_bounds__(kThreads) nll_zeros(Pack16<u32>* packs, i64 n, u16* rest, int m) {
  const i64 stride = i64(gridDim.x) * kThreads, first = i64(blockIdx.x) * kThreads + threadIdx.x;
  // 512 bytes a warp and instruction, for any number of classes: a row of 1000 or 50257 of them
  // need not begin at a boundary.
  for (i64 i = first; i < n; i += stride) vstore(packs + i, Pack16<u32>{});
  if (first < m) rest[first] = 0;
}

template <class T>
__global__ void __launch_bounds__(kThreads) nll_backward_put(NllBackward<T> a) {
  const i64 row = i64(blockIdx.x) * kThreads + threadIdx.x;
  // 32 bytes of traffic for one element, beside all of gx in packs: for 1000 classes a hundredth.
  if (row < a.rows.count) a.put(row);
}

template <class T>
NllBackward<T> backward_args(const NllBackwardArgs& a) {
  using A = ComputeType<T>;
  return {rows_along<2>(a.axis, {{a.gx}, {a.labels, false}}),
          a.gx.as<T>(),
          a.grad.as<const A>(),
          a.labels.as<const i64>(),
          {a.class_weights.as<const A>(), a.class_weights ? a.class_weights.stride(0) : 0},
          a.ignore_index};
}
void backward_naive(const NllBackwardArgs& a, const Launch& l) {
  with_float_or_double(a.gx.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<nll_backward_naive<T>>(grid_of(l, ceil_div(a.labels.numel(), kThreads), kThreads),
                                  backward_args<T>(a));
  });
}

const char* why_not_filled(const NllBackwardArgs& a) {
  if (a.gx.dtype() == DType::f64) return "f64 has the naive rung only";
  return a.gx.dense() && aligned_16(a.gx.data)
             ? nullptr
             : "the gradient must be contiguous and begin at a 16-byte boundary";
}
void backward_filled(const NllBackwardArgs& a, const Launch& l) {
  const i64 packs = a.gx.bytes() / 16, rest = a.gx.bytes() % 16 / 2;
  // Four packs a thread, for fewer blocks to start.
  launch<nll_zeros>(grid_of(l, ceil_div(packs + (rest != 0), 4 * kThreads), kThreads),
                    a.gx.as<Pack16<u32>>(), packs, a.gx.as<u16>() + packs * 8, int(rest));
  with_float(a.gx.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<nll_backward_put<T>>(grid_of(l, ceil_div(a.labels.numel(), kThreads), kThreads),
                                backward_args<T>(a));
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, nll_forward, NllForwardArgs,
            {.name = "parts", .rank = 20, .workspace = parts_workspace, .launch = forward_parts},
            {.name = "naive", .rank = 10, .launch = forward_naive});
WT_VARIANTS(WT_DEVICE_NS, nll_backward, NllBackwardArgs,
            {.name = "filled", .rank = 20, .why_not = why_not_filled, .launch = backward_filled},
            {.name = "naive", .rank = 10, .launch = backward_naive});

}  // namespace wt
