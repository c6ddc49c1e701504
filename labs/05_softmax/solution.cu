// Softmax, its gradient, and cross-entropy of logits without softmax in between: a warp a row.
#include "warptape/kernels/simt/simt.h"
//
#include "warptape/kernels/cross_entropy.h"
#include "warptape/kernels/device/bad_index.cuh"
#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/device/row_kernels.cuh"
#include "warptape/kernels/softmax.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 32;  // of a block, which has a row

const char* why_not_rows(const View& v, int axis, bool log) {
  if (log) return "log_softmax";
  if (axis != v.ndim() - 1) return "another axis than the last";
  return v.dtype() == DType::f32 && v.dense() ? nullptr : "anything but contiguous f32";
}
int length_of(const View& v) { return int(v.size(v.ndim() - 1)); }
i64 rows_of(const View& v) { return length_of(v) ? v.numel() / length_of(v) : 0; }

// --- softmax ---

// x leaves memory once: a lane keeps its elements where only it reads them, so nobody waits.
template <bool Kept>
__global__ void __launch_bounds__(kThreads) softmax_rows(float* y, const float* x, int n) {
  WT_DYN_SHARED(float, kept);
  const int lane = int(threadIdx.x);
  x += i64(blockIdx.x) * n, y += i64(blockIdx.x) * n;
  float largest = -INFINITY, sum = 0;
  for (int i = lane; i < n; i += kThreads) {
    const float v = x[i];
    if (Kept) kept[i] = v;
    largest = fmaxf(largest, v);
  }
  largest = warp_reduce(largest, Larger());
  for (int i = lane; i < n; i += kThreads) sum += expf((Kept ? kept[i] : x[i]) - largest);
  const float scale = 1 / warp_reduce(sum, Plus());
  for (int i = lane; i < n; i += kThreads) y[i] = expf((Kept ? kept[i] : x[i]) - largest) * scale;
}

// A row of so many elements fits into the shared memory that a block has unasked.
constexpr int kKeptMost = 48 * 1024 / 4;

void softmax(const SoftmaxForwardArgs& a, const Launch& l) {
  const int n = length_of(a.x);
  if (n <= kKeptMost)
    launch<softmax_rows<true>>(grid_of(l, rows_of(a.x), kThreads, i64(n) * 4), a.y.as<float>(),
                               a.x.as<const float>(), n);
  else
    launch<softmax_rows<false>>(grid_of(l, rows_of(a.x), kThreads), a.y.as<float>(),
                                a.x.as<const float>(), n);
}
const char* why_not_softmax(const SoftmaxForwardArgs& a) {
  const char* const why = why_not_rows(a.x, a.axis, a.log);
  return why ? why : why_not_rows(a.y, a.axis, a.log);
}

// --- its gradient ---

// The second read finds both rows in the cache, where the first one left them.
__global__ void __launch_bounds__(kThreads)
    softmax_gradient(float* gx, const float* gy, const float* y, int n) {
  const i64 first = i64(blockIdx.x) * n;
  gx += first, gy += first, y += first;
  float dot = 0;
  for (int i = int(threadIdx.x); i < n; i += kThreads) dot += gy[i] * y[i];
  dot = warp_reduce(dot, Plus());
  for (int i = int(threadIdx.x); i < n; i += kThreads) gx[i] = y[i] * (gy[i] - dot);
}

void gradient(const SoftmaxBackwardArgs& a, const Launch& l) {
  launch<softmax_gradient>(grid_of(l, rows_of(a.y), kThreads), a.gx.as<float>(),
                           a.gy.as<const float>(), a.y.as<const float>(), length_of(a.y));
}
const char* why_not_gradient(const SoftmaxBackwardArgs& a) {
  const View* const all[] = {&a.gx, &a.gy, &a.y};
  for (const View* const v : all)
    if (const char* const why = why_not_rows(*v, a.axis, a.log)) return why;
  return nullptr;
}

// --- cross-entropy ---

