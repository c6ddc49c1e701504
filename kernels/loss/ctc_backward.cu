// Connectionist temporal classification on simt and cuda: the gradient. The ladder is ctc.cu's.
#include "warptape/kernels/loss/ctc.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class T, class A = ComputeType<T>>
struct CtcBackward {
  CtcInputs<T> from;
  T* gx;
  i64 step, sample_step, class_step;  // strides of gx
  const A *grad, *losses, *alpha;
  i64 all_steps, width;
  bool zero_infinity;
  A* beta;  // of the workspace
  template <class F>
  void visit_pointers(F&& f) const {
    from.visit_pointers(f);
    f(gx), f(grad), f(losses), f(alpha), f(beta);
  }
  __device__ __forceinline__ RowOf<T> row(i64 t, i64 n) const {
    return {gx + t * step + n * sample_step, class_step};
  }
  // What stands in gx[t][n] where no state adds to it.
  __device__ __forceinline__ T filled(bool inside, A loss) const {
    return T(inside && loss == A(INFINITY) && !zero_infinity ? A(NAN) : A(0));
  }
};

// The share of the paths through a state. A state that no path reaches has none, whatever the loss.
template <class A>
__device__ __forceinline__ A ctc_share(A alpha, A beta, A loss) {
  const A both = alpha + beta;
  return both == -A(INFINITY) ? A(0) : exp(both + loss);
}

// --- naive ---

// Workspace of a sample: two rows of beta, and a sum a class.
i64 naive_workspace(const CtcBackwardArgs& a) {
  return a.log_probs.size(1) * (2 * a.alpha.size(2) + a.log_probs.size(2)) *
         item_size(a.alpha.dtype());
}

template <class T>
__global__ void __launch_bounds__(kNaiveThreads) ctc_backward_naive(CtcBackward<T> a) {
  using A = ComputeType<T>;
  constexpr A none = -A(INFINITY);
  const i64 n = i64(blockIdx.x) * kNaiveThreads + threadIdx.x;
  if (n >= a.from.samples) return;
  const auto x = a.from.sample(n, a.from.labels_before(n));
  const A loss = a.losses[n], scale = *a.grad * a.from.scale(n);
  const i64 states = x.states();
  for (i64 t = 0; t < a.all_steps; ++t)
    for (i64 c = 0; c < x.classes; ++c) a.row(t, n)[c] = a.filled(t < x.steps, loss);
  if (loss == A(INFINITY)) return;
  A* now = a.beta + n * (2 * a.width + x.classes);
  A *later = now + a.width, *const sums = later + a.width;
  for (i64 t = x.steps; t-- > 0;) {
    for (i64 s = 0; s < states; ++s) {
      if (t + 1 == x.steps) {
        now[s] = s + 2 >= states ? A(0) : none;
        continue;
      }
      A on[3] = {none, none, none};
      for (int k = 0; k < 3; ++k)
        if (s + k < states && (k < 2 || x.skips(s + 2))) on[k] = later[s + k] + x.at(t + 1, s + k);
      now[s] = log_sum(on[0], on[1], on[2]);
    }
    // Every other state is the blank, and labels repeat: the sums of classes. One thread adds them
    // in the order of the states; many would need float atomics, whose order nobody knows.
    for (i64 c = 0; c < x.classes; ++c) sums[c] = 0;
    const A* const alpha = a.alpha + (n * a.all_steps + t) * a.width;
    for (i64 s = 0; s < states; ++s) sums[x.class_of(s)] += ctc_share(alpha[s], now[s], loss);
    for (i64 c = 0; c < x.classes; ++c) a.row(t, n)[c] = T(-scale * sums[c]);
    A* const free = later;
    later = now, now = free;
  }
}

// --- block: beta of all steps, then the gradient of all steps at once ---
// What has to go step by step is the recursion alone. The gradient of a step needs alpha and beta
// of that step, and its exponentials and sums would lengthen every step of the few blocks that
// walk: beta goes to the workspace, and a second kernel, a warp a step and sample, has the whole
// machine. That costs beta's memory, as much as alpha's.

// v[0]: the label's class if it is the first of its class among the sample's labels, else -1 - its
// class. v[1]: where the next one of the class is; the number of labels if there is none.
using CtcLink = Pack<i32, 2>;
i64 most_labels(const CtcBackwardArgs& a) { return a.alpha.size(2) / 2; }
i64 beta_bytes(const CtcBackwardArgs& a) { return (a.alpha.numel() * 4 + 15) / 16 * 16; }
i64 block_workspace(const CtcBackwardArgs& a) {
  return beta_bytes(a) + a.log_probs.size(1) * most_labels(a) * i64(sizeof(CtcLink));
}

