// Right kernels for sum_all, in styles that differ as students' do.
#include "warptape/tests/grade/kernels.h"
//
#include "warptape/kernels/reduce.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr unsigned kFull = 0xffffffffu;

const char* all_of_f32(const SumArgs& a) {
  if (a.mask != (1u << a.in.ndim()) - 1) return "some axes alone";
  if (a.f.divide_by != 1 || a.f.accumulate) return "means";
  return plain_f32(a.in) && plain_f32(a.out) ? nullptr : "anything but contiguous f32";
}
int size_of(const SumArgs& a) { return int(a.in.numel()); }

__global__ void one_thread(float* out, const float* x, int n) {
  double s = 0;
  for (int i = 0; i < n; ++i) s += x[i];
  *out = float(s);
}
// The error of each addition is carried on (Kahan).
__global__ void compensated(float* out, const float* x, int n) {
  float s = 0, lost = 0;
  for (int i = 0; i < n; ++i) {
    const float y = x[i] - lost, t = s + y;
    lost = (t - s) - y;
    s = t;
  }
  *out = s - lost * 0;
}
__global__ void one_warp(float* out, const float* x, int n) {
  float s = 0;
  for (int i = int(threadIdx.x); i < n; i += 32) s += x[i];
  for (int d = 16; d; d /= 2) s += __shfl_xor_sync(kFull, s, d);
  if (threadIdx.x == 0) *out = s;
}
__global__ void interleaved(float* out, const float* x, int n) {
  WT_SHARED(float, part, [128]);
  const unsigned t = threadIdx.x;
  part[t] = 0;
  for (int i = int(t); i < n; i += 128) part[t] += x[i];
  __syncthreads();
  for (unsigned d = 1; d < 128; d *= 2) {
    if (t % (2 * d) == 0) part[t] += part[t + d];
    __syncthreads();
  }
  if (t == 0) *out = part[0];
}
__global__ void sequential(float* out, const float* x, int n) {
  WT_DYN_SHARED(float, part);
  const int t = int(threadIdx.x);
  float s = 0;
  for (int i = t; i < n; i += int(blockDim.x)) s += x[i];
  part[t] = s;
  for (int d = int(blockDim.x) / 2; d; d /= 2) {
    __syncthreads();
    if (t < d) part[t] += part[t + d];
  }
  if (t == 0) *out = part[0];
}
__global__ void warps_then_first(float* out, const float* x, int n) {
  WT_SHARED(float, part, [8]);
  float s = 0;
  for (int i = int(threadIdx.x); i < n; i += 256) s += x[i];
  for (int d = 16; d; d /= 2) s += __shfl_down_sync(kFull, s, unsigned(d));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x == 0) {
    s = 0;
    for (const float p : part) s += p;
    *out = s;
  }
}
__global__ void parts_of_blocks(float* parts, const float* x, int n) {
  WT_SHARED(float, sum, );
  if (threadIdx.x == 0) {
    sum = 0;
    const int first = int(blockIdx.x) * 100;
    for (int i = first; i < first + 100 && i < n; ++i) sum += x[i];
  }
  __syncthreads();
  if (threadIdx.x == 31) parts[blockIdx.x] = sum;
}
// The block that comes last adds the parts, in their order.
__global__ void by_ticket(float* out, const float* x, float* parts, unsigned* ticket, int n) {
  float s = 0;
  for (int i = int(blockIdx.x); i < n; i += int(gridDim.x)) s += x[i];
  parts[blockIdx.x] = s;
  __threadfence();
  if (atomicAdd(ticket, 1u) != gridDim.x - 1) return;
  __threadfence();
  s = 0;
  for (unsigned k = 0; k < gridDim.x; ++k) s += parts[k];
  *out = s;
}
__global__ void zero(unsigned* ticket) { *ticket = 0; }
__global__ void zero_float(float* out) { *out = 0; }
// In any order, and says so.
__global__ void add_each(float* out, const float* x, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) atomicAdd(out, x[i]);
}
// In any order with equal bits: sums of integers, in units of 2^-24, and NaN beside them.
__global__ void add_fixed(unsigned long long* units, const float* x, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  if (isfinite(x[i]))
    atomicAdd(&units[0], (unsigned long long)(long long)(double(x[i]) * 16777216.0));
  else
    atomicOr(&units[1], isnan(x[i]) ? 4ull : x[i] > 0 ? 1ull : 2ull);
}
__global__ void zero_units(unsigned long long* units) { units[0] = units[1] = 0; }
__global__ void of_units(float* out, const unsigned long long* units) {
  const unsigned long long seen = units[1];
  *out = seen == 0   ? float(double((long long)units[0]) / 16777216.0)
         : seen == 1 ? INFINITY
         : seen == 2 ? -INFINITY
                     : NAN;
}

