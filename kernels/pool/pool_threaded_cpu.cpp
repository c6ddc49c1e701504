// Pooling on the cpu for what the vector code does not take: the reference, its images dealt out to
// threads. No sum runs across images, so that the bits are the reference's.
#include <algorithm>

#include "warptape/core/device.h"
#include "warptape/kernels/cpu/threads.h"
#include "warptape/kernels/pool/pool_cpu.h"
#include "warptape/kernels/run.h"

namespace wt {

namespace {

constexpr i64 kWorkAThread = 1 << 14;  // elements that are worth waking a thread

void move_to(ConvTensor& t, i64 n, i64 item) {
  if (t.data) t.data = static_cast<char*>(t.data) + n * t.batch * item;
}
i64 tap_size(const PoolShape& s) { return s.taps() <= 256 ? 1 : 4; }

// Image n alone.
void move_operands(MaxPoolForwardArgs& a, i64 n, i64 item) {
  move_to(a.x, n, item), move_to(a.y, n, item);
  move_to(a.taps, n, tap_size(a.shape)), move_to(a.indices, n, sizeof(i64));
}
void move_operands(MaxPoolBackwardArgs& a, i64 n, i64 item) {
  move_to(a.gx, n, item), move_to(a.gy, n, item), move_to(a.taps, n, tap_size(a.shape));
}
void move_operands(MaxPoolGatherArgs& a, i64 n, i64 item) {
  move_to(a.x, n, item), move_to(a.y, n, item), move_to(a.taps, n, tap_size(a.shape));
}
void move_operands(AvgPoolForwardArgs& a, i64 n, i64 item) {
  move_to(a.x, n, item), move_to(a.y, n, item);
}
void move_operands(AvgPoolBackwardArgs& a, i64 n, i64 item) {
  move_to(a.gx, n, item), move_to(a.gy, n, item);
}

}  // namespace

template <class Args>
void pool_threaded(const Args& a, const Launch& l) {
  const Variants<Args>& list = *ContractTable<Args>::rows[int(DeviceKind::cpu)];
  const Variant<Args>& reference = list.rows[list.count - 1];
  const PoolShape& s = a.shape;
  const i64 work = s.x_numel() + s.y_numel(), tasks = std::min<i64>(s.batch, 1 << 12);
  parallel(int(std::min<i64>(num_threads(), work / kWorkAThread + 1)), int(tasks),
           [&](int task, int) {
             for (i64 n = s.batch * task / tasks; n < s.batch * (task + 1) / tasks; ++n) {
               Args one = a;
               one.shape.batch = 1;
               move_operands(one, n, item_size(s.dtype));
               reference.launch(one, l);
             }
           });
}
template void pool_threaded(const MaxPoolForwardArgs&, const Launch&);
template void pool_threaded(const MaxPoolBackwardArgs&, const Launch&);
template void pool_threaded(const MaxPoolGatherArgs&, const Launch&);
template void pool_threaded(const AvgPoolForwardArgs&, const Launch&);
template void pool_threaded(const AvgPoolBackwardArgs&, const Launch&);

}  // namespace wt
