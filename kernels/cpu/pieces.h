// The cpu's loops over elements and rows on several threads.
#pragma once
#include <algorithm>

#include "warptape/core/device.h"
#include "warptape/kernels/cpu/threads.h"

namespace wt {

inline constexpr i64 kWorthAThread = 1 << 15;  // elements; waking a helper costs some 3 us

// f(begin, end) for pieces of [0, n). Every piece but the last is a multiple of 64 elements long,
// so that an element is worked on in the same way, and to the same bits, however many threads there
// are.
template <class F>
void in_pieces(i64 n, const F& f) {
  const int threads = int(std::min<i64>(num_threads(), n / kWorthAThread + 1));
  if (threads <= 1) return f(i64{0}, n);
  const i64 pieces = i64(threads) * 4, length = (n / pieces + 63) / 64 * 64;
  parallel(threads, int((n + length - 1) / length),
           [&](int k, int) { f(k * length, std::min(n, (k + 1) * length)); });
}

// f(begin, end) for pieces of [0, rows), rows of `length` elements that do not depend on each
// other.
template <class F>
void in_row_pieces(i64 rows, i64 length, const F& f) {
  const int threads = int(std::min<i64>(num_threads(), rows * length / kWorthAThread + 1));
  if (threads <= 1) return f(i64{0}, rows);
  const i64 pieces = std::min(rows, i64(threads) * 4);
  parallel(threads, int(pieces),
           [&](int k, int) { f(rows * k / pieces, rows * (k + 1) / pieces); });
}

}  // namespace wt