template <auto Kernel, int Threads>
void one_block(const SumArgs& a, const Launch& l) {
  launch<Kernel>(grid(l, 1, Threads, Threads * sizeof(float)), a.out.as<float>(),
                 a.in.as<const float>(), size_of(a));
}
i64 parts_bytes(const SumArgs& a) { return 4 * (size_of(a) / 100 + 64); }
void two_stages(const SumArgs& a, const Launch& l) {
  float* const parts = static_cast<float*>(l.workspace);
  const int blocks = int(blocks_for(size_of(a), 100));
  launch<parts_of_blocks>(grid(l, blocks, 32), parts, a.in.as<const float>(), size_of(a));
  launch<one_thread>(grid(l, 1, 1), a.out.as<float>(), static_cast<const float*>(parts), blocks);
}
void launch_ticket(const SumArgs& a, const Launch& l) {
  float* const parts = static_cast<float*>(l.workspace);
  unsigned* const ticket = reinterpret_cast<unsigned*>(parts + 40);
  launch<zero>(grid(l, 1, 1), ticket);
  launch<by_ticket>(grid(l, 9, 1), a.out.as<float>(), a.in.as<const float>(), parts, ticket,
                    size_of(a));
}
void launch_atomics(const SumArgs& a, const Launch& l) {
  launch<zero_float>(grid(l, 1, 1), a.out.as<float>());
  launch<add_each>(grid(l, blocks_for(size_of(a), 64), 64), a.out.as<float>(),
                   a.in.as<const float>(), size_of(a));
}
void launch_fixed(const SumArgs& a, const Launch& l) {
  auto* const units = static_cast<unsigned long long*>(l.workspace);
  launch<zero_units>(grid(l, 1, 1), units);
  launch<add_fixed>(grid(l, blocks_for(size_of(a), 64), 64), units, a.in.as<const float>(),
                    size_of(a));
  launch<of_units>(grid(l, 1, 1), a.out.as<float>(), static_cast<const unsigned long long*>(units));
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(
    WT_DEVICE_NS, sum, SumArgs,
    {.name = "one_thread", .why_not = all_of_f32, .launch = one_block<one_thread, 1>},
    {.name = "compensated", .why_not = all_of_f32, .launch = one_block<compensated, 1>},
    {.name = "one_warp", .why_not = all_of_f32, .launch = one_block<one_warp, 32>},
    {.name = "interleaved", .why_not = all_of_f32, .launch = one_block<interleaved, 128>},
    {.name = "sequential", .why_not = all_of_f32, .launch = one_block<sequential, 1024>},
    {.name = "warps_then_first", .why_not = all_of_f32, .launch = one_block<warps_then_first, 256>},
    {.name = "two_stages", .why_not = all_of_f32, .workspace = parts_bytes, .launch = two_stages},
    {.name = "by_ticket", .why_not = all_of_f32, .workspace = parts_bytes, .launch = launch_ticket},
    {.name = "atomics", .why_not = all_of_f32, .launch = launch_atomics, .deterministic = false},
    {.name = "fixed_point",
     .why_not = all_of_f32,
     .workspace = parts_bytes,
     .launch = launch_fixed});

}  // namespace wt
