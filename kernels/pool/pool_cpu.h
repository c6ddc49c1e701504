// What the cpu's pooling is made of. Internal to this room.
#pragma once
#include <algorithm>

#include "warptape/core/device.h"
#include "warptape/kernels/cpu/threads.h"
#include "warptape/kernels/pool.h"

namespace wt {

// pool/pool_vector_cpu.cpp: f32 and f64, where channels lie side by side, and where the pixels of a
// row do (windows of 2 x 2 in steps of 2 without a copy, others by pool/pool_planes_cpu.cpp).
const char* max_pool_forward_why_not(const MaxPoolForwardArgs& a);
i64 max_pool_forward_workspace(const MaxPoolForwardArgs& a);
void max_pool_forward_vector(const MaxPoolForwardArgs& a, const Launch& l);
const char* max_pool_backward_why_not(const MaxPoolBackwardArgs& a);
void max_pool_backward_vector(const MaxPoolBackwardArgs& a, const Launch& l);
const char* avg_pool_forward_why_not(const AvgPoolForwardArgs& a);
i64 avg_pool_forward_workspace(const AvgPoolForwardArgs& a);
void avg_pool_forward_vector(const AvgPoolForwardArgs& a, const Launch& l);
const char* avg_pool_backward_why_not(const AvgPoolBackwardArgs& a);
i64 avg_pool_backward_workspace(const AvgPoolBackwardArgs& a);
void avg_pool_backward_vector(const AvgPoolBackwardArgs& a, const Launch& l);

// pool/pool_widened_cpu.cpp: f16 and bf16, some images at a time by way of f32 copies.
template <class Args>
const char* pool_widened_why_not(const Args& a);
template <class Args>
i64 pool_widened_workspace(const Args& a);
template <class Args>
void pool_widened(const Args& a, const Launch& l);

// pool/pool_threaded_cpu.cpp: the reference, its images dealt out to threads.
template <class Args>
const char* pool_threaded_why_not(const Args& a) {
  return a.shape.batch > 1 ? nullptr : "takes several images only";
}
template <class Args>
void pool_threaded(const Args& a, const Launch& l);

// --- pool/pool_planes_cpu.cpp: windows over rows without gaps ---

const char* pool_planes_forward_why_not(const PoolShape& s, bool max, const ConvTensor& x,
                                        const ConvTensor& y, const ConvTensor& taps);
const char* pool_planes_backward_why_not(const PoolShape& s, const ConvTensor& gx,
                                         const ConvTensor& gy, const ConvTensor& taps);
i64 pool_planes_forward_workspace(const PoolShape& s);
i64 pool_planes_backward_workspace(const PoolShape& s);
template <class T, bool Max>
void pool_planes_forward(const PoolShape& s, const ConvTensor& x, const ConvTensor& y,
                         const ConvTensor& taps, void* workspace);
template <class T, bool Max>
void pool_planes_backward(const PoolShape& s, const ConvTensor& gx, const ConvTensor& gy,
                          const ConvTensor& taps, void* workspace);

// --- what they run on ---

inline constexpr i64 kPoolWorkAThread = 1 << 16;  // elements that are worth waking a thread

inline int pool_threads(const PoolShape& s) {
  return int(std::min<i64>(num_threads(), (s.x_numel() + s.y_numel()) / kPoolWorkAThread + 1));
}
// f(i, worker) for i in [0, n), dealt out to threads.
template <class F>
void pool_tasks(const PoolShape& s, i64 n, F&& f) {
  const i64 tasks = std::min<i64>(n, 1 << 12);
  parallel(pool_threads(s), int(tasks), [&](int task, int worker) {
    for (i64 i = n * task / tasks; i < n * (task + 1) / tasks; ++i) f(i, worker);
  });
}

template <class T>
T* pool_at(const ConvTensor& t, i64 n, i64 c, i64 z, i64 y, i64 x) {
  return static_cast<T*>(t.data) + n * t.batch + c * t.channel + z * t.at[0] + y * t.at[1] +
         x * t.at[2];
}
inline u8* pool_tap_at(const ConvTensor& t, i64 n, i64 c, i64 z, i64 y, i64 x) {
  return t.data ? pool_at<u8>(t, n, c, z, y, x) : nullptr;
}

// A window of every channel, or every window of a row: element offsets of its taps, and their
// numbers.
template <class T>
struct PoolChannels {
  const T* x;
  T* y;
  u8* tap;  // or null
  const i64* offsets;
  const i32* taps;
  int n;
  i64 channels;
  T divisor;
  // Of a row's windows, which differ at its ends; else null. Whole vectors may be read.
  const i32* first = nullptr;  // the first tap that lies inside
  const T* divisors = nullptr;
  const u8* own = nullptr;  // beside x: taps that `taps` are added to
};
template <class T>
struct PoolChannelsBack {
  T* gx;
  const T* gy;
  const u8* tap;
  const i64* offsets;
  const i32* taps;
  int n;
  i64 channels;
  T divisor;
  bool first;  // nothing has been written there: the old contents are not read
};
// Windows of 2 x 2: `rows` rows of n, and how far the next of each lies.
template <class T>
struct PoolRows {
  const T *top, *bottom;
  T* y;
  u8* tap;  // or null
  i64 n, rows;
  i64 x_step, y_step, tap_step;
};
template <class T>
struct PoolRowsBack {
  T *top, *bottom;
  const T* gy;
  const u8* tap;
  i64 n, rows;
  i64 x_step, y_step, tap_step;
};
// even[i] = from[2i], odd[i] = from[2i + 1].
template <class T>
struct PoolSplit {
  T *even, *odd;
  const T* from;
  i64 n;
};
template <class T>
struct PoolAdd {
  T* to;
  const T* from;
  i64 n;
};
// to[i] = the sum of `length` elements from `from` on / divisor, for `count` planes.
template <class T>
struct PoolPlanes {
  T* to;
  const T* from;
  i64 to_step, from_step, length, count;
  T divisor;
};
template <class T>
struct PoolKernels {
  void (*max_channels)(const PoolChannels<T>&);
  void (*max_channels_back)(const PoolChannelsBack<T>&);
  void (*avg_channels)(const PoolChannels<T>&);
  void (*avg_channels_back)(const PoolChannelsBack<T>&);
  void (*max_rows)(const PoolRows<T>&);
  void (*max_rows_back)(const PoolRowsBack<T>&);
  void (*avg_rows)(const PoolRows<T>&);
  void (*avg_rows_back)(const PoolRowsBack<T>&);
  void (*split_row)(const PoolSplit<T>&);
  void (*add_row)(const PoolAdd<T>&);
  void (*sum_planes)(const PoolPlanes<T>&);
};
// pool/pool_kernels_cpu.cpp: for the instruction set in use.
template <class T>
const PoolKernels<T>& pool_kernels();

}  // namespace wt
