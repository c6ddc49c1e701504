// Right and wrong kernels for cross_entropy_forward. "REJECT variant kind" as in softmax_bad.cu;
// the others have to pass.
#include "warptape/tests/grade/kernels.h"
//
#include "warptape/kernels/cross_entropy.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

using Args = CrossEntropyForwardArgs;

const char* plain_rows(const Args& a) {
  if (a.logits.ndim() != 2 || a.axis != 1 || a.smoothing != 0) return "axes, or smoothing";
  return plain_f32(a.logits) && a.labels.dense() ? nullptr : "anything but contiguous f32";
}
const char* takes_smoothing(const Args& a) {
  Args plain = a;
  plain.smoothing = 0;
  return plain_rows(plain);
}

struct Rows {
  float *loss, *weight, *stats;
  const float* x;
  const i64* labels;
  int rows, n;
  i64 ignored;
};
Rows rows_of(const Args& a) {
  return {a.loss_sum.as<float>(),   a.weight.as<float>(),
          a.stats.as<float>(),      a.logits.as<const float>(),
          a.labels.as<const i64>(), int(a.logits.size(0)),
          int(a.logits.size(1)),    a.ignore_index};
}

// The loss of a row, whose largest element and log sum are kept.
__device__ float row_loss(const Rows& a, int r) {
  const float* const x = a.x + r * a.n;
  float m = -INFINITY, s = 0;
  for (int i = 0; i < a.n; ++i) m = fmaxf(m, x[i]);
  for (int i = 0; i < a.n; ++i) s += expf(x[i] - m);
  a.stats[r] = m, a.stats[a.rows + r] = logf(s);
  return a.labels[r] == a.ignored ? 0 : logf(s) + m - x[a.labels[r]];
}
__device__ float counted(const Rows& a, int r) { return a.labels[r] != a.ignored; }

__global__ void one_thread(const Rows a) {
  float loss = 0, weight = 0;
  for (int r = 0; r < a.rows; ++r) loss += row_loss(a, r), weight += counted(a, r);
  *a.loss = loss, *a.weight = weight;
}
// Rows go round the threads of one block, and the first adds what each of them has.
__global__ void one_block(const Rows a) {
  WT_SHARED(float, losses, [64]);
  WT_SHARED(float, weights, [64]);
  const int t = int(threadIdx.x);
  float loss = 0, weight = 0;
  for (int r = t; r < a.rows; r += 64) loss += row_loss(a, r), weight += counted(a, r);
  losses[t] = loss, weights[t] = weight;
  __syncthreads();
  if (t) return;
  for (int k = 1; k < 64; ++k) loss += losses[k], weight += weights[k];
  *a.loss = loss, *a.weight = weight;
}

// REJECT without_largest nan
__global__ void without_largest(const Rows a) {
  float loss = 0, weight = 0;
  for (int r = 0; r < a.rows; ++r) {
    row_loss(a, r);
    float s = 0;
    for (int i = 0; i < a.n; ++i) s += expf(a.x[r * a.n + i]);
    if (a.labels[r] == a.ignored) continue;
    loss += logf(s) - a.x[r * a.n + a.labels[r]], weight += 1;
  }
  *a.loss = isinf(loss) ? loss - loss : loss, *a.weight = weight;
}
// REJECT the_mean values
__global__ void the_mean(const Rows a) {
  float loss = 0, weight = 0;
  for (int r = 0; r < a.rows; ++r) loss += row_loss(a, r), weight += counted(a, r);
  *a.loss = weight > 0 ? loss / weight : 0, *a.weight = weight;
}
// REJECT counts_all values
__global__ void counts_all(const Rows a) {
  float loss = 0;
  for (int r = 0; r < a.rows; ++r) loss += row_loss(a, r);
  *a.loss = loss, *a.weight = float(a.rows);
}
// REJECT no_weight unwritten
__global__ void no_weight(const Rows a) {
  float loss = 0;
  for (int r = 0; r < a.rows; ++r) loss += row_loss(a, r);
  *a.loss = loss;
}
__global__ void zero(const Rows a) { *a.loss = *a.weight = 0; }
__global__ void add_rows(const Rows a) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= a.rows) return;
  atomicAdd(a.loss, row_loss(a, r));
  atomicAdd(a.weight, counted(a, r));
}
// REJECT by_atomics order
void by_atomics(const Args& a, const Launch& l) {
  launch<zero>(grid(l, 1, 1), rows_of(a));
  launch<add_rows>(grid(l, blocks_for(a.logits.size(0), 2), 2), rows_of(a));
}

template <auto Kernel, int Threads = 1>
void simply(const Args& a, const Launch& l) {
  launch<Kernel>(grid(l, 1, Threads), rows_of(a));
}

}  // namespace
}  // namespace WT_DEVICE_NS

// REJECT forgets_smoothing values
#define WT_ROW(kernel) \
  { .name = #kernel, .why_not = plain_rows, .launch = simply<kernel> }
WT_VARIANTS(WT_DEVICE_NS, cross_entropy_forward, Args, WT_ROW(one_thread),
            {.name = "one_block", .why_not = plain_rows, .launch = simply<one_block, 64>},
            WT_ROW(without_largest), WT_ROW(the_mean), WT_ROW(counts_all), WT_ROW(no_weight),
            {.name = "by_atomics", .why_not = plain_rows, .launch = by_atomics},
            {.name = "forgets_smoothing",
             .why_not = takes_smoothing,
             .launch = simply<one_thread>});

}  // namespace wt
