// Connectionist temporal classification on simt and cuda. The ladder, forward and backward:
//   naive  one thread a sample: step by step, state by state
//   block  one block a sample, a thread a state: a barrier a step; the gradient is a kernel of its
//          own, which has all steps at once
// The gradients are in ctc_backward.cu.
#include "warptape/kernels/ctc.h"

#include "warptape/kernels/device/bad_index.cuh"
#include "warptape/kernels/loss/ctc.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class T, class A = ComputeType<T>>
struct CtcForward {
  CtcInputs<T> from;
  A *losses, *alpha;
  i64 rows, width;  // of a sample's alpha
  MailboxRecord* mailbox;
  u32 op_id;
  template <class F>
  void visit_pointers(F&& f) const {
    from.visit_pointers(f);
    f(losses), f(alpha), f(mailbox);
  }
  // A kernel cannot throw: a label that is none counts as class 0, and the host learns of it at its
  // next wait.
  __device__ __forceinline__ void check_label(const CtcSample<T, A>& x, i64 k, i64 place) const {
    const i64 label = x.target[k * x.target_step];
    if (label < 0 || label >= x.classes)
      report_bad_index(mailbox, MailboxCode::label_out_of_range, op_id, place + k, label,
                       x.classes);
  }
};

template <class A>
__device__ __forceinline__ A loss_without_steps(i64 labels) {
  return labels == 0 ? A(0) : A(INFINITY);
}

// --- naive ---

template <class T>
__global__ void __launch_bounds__(kNaiveThreads) ctc_forward_naive(CtcForward<T> a) {
  using A = ComputeType<T>;
  constexpr A none = -A(INFINITY);
  const i64 n = i64(blockIdx.x) * kNaiveThreads + threadIdx.x;
  if (n >= a.from.samples) return;
  const i64 before = a.from.labels_before(n);
  const auto x = a.from.sample(n, before);
  for (i64 k = 0; k < x.labels; ++k) a.check_label(x, k, a.from.first_place(n, before));
  A* row = a.alpha + n * a.rows * a.width;
  const i64 states = x.states();
  if (x.steps == 0) {
    a.losses[n] = loss_without_steps<A>(x.labels);
    return;
  }
  // Steps wait for each other by nature, states do not; here they do. 32 samples are 32 threads on
  // a machine that wants 200,000, and each of them waits for memory three times a state, reading
  // what it has just written itself.
  for (i64 s = 0; s < states; ++s) row[s] = s < 2 ? x.at(0, s) : none;
  for (i64 t = 1; t < x.steps; ++t, row += a.width)
    for (i64 s = 0; s < states; ++s)
      row[a.width + s] =
          x.at(t, s) + log_sum(row[s], s >= 1 ? row[s - 1] : none, x.skips(s) ? row[s - 2] : none);
  a.losses[n] = -log_sum(row[states - 1], states > 1 ? row[states - 2] : none, none);
}

// --- block ---

template <class T>
__global__ void __launch_bounds__(kMostThreads) ctc_forward_block(CtcForward<T> a) {
  WT_SHARED(CtcRow, rows, [2]);
  const i64 n = blockIdx.x, before = labels_before_by_block<T>(a.from, n);
  const auto x = a.from.sample(n, before);
  for (i64 k = threadIdx.x; k < x.labels; k += blockDim.x)
    a.check_label(x, k, a.from.first_place(n, before));
  const float* const last = ctc_walk(x, false, a.alpha + n * a.rows * a.width, a.width, rows);
  if (threadIdx.x != 0) return;
  // For a sample without labels the cell before its one state is -inf, as it should be.
  const i64 cell = x.states() + 1;
  a.losses[n] = x.steps == 0 ? loss_without_steps<float>(x.labels)
                             : -log_sum<float>(last[cell], last[cell - 1], -INFINITY);
}

// --- the sum over samples ---

constexpr int kSumThreads = 128;

// One block: the end of the kernel before is the barrier between all samples. In doubles, and in an
// order that the number of samples decides.
template <class A>
__global__ void __launch_bounds__(kSumThreads)
    ctc_sum(A* loss_sum, const A* losses, CtcLengths labels, i64 samples, bool divide_by_length,
            bool zero_infinity) {
  double sum = 0;
  for (i64 n = threadIdx.x; n < samples; n += kSumThreads)
    if (!(zero_infinity && losses[n] == A(INFINITY)))
      sum += double(ctc_scale<A>(divide_by_length, labels[n]) * losses[n]);
  sum = block_reduce(sum, Plus());
  if (threadIdx.x == 0) *loss_sum = A(sum);
}

// --- launch ---

template <class T>
CtcForward<T> forward_args(const CtcForwardArgs& a) {
  using A = ComputeType<T>;
  return {CtcInputs<T>(a), a.losses.as<A>(), a.alpha.as<A>(), a.alpha.size(1),
          a.alpha.size(2), a.mailbox,        a.op_id};
}
template <class A>
void add_losses(const CtcForwardArgs& a, const Launch& l) {
  launch<ctc_sum<A>>(grid_of(l, 1, kSumThreads), a.loss_sum.as<A>(), a.losses.as<const A>(),
                     CtcLengths(a.target_lengths), a.log_probs.size(1), a.divide_by_length,
                     a.zero_infinity);
}
void forward_naive(const CtcForwardArgs& a, const Launch& l) {
  with_float_or_double(a.log_probs.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<ctc_forward_naive<T>>(
        grid_of(l, ceil_div(a.log_probs.size(1), kNaiveThreads), kNaiveThreads),
        forward_args<T>(a));
    add_losses<ComputeType<T>>(a, l);
  });
}
void forward_block(const CtcForwardArgs& a, const Launch& l) {
  with_float(a.log_probs.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<ctc_forward_block<T>>(block_a_sample(a, l), forward_args<T>(a));
  });
  add_losses<float>(a, l);
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, ctc_forward, CtcForwardArgs,
            {.name = "block",
             .rank = 20,
             .why_not = why_not_block<CtcForwardArgs>,
             .launch = forward_block},
            {.name = "naive", .rank = 10, .launch = forward_naive});

}  // namespace wt
