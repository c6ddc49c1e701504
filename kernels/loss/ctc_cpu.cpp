// The reference's loops, divided among threads. A part writes what no other part does, and each of
// its elements in the reference's order: the bits are the reference's.
#include <algorithm>

#include "warptape/core/device.h"
#include "warptape/kernels/cpu/threads.h"
#include "warptape/kernels/loss/ctc_cpu.h"

namespace wt {

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
