// A kernel that is right on simt, and that nvcc refuses. A line "REJECT variant kind" says what the
// grader must find; it must name the line that ends with "BUG variant".
#include "warptape/tests/grade/kernels.h"
//
#include "warptape/kernels/pointwise.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

using Args = PointwiseArgs<pw::Add>;
const char* flat(const Args& a) {
  const View* const all[] = {&a.out, &a.in[0], &a.in[1]};
  for (const View* v : all)
    if (!*v || !plain_f32(*v) || v->numel() != a.out.numel()) return "anything but contiguous f32";
  return nullptr;
}

float sum(float a, float b) { return a + b; }

// REJECT host_function nvcc
__global__ void host_function(float* out, const float* a, const float* b, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = sum(a[i], b[i]);  // BUG host_function
}

template <auto Kernel>
void by_elements(const Args& a, const Launch& l) {
  launch<Kernel>(grid(l, blocks_for(a.out.numel(), 64), 64), a.out.as<float>(),
                 a.in[0].as<const float>(), a.in[1].as<const float>(), int(a.out.numel()));
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, add, Args,
            {.name = "host_function", .why_not = flat, .launch = by_elements<host_function>});

}  // namespace wt
