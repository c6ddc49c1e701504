// Right and wrong kernels for copy. "REJECT variant kind" as in softmax_bad.cu; the others have to
// pass.
#include "warptape/tests/grade/kernels.h"
//
#include "warptape/kernels/copy.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

const char* flat(const CopyArgs& a) {
  return plain_f32(a.out) && plain_f32(a.in) && same_shape(*a.out.geometry, *a.in.geometry)
             ? nullptr
             : "anything but contiguous f32";
}
const char* of_f32(const CopyArgs& a) {
  return a.out.dtype() == DType::f32 && a.in.dtype() == DType::f32 ? nullptr : "other dtypes";
}

// Bytes, whatever they mean; the last word of a tail is nobody's.
__global__ void as_bytes(float* out, const float* in, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  const u8* const from = reinterpret_cast<const u8*>(in + i);
  u8* const to = reinterpret_cast<u8*>(out + i);
  for (int b = 3; b >= 0; --b) to[b] = from[b];
}
// A block turns its elements round twice.
__global__ void there_and_back(float* out, const float* in, int n) {
  WT_SHARED(float, part, [64]);
  const int t = int(threadIdx.x), i = int(blockIdx.x) * 64 + t;
  if (i < n) part[63 - t] = in[i];
  __syncthreads();
  const int other = int(blockIdx.x) * 64 + 63 - t;
  if (other < n) out[other] = part[t];
}

// REJECT through_half values
__global__ void through_half(float* out, const float* in, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = float(__half(in[i]));
}
// REJECT one_behind values
__global__ void one_behind(float* out, const float* in, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = in[i + 1 < n ? i + 1 : i];
}
// REJECT number_for_nan nan
__global__ void number_for_nan(float* out, const float* in, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = fmaxf(in[i], -INFINITY);
}
// Of two neighbours the second gives the first back what it found there.
// REJECT gives_back race
__global__ void gives_back(float* out, const float* in, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  out[i] = in[i];
  if (i % 2) out[i - 1] = out[i - 1] + 0;  // BUG gives_back
}
template <auto Kernel>
void simply(const CopyArgs& a, const Launch& l) {
  launch<Kernel>(grid(l, blocks_for(a.out.numel(), 64), 64), a.out.as<float>(),
                 a.in.as<const float>(), int(a.out.numel()));
}
// REJECT once unwritten
void once(const CopyArgs& a, const Launch& l) {
  static i64 done = -1;
  if (done != a.out.numel()) simply<as_bytes>(a, l);
  done = a.out.numel();
}

}  // namespace
}  // namespace WT_DEVICE_NS

// REJECT forgets_strides unwritten
#define WT_ROW(kernel) \
  { .name = #kernel, .why_not = flat, .launch = simply<kernel> }
WT_VARIANTS(WT_DEVICE_NS, copy, CopyArgs, WT_ROW(as_bytes), WT_ROW(there_and_back),
            WT_ROW(through_half), WT_ROW(one_behind), WT_ROW(number_for_nan), WT_ROW(gives_back),
            {.name = "once", .why_not = flat, .launch = once},
            {.name = "forgets_strides", .why_not = of_f32, .launch = simply<as_bytes>});

}  // namespace wt
