// Kernels for add that are right on simt and wrong on the emulated device: what they do there they
// say under __CUDACC__, as one does who has a faster way for the GPU. A line "REJECT variant kind"
// says what the grader must find; it must name the line that ends with "BUG variant", where there
// is one.
#include "warptape/tests/grade/kernels.h"
//
#include "warptape/kernels/pointwise.h"
#if defined(__CUDACC__)
#include <cstdio>
#endif

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 64;

using Args = PointwiseArgs<pw::Add>;
const char* flat(const Args& a) {
  const View* const all[] = {&a.out, &a.in[0], &a.in[1]};
  for (const View* v : all)
    if (!*v || !plain_f32(*v) || v->numel() != a.out.numel()) return "anything but contiguous f32";
  return nullptr;
}

// Right: the others differ from it in one thing.
__global__ void right(float* out, const float* a, const float* b, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = a[i] + b[i];
}

// Views may begin at any element.
// REJECT four_at_once misaligned
__global__ void four_at_once(float* out, const float* a, const float* b, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x) * 4;
#if defined(__CUDACC__)
  if (i + 3 < n) {
    const float4 x = *reinterpret_cast<const float4*>(a + i);  // BUG four_at_once
    out[i] = x.x + b[i], out[i + 1] = x.y + b[i + 1];
    out[i + 2] = x.z + b[i + 2], out[i + 3] = x.w + b[i + 3];
    return;
  }
#endif
  for (int k = i; k < n && k < i + 4; ++k) out[k] = a[k] + b[k];
}

// Lanes that have gone two ways do not wait for each other by themselves.
// REJECT lanes_in_step nan
__global__ void lanes_in_step(float* out, const float* a, const float* b, int n) {
  WT_SHARED(float, both, [kThreads]);
  const int t = int(threadIdx.x), i = int(blockIdx.x) * kThreads + t;
  volatile float* const kept = both;
  if (i < n && t % 2) {
    for (int k = 0; k < t % 7; ++k) kept[t] = float(k);
    kept[t] = a[i] + b[i];
  } else if (i < n) {
    for (int k = 0; k < t % 5; ++k) kept[t] = -float(k);
    kept[t] = b[i] + a[i];
  }
#if !defined(__CUDACC__)
  __syncwarp();
#endif
  if (const int pair = i ^ 1; pair < n) out[pair] = kept[t ^ 1];
}

// REJECT no_barrier race
__global__ void no_barrier(float* out, const float* a, const float* b, int n) {
  WT_SHARED(float, sums, [kThreads]);
  const int t = int(threadIdx.x), i = int(blockIdx.x) * kThreads + t;
  sums[t] = i < n ? a[i] + b[i] : 0;
#if !defined(__CUDACC__)
  __syncthreads();
#endif
  const int back = kThreads - 1 - t, at = int(blockIdx.x) * kThreads + back;
  const float v = sums[back];
  if (at < n) out[at] = v;
}

// REJECT spins hang
__global__ void spins(float* out, const float* a, const float* b, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  out[i] = a[i] + b[i];
#if defined(__CUDACC__)
  volatile float* const seen = out;
  while (seen[i] != -12345) {}
#endif
}

template <auto Kernel, int PerThread = 1>
void by_elements(const Args& a, const Launch& l) {
  launch<Kernel>(grid(l, blocks_for(a.out.numel(), kThreads * PerThread), kThreads),
                 a.out.as<float>(), a.in[0].as<const float>(), a.in[1].as<const float>(),
                 int(a.out.numel()));
}

// REJECT on_the_host host
void on_the_host(const Args& a, const Launch& l) {
  by_elements<right>(a, l);
#if defined(__CUDACC__)
  if (a.out.numel()) a.out.as<float>()[0] = 1;
#endif
}

// The sandbox is that of simt.
// REJECT writes_a_file sandbox
void writes_a_file(const Args& a, const Launch& l) {
#if defined(__CUDACC__)
  if (std::FILE* const f = std::fopen("left_behind", "w")) std::fclose(f);
#endif
  by_elements<right>(a, l);
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, add, Args,
            {.name = "right", .why_not = flat, .launch = by_elements<right>},
            {.name = "four_at_once", .why_not = flat, .launch = by_elements<four_at_once, 4>},
            {.name = "lanes_in_step", .why_not = flat, .launch = by_elements<lanes_in_step>},
            {.name = "no_barrier", .why_not = flat, .launch = by_elements<no_barrier>},
            {.name = "spins", .why_not = flat, .launch = by_elements<spins>},
            {.name = "on_the_host", .why_not = flat, .launch = on_the_host},
            {.name = "writes_a_file", .why_not = flat, .launch = writes_a_file});

}  // namespace wt
