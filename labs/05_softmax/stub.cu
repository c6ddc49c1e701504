// Lab 5: softmax, its gradient, and cross-entropy. page.md has the task; bodies with "Yours" are to
// be written, the rest is given and may be changed.
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

// One block of kThreads threads has row blockIdx.x, of n elements: y = exp(x - m) / s.
__global__ void __launch_bounds__(kThreads) softmax_rows(float* y, const float* x, int n) {
  // Yours: m, the largest element; s, the sum of exp(x - m); then y. warp_reduce(v, Larger()) and
  // warp_reduce(v, Plus()) join the 32 lanes (block_reduce.cuh).
}

void softmax(const SoftmaxForwardArgs& a, const Launch& l) {
  launch<softmax_rows>(grid_of(l, rows_of(a.x), kThreads), a.y.as<float>(), a.x.as<const float>(),
                       length_of(a.x));
}
const char* why_not_softmax(const SoftmaxForwardArgs& a) {
  const char* const why = why_not_rows(a.x, a.axis, a.log);
  return why ? why : why_not_rows(a.y, a.axis, a.log);
}

// --- its gradient ---

// gx = y * (gy - sum(gy * y)), of a row.
__global__ void __launch_bounds__(kThreads)
    softmax_gradient(float* gx, const float* gy, const float* y, int n) {
  // Yours.
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

// stats[r] = m, stats[rows + r] = log(s), loss[r] = log(s) + m - x[label], 0 for rows that do not
// count; r = blockIdx.x.
__global__ void __launch_bounds__(kThreads) row_losses(Rows a) {
  // Yours. No probability is written anywhere.
}

// *loss: the sum of the rows' losses; *weight: how many rows count. One block.
constexpr int kSumThreads = 256;
__global__ void __launch_bounds__(kSumThreads) add_losses(float* loss, float* weight, Rows a) {
  // Yours. block_reduce(v, Plus()) joins the threads of a block.
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
