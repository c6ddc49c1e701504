// Wrong kernels for sum_all: one number of all elements. "REJECT variant kind" as in
// softmax_bad.cu.
#include "warptape/tests/grade/kernels.h"
//
#include "warptape/kernels/reduce.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr unsigned kFull = 0xffffffffu;
constexpr int kThreads = 64;

const char* all_of_f32(const SumArgs& a) {
  if (a.mask != (1u << a.in.ndim()) - 1) return "some axes alone";
  if (a.f.divide_by != 1 || a.f.accumulate) return "means";
  return plain_f32(a.in) && plain_f32(a.out) ? nullptr : "anything but contiguous f32";
}
const char* all_of_half(const SumArgs& a) {
  const bool half = a.in.dtype() == DType::f16 && a.in.dense() && a.mask == 3;
  return half ? nullptr : all_of_f32(a);
}
int size_of(const SumArgs& a) { return int(a.in.numel()); }

// Right, by one block.
__global__ void right(float* out, const float* x, int n) {
  WT_SHARED(float, part, [kThreads]);
  const int t = int(threadIdx.x);
  float s = 0;
  for (int i = t; i < n; i += kThreads) s += x[i];
  part[t] = s;
  __syncthreads();
  for (int d = kThreads / 2; d; d /= 2) {
    if (t < d) part[t] += part[t + d];
    __syncthreads();
  }
  if (t == 0) out[0] = part[0];
}

// REJECT tree_of_odd_size values
__global__ void tree_of_odd_size(float* out, const float* x, int n) {
  WT_SHARED(float, part, [48]);
  const int t = int(threadIdx.x);
  float s = 0;
  for (int i = t; i < n; i += 48) s += x[i];
  if (t < 48) part[t] = s;
  __syncthreads();
  for (int d = 24; d; d /= 2) {
    if (t < d) part[t] += part[t + d];
    __syncthreads();
  }
  if (t == 0) out[0] = part[0];
}
// REJECT tree_without_barrier race
__global__ void tree_without_barrier(float* out, const float* x, int n) {
  WT_SHARED(float, part, [kThreads]);
  const int t = int(threadIdx.x);
  float s = 0;
  for (int i = t; i < n; i += kThreads) s += x[i];
  part[t] = s;
  __syncthreads();
  for (int d = kThreads / 2; d; d /= 2)
    if (t < d) part[t] += part[t + d];  // BUG tree_without_barrier
  if (t == 0) out[0] = part[0];
}
// Within a warp, too, what others read has to be waited for.
// REJECT last_warp_alone race
__global__ void last_warp_alone(float* out, const float* x, int n) {
  WT_SHARED(float, part, [kThreads]);
  const int t = int(threadIdx.x);
  float s = 0;
  for (int i = t; i < n; i += kThreads) s += x[i];
  part[t] = s;
  __syncthreads();
  if (t < 32) {
    volatile float* p = part;
    p[t] = p[t] + p[t + 32];
    for (int d = 16; d; d /= 2)
      if (t < d) p[t] = p[t] + p[t + d];  // BUG last_warp_alone
  }
  __syncthreads();
  if (t == 0) out[0] = part[0];
}
// REJECT not_zeroed values
__global__ void adds_up(float* out, const float* x, int n) {
  for (int i = int(threadIdx.x); i < n; i += kThreads) atomicAdd(out, x[i]);
}
// REJECT blocks_write_one race
__global__ void blocks_write_one(float* out, const float* x, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i == 0) out[0] = 0;
  if (i < n) out[0] += x[i];  // BUG blocks_write_one
}
// The block that comes last adds the parts, which it may not see yet.
// REJECT ticket_without_fence race
__global__ void ticket_without_fence(float* out, const float* x, float* parts, unsigned* ticket,
                                     int n) {
  WT_SHARED(float, part, [kThreads]);
  const int t = int(threadIdx.x);
  part[t] = 0;
  for (int i = int(blockIdx.x) * kThreads + t; i < n; i += int(gridDim.x) * kThreads)
    part[t] += x[i];
  __syncthreads();
  if (t) return;
  float s = 0;
  for (int k = 0; k < kThreads; ++k) s += part[k];
  parts[blockIdx.x] = s;
  if (atomicAdd(ticket, 1u) != gridDim.x - 1) return;
  s = 0;
  for (unsigned k = 0; k < gridDim.x; ++k) s += parts[k];  // BUG ticket_without_fence
  out[0] = s;
}
__global__ void zero(unsigned* ticket) { *ticket = 0; }
// REJECT floats_by_atomics order
__global__ void zero_float(float* out) { *out = 0; }
// REJECT whole_warps_alone values
__global__ void whole_warps_alone(float* out, const float* x, int n) {
  float s = 0;
  for (int i = int(threadIdx.x); i < n / 32 * 32; i += 32) s += x[i];
  for (int d = 16; d; d /= 2) s += __shfl_xor_sync(kFull, s, d);
  if (threadIdx.x == 0) out[0] = s;
}
// REJECT shuffles_downhill values
__global__ void shuffles_downhill(float* out, const float* x, int n) {
  float s = 0;
  for (int i = int(threadIdx.x); i < n; i += 32) s += x[i];
  for (int d = 16; d > 1; d /= 2) s += __shfl_down_sync(kFull, s, unsigned(d));
  if (threadIdx.x == 0) out[0] = s;
}
// REJECT in_half rounding
__global__ void in_half(__half* out, const __half* x, int n) {
  __half s = __half(0.0f);
  for (int i = 0; i < n; ++i) s = __half(float(s) + float(x[i]));
  *out = s;
}