template <class T>
__global__ void __launch_bounds__(kMostThreads) ctc_beta_block(CtcBackward<T> a, CtcLink* links) {
  WT_SHARED(CtcRow, rows, [2]);
  WT_SHARED(i32, classes, [kMostStates / 2]);
  const i64 n = blockIdx.x;
  auto x = a.from.sample(n, labels_before_by_block<T>(a.from, n));
  const int labels = int(x.labels), threads = int(blockDim.x);
  // No path, no gradient: the second kernel fills.
  if (a.losses[n] == INFINITY) x.steps = 0;
  for (int k = int(threadIdx.x); k < labels; k += threads) classes[k] = i32(x.label(k));
  __syncthreads();
  // Each label looks at all others, once a sample: a sum of the second kernel then goes from label
  // to label of its class, in their order, and nobody else adds to that class.
  for (int k = int(threadIdx.x); k < labels; k += threads) {
    const i32 c = classes[k];
    bool is_first = true;
    for (int j = 0; j < k; ++j) is_first = is_first && classes[j] != c;
    int next = k + 1;
    while (next < labels && classes[next] != c) ++next;
    vstore(links + n * (a.width / 2) + k, CtcLink{is_first ? c : -1 - c, next});
  }
  ctc_walk(x, true, a.beta + n * a.all_steps * a.width, a.width, rows);
}

// A warp a row of gx.
template <class T>
__global__ void __launch_bounds__(kTeamWarps * 32)
    ctc_gradient(CtcBackward<T> a, const CtcLink* links, i64 all_rows) {
  const int lane = int(threadIdx.x % 32);
  i64 r = i64(blockIdx.x) * kTeamWarps + threadIdx.x / 32;
  for (; r < all_rows; r += i64(gridDim.x) * kTeamWarps) {
    const i64 t = r / a.from.samples, n = r - t * a.from.samples;  // gx in order, where contiguous
    const float loss = a.losses[n];
    const bool inside = t < a.from.input_lengths[n];
    const RowOf<T> gx = a.row(t, n);
    // Of many classes few are in a sample: zeros for all in wide stores, then those few again,
    // which are still in L2.
    const T fill = a.filled(inside, loss);
    Pack16<T> pack;
#pragma unroll
    for (int j = 0; j < kPerPack<T>; ++j) pack.v[j] = fill;
    const PackSplit split = split_into_packs(gx.data, gx.data, a.from.classes, gx.step == 1);
    for (i64 c = lane; c < split.head; c += 32) gx[c] = fill;
    for (i64 k = lane; k < split.packs; k += 32)
      vstore(gx.data + split.head + k * kPerPack<T>, pack);
    for (i64 c = split.tail + lane; c < a.from.classes; c += 32) gx[c] = fill;
    if (!inside || loss == INFINITY) continue;  // the whole warp
    __syncwarp();  // and memory: another lane may have filled what this one writes
    const int labels = int(a.from.target_lengths[n]);
    const i32 blank = i32(a.from.blank);
    const float scale = *a.grad * a.from.scale(n);
    const CtcLink* const link = links + n * (a.width / 2);
    const i64 row = (n * a.all_steps + t) * a.width;
    const float *const alpha = a.alpha + row, *const beta = a.beta + row;
    const auto share = [&](int s) WT_INLINE_LAMBDA { return ctc_share(alpha[s], beta[s], loss); };
    // The blank has every other state, too many for one lane. A label may be the blank, too.
    float blanks = 0;
    for (int k = lane; k <= labels; k += 32) {
      blanks += share(2 * k);
      if (k == labels) break;
      const CtcLink own = vload<CtcLink>(link + k);
      if (own.v[0] == blank || own.v[0] == -1 - blank) {
        blanks += share(2 * k + 1);
      } else if (own.v[0] >= 0) {
        float sum = share(2 * k + 1);
        for (int j = own.v[1]; j < labels; j = vload<CtcLink>(link + j).v[1])
          sum += share(2 * j + 1);
        gx[own.v[0]] = T(-scale * sum);
      }
    }
    blanks = warp_reduce(blanks, Plus());
    if (lane == 0) gx[blank] = T(-scale * blanks);
  }
}

// --- launch ---

template <class T>
CtcBackward<T> backward_args(const CtcBackwardArgs& a, const Launch& l) {
  using A = ComputeType<T>;
  return {CtcInputs<T>(a),        a.gx.as<T>(),          a.gx.stride(0),
          a.gx.stride(1),         a.gx.stride(2),        a.grad.as<const A>(),
          a.losses.as<const A>(), a.alpha.as<const A>(), a.alpha.size(1),
          a.alpha.size(2),        a.zero_infinity,       static_cast<A*>(l.workspace)};
}
void backward_naive(const CtcBackwardArgs& a, const Launch& l) {
  with_float_or_double(a.log_probs.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<ctc_backward_naive<T>>(
        grid_of(l, ceil_div(a.log_probs.size(1), kNaiveThreads), kNaiveThreads),
        backward_args<T>(a, l));
  });
}
void backward_block(const CtcBackwardArgs& a, const Launch& l) {
  auto* const links = reinterpret_cast<CtcLink*>(static_cast<char*>(l.workspace) + beta_bytes(a));
  const i64 rows = a.log_probs.size(0) * a.log_probs.size(1);
  with_float(a.log_probs.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const CtcBackward<T> k = backward_args<T>(a, l);
    launch<ctc_beta_block<T>>(block_a_sample(a, l), k, links);
    launch<ctc_gradient<T>>(grid_of(l, ceil_div(rows, kTeamWarps), kTeamWarps * 32), k, links,
                            rows);
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, ctc_backward, CtcBackwardArgs,
            {.name = "block",
             .rank = 20,
             .why_not = why_not_block<CtcBackwardArgs>,
             .workspace = block_workspace,
             .launch = backward_block},
            {.name = "naive", .rank = 10, .workspace = naive_workspace, .launch = backward_naive});

}  // namespace wt
