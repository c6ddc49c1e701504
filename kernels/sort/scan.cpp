// Scans on the cpu: a row after the other.
#include "warptape/kernels/scan.h"

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/pointwise_math.h"
#include "warptape/kernels/sort/scan_cpu.h"

namespace wt {
namespace {

template <class T, bool Factor, bool Term>
void scan_row(const ScanArgs& a, const Rows<3>& rows, i64 row) {
  using Carry = std::conditional_t<std::is_integral_v<T>, i64, double>;
  enum { kOut, kFactor, kTerm };
  const auto out = rows.row(kOut, a.out.as<T>(), row);
  // An operand that is absent has no address to add to.
  const RowOf<const T> factor{a.factor.as<T>() + (Factor ? rows.start(kFactor, row) : 0),
                              rows.step[kFactor]};
  const RowOf<const T> term{a.term.as<T>() + (Term ? rows.start(kTerm, row) : 0), rows.step[kTerm]};
  Carry carry = Term ? 0 : 1;
  for (i64 i = 0; i < rows.length; ++i) {
    const i64 k = a.reverse ? rows.length - 1 - i : i;
    if constexpr (Factor) carry = pw::times(carry, Carry(ComputeType<T>(factor[k])));
    if constexpr (Term) carry = pw::plus(carry, Carry(ComputeType<T>(term[k])));
    out[k] = T(ComputeType<T>(carry));
  }
}

template <class T>
void scan_rows(const ScanArgs& a, i64 begin, i64 end) {
  const View& f = a.factor ? a.factor : a.out;
  const View& t = a.term ? a.term : a.out;
  const Rows<3> rows = rows_along<3>(a.axis, {{a.out}, {f}, {t}});
  for (i64 row = begin; row < end; ++row) {
    if (!a.term)
      scan_row<T, true, false>(a, rows, row);
    else if (!a.factor)
      scan_row<T, false, true>(a, rows, row);
    else
      scan_row<T, true, true>(a, rows, row);
  }
}

void scan_reference(const ScanArgs& a, const Launch&) { scan_rows(a, 0, scan_row_count(a)); }

}  // namespace

i64 scan_row_count(const ScanArgs& a) {
  return a.out.numel() == 0 ? 0 : rows_along<1>(a.axis, {{a.out}}).count;
}

void scan_rows(const ScanArgs& a, i64 begin, i64 end) {
  if (a.out.dtype() == DType::i64) return scan_rows<i64>(a, begin, end);
  dispatch_floating(a.out.dtype(), [&]<class T>() { scan_rows<T>(a, begin, end); });
}

WT_VARIANTS(cpu, scan, ScanArgs, {.name = "threaded", .rank = 10, .launch = scan_threaded},
            {.name = "reference", .launch = scan_reference});

}  // namespace wt
