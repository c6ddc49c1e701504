// Scans on the cpu: a row after the other, rows divided among the threads.
#include "warptape/kernels/scan.h"

#include <algorithm>

#include "warptape/core/device.h"
#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/cpu/threads.h"
#include "warptape/kernels/pointwise_math.h"

namespace wt {
namespace {

constexpr i64 kElementsOfTask = i64{1} << 15;

template <class T, bool Factor, bool Term>
void scan_row(const ScanArgs& a, const Rows<3>& rows, i64 row) {
  using Carry = std::conditional_t<std::is_integral_v<T>, i64, double>;
  T* out = a.out.as<T>() + rows.start(0, row);
  const T* factor = a.factor.as<T>() + (Factor ? rows.start(1, row) : 0);
  const T* term = a.term.as<T>() + (Term ? rows.start(2, row) : 0);
  Carry carry = Term ? 0 : 1;
  for (i64 i = 0; i < rows.length; ++i) {
    const i64 k = a.reverse ? rows.length - 1 - i : i;
    if constexpr (Factor) carry = pw::times(carry, Carry(ComputeType<T>(factor[k * rows.step[1]])));
    if constexpr (Term) carry = pw::plus(carry, Carry(ComputeType<T>(term[k * rows.step[2]])));
    out[k * rows.step[0]] = T(ComputeType<T>(carry));
  }
}

template <class T>
void scan_rows(const ScanArgs& a) {
  const View& f = a.factor ? a.factor : a.out;
  const View& t = a.term ? a.term : a.out;
  const Rows<3> rows = rows_along<3>(a.axis, {{a.out}, {f}, {t}});
  if (a.out.numel() == 0) return;
  const i64 each = std::max<i64>(1, kElementsOfTask / rows.length);
  const int tasks = int(std::min<i64>((rows.count + each - 1) / each, 1024));
  parallel(num_threads(), tasks, [&](int task, int) {
    const i64 end = rows.count * (task + 1) / tasks;
    for (i64 row = rows.count * task / tasks; row < end; ++row) {
      if (!a.term)
        scan_row<T, true, false>(a, rows, row);
      else if (!a.factor)
        scan_row<T, false, true>(a, rows, row);
      else
        scan_row<T, true, true>(a, rows, row);
    }
  });
}

void scan_reference(const ScanArgs& a, const Launch&) {
  if (a.out.dtype() == DType::i64) return scan_rows<i64>(a);
  dispatch_floating(a.out.dtype(), [&]<class T>() { scan_rows<T>(a); });
}

}  // namespace

WT_VARIANTS(cpu, scan, ScanArgs, {.name = "reference", .launch = scan_reference});

}  // namespace wt
