// The cpu's optimizer loops on several threads.
#pragma once
#include <algorithm>

#include "warptape/core/device.h"
#include "warptape/kernels/cpu_pool.h"

namespace wt {

// f(begin, end) for pieces of [0, n). Every piece but the last is a multiple of 64 elements long,
// so that an element is worked on in the same way, and to the same bits, however many threads there
// are.
template <class F>
void in_pieces(i64 n, const F& f) {
  constexpr i64 kWorth = 1 << 15;  // elements that are worth waking a thread
  const int threads = int(std::min<i64>(num_threads(), n / kWorth + 1));
  if (threads <= 1) return f(i64{0}, n);
  const i64 pieces = i64(threads) * 4, length = (n / pieces + 63) / 64 * 64;
  parallel(threads, int((n + length - 1) / length),
           [&](int k, int) { f(k * length, std::min(n, (k + 1) * length)); });
}

}  // namespace wt