template <auto Kernel, int Threads = kThreads>
void one_block(const SumArgs& a, const Launch& l) {
  launch<Kernel>(grid(l, 1, Threads), a.out.as<float>(), a.in.as<const float>(), size_of(a));
}
void not_zeroed(const SumArgs& a, const Launch& l) { one_block<adds_up>(a, l); }
void floats_by_atomics(const SumArgs& a, const Launch& l) {
  launch<zero_float>(grid(l, 1, 1), a.out.as<float>());
  one_block<adds_up>(a, l);
}
void many_blocks(const SumArgs& a, const Launch& l) {
  launch<blocks_write_one>(grid(l, blocks_for(size_of(a) + 1, 32), 32), a.out.as<float>(),
                           a.in.as<const float>(), size_of(a));
}
i64 parts_and_ticket(const SumArgs&) { return 64 * 4; }
void by_ticket(const SumArgs& a, const Launch& l) {
  float* const parts = static_cast<float*>(l.workspace);
  unsigned* const ticket = reinterpret_cast<unsigned*>(parts + 32);
  launch<zero>(grid(l, 1, 1), ticket);
  launch<ticket_without_fence>(grid(l, 8, kThreads), a.out.as<float>(), a.in.as<const float>(),
                               parts, ticket, size_of(a));
}
void half_or_float(const SumArgs& a, const Launch& l) {
  if (a.in.dtype() != DType::f16) return one_block<right>(a, l);
  launch<in_half>(grid(l, 1, 1), a.out.as<__half>(), a.in.as<const __half>(), size_of(a));
}
// What lies in the workspace of the launch before is taken for a part.
// REJECT unbegun_workspace nan
__global__ void add_to_part(float* part, const float* x, int n) {
  for (int i = 0; i < n; ++i) *part += x[i];
}
__global__ void take_part(float* out, const float* part) { *out = *part; }
i64 one_float(const SumArgs&) { return 4; }
void unbegun_workspace(const SumArgs& a, const Launch& l) {
  float* const part = static_cast<float*>(l.workspace);
  launch<add_to_part>(grid(l, 1, 1), part, a.in.as<const float>(), size_of(a));
  launch<take_part>(grid(l, 1, 1), a.out.as<float>(), part);
}
// A workspace of nobody's, from the launch function's own stack.
// REJECT stack_workspace host
void stack_workspace(const SumArgs& a, const Launch& l) {
  float part = 0;
  launch<add_to_part>(grid(l, 1, 1), &part, a.in.as<const float>(), size_of(a));
  launch<take_part>(grid(l, 1, 1), a.out.as<float>(), &part);
}
i64 much(const SumArgs&) { return i64{1} << 40; }

}  // namespace
}  // namespace WT_DEVICE_NS

// REJECT wants_much memory
#define WT_ROW(kernel) \
  { .name = #kernel, .why_not = all_of_f32, .launch = one_block<kernel> }
WT_VARIANTS(
    WT_DEVICE_NS, sum, SumArgs, WT_ROW(tree_of_odd_size), WT_ROW(tree_without_barrier),
    WT_ROW(last_warp_alone), {.name = "not_zeroed", .why_not = all_of_f32, .launch = not_zeroed},
    {.name = "blocks_write_one", .why_not = all_of_f32, .launch = many_blocks},
    {.name = "ticket_without_fence",
     .why_not = all_of_f32,
     .workspace = parts_and_ticket,
     .launch = by_ticket},
    {.name = "floats_by_atomics", .why_not = all_of_f32, .launch = floats_by_atomics},
    {.name = "whole_warps_alone",
     .why_not = all_of_f32,
     .launch = one_block<whole_warps_alone, 32>},
    {.name = "shuffles_downhill",
     .why_not = all_of_f32,
     .launch = one_block<shuffles_downhill, 32>},
    {.name = "in_half", .why_not = all_of_half, .launch = half_or_float},
    {.name = "unbegun_workspace",
     .why_not = all_of_f32,
     .workspace = one_float,
     .launch = unbegun_workspace},
    {.name = "stack_workspace", .why_not = all_of_f32, .launch = stack_workspace},
    {.name = "wants_much", .why_not = all_of_f32, .workspace = much, .launch = one_block<right>});

}  // namespace wt