struct Rows {
  float *loss, *stats;  // a loss for each row; stats: the largest element, then log(sum)
  const float* x;
  const i64* labels;
  int rows, n;
  i64 ignored;
  MailboxRecord* mailbox;
  u32 op_id;
  template <class F>
  void visit_pointers(F&& f) const {
    f(loss), f(stats), f(x), f(labels), f(mailbox);
  }
};
Rows rows_of(const CrossEntropyForwardArgs& a, const Launch& l) {
  return {static_cast<float*>(l.workspace),
          a.stats.as<float>(),
          a.logits.as<const float>(),
          a.labels.as<const i64>(),
          int(a.labels.numel()),
          length_of(a.logits),
          a.ignore_index,
          a.mailbox,
          a.op_id};
}

// The class of a row; -1 for one that does not count. One thread a row calls it.
__device__ i64 label_of(const Rows& a, int r) {
  const i64 label = a.labels[r];
  if (label == a.ignored) return -1;
  if (label >= 0 && label < a.n) return label;
  report_bad_index(a.mailbox, MailboxCode::label_out_of_range, a.op_id, r, label, a.n);
  return 0;
}

// A sum of exponentials of elements that come one by one: where a larger one comes, what was added
// so far is brought onto it. x is read once.
__global__ void __launch_bounds__(kThreads) row_losses(Rows a) {
  const int r = int(blockIdx.x);
  const float* const x = a.x + i64(r) * a.n;
  float largest = -INFINITY, sum = 0;
  for (int i = int(threadIdx.x); i < a.n; i += kThreads) {
    const float v = x[i], above = fmaxf(largest, v);
    sum = sum * expf(largest - above) + expf(v - above);
    largest = above;
  }
  const float all = warp_reduce(largest, Larger());
  // A lane without elements has -inf and adds nothing.
  const float log_sum = logf(warp_reduce(sum * expf(largest - all), Plus()));
  if (threadIdx.x) return;
  const i64 label = label_of(a, r);
  a.stats[r] = all, a.stats[a.rows + r] = log_sum;
  a.loss[r] = label < 0 ? 0 : log_sum + all - x[label];
}

// One block, in one order: the same bits every time, which atomics do not promise.
constexpr int kSumThreads = 256;
__global__ void __launch_bounds__(kSumThreads) add_losses(float* loss, float* weight, Rows a) {
  float sum = 0, count = 0;
  for (int r = int(threadIdx.x); r < a.rows; r += kSumThreads)
    sum += a.loss[r], count += a.labels[r] != a.ignored;
  sum = block_reduce(sum, Plus());
  count = block_reduce(count, Plus());
  if (threadIdx.x == 0) *loss = sum, *weight = count;
}

void loss(const CrossEntropyForwardArgs& a, const Launch& l) {
  const Rows rows = rows_of(a, l);
  launch<row_losses>(grid_of(l, rows.rows, kThreads), rows);
  launch<add_losses>(grid_of(l, 1, kSumThreads), a.loss_sum.as<float>(), a.weight.as<float>(),
                     rows);
}
// A float for the loss of each row; there may be none.
i64 workspace_of_loss(const CrossEntropyForwardArgs& a) { return 4 * a.labels.numel() + 4; }
const char* why_not_loss(const CrossEntropyForwardArgs& a) {
  if (a.smoothing != 0) return "smoothing";
  if (!a.labels.dense()) return "labels that are not contiguous";
  return why_not_rows(a.logits, a.axis, false);
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, softmax_forward, SoftmaxForwardArgs,
            {.name = "mine", .why_not = why_not_softmax, .launch = softmax});
WT_VARIANTS(WT_DEVICE_NS, softmax_backward, SoftmaxBackwardArgs,
            {.name = "mine", .why_not = why_not_gradient, .launch = gradient});
WT_VARIANTS(
    WT_DEVICE_NS, cross_entropy_forward, CrossEntropyForwardArgs,
    {.name = "mine", .why_not = why_not_loss, .workspace = workspace_of_loss, .launch = loss});

}  // namespace wt
