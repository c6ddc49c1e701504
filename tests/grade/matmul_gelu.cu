// Right and wrong kernels for matmul_gelu. "REJECT variant kind" as in softmax_bad.cu; the others
// have to pass.
#include "warptape/tests/grade/kernels.h"
//
#include "warptape/kernels/matmul.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

const char* dense_layer(const MatmulArgs& a) {
  if (a.dtype != DType::f32) return "other dtypes than f32";
  if (!a.bias || a.epilogue.activation != Activation::gelu || a.epilogue.gradient)
    return "anything but bias and gelu";
  if (a.row_sum || a.accumulate || a.epilogue.aux || a.batch_ndim) return "more than that";
  return a.out_row == a.n && a.a_row == a.k && a.a_column == 1 && a.b_row == a.n && a.b_column == 1
             ? nullptr
             : "other strides";
}

__device__ float gelu_of(float v) { return 0.5f * v * erfcf(-0.70710678f * v); }

struct Product {
  float* out;
  const float *a, *b, *bias;
  int m, n, k;
};
__device__ float product_of(const Product& p, int i, int j) {
  float s = 0;
  for (int l = 0; l < p.k; ++l) s += p.a[i * p.k + l] * p.b[l * p.n + j];
  return s;
}

__global__ void element(const Product p) {
  const int e = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (e < p.m * p.n) p.out[e] = gelu_of(p.bias[e % p.n] + product_of(p, e / p.n, e % p.n));
}
// A block keeps a row of a, and each of its threads goes over columns.
__global__ void block_a_row(const Product p) {
  WT_DYN_SHARED(float, row);
  const int i = int(blockIdx.x);
  for (int l = int(threadIdx.x); l < p.k; l += 32) row[l] = p.a[i * p.k + l];
  __syncthreads();
  for (int j = int(threadIdx.x); j < p.n; j += 32) {
    float s = p.bias[j];
    for (int l = 0; l < p.k; ++l) s += row[l] * p.b[l * p.n + j];
    p.out[i * p.n + j] = gelu_of(s);
  }
}

// REJECT bias_behind values
__global__ void bias_behind(const Product p) {
  const int e = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (e < p.m * p.n) p.out[e] = gelu_of(product_of(p, e / p.n, e % p.n)) + p.bias[e % p.n];
}
// REJECT bias_of_rows outside
__global__ void bias_of_rows(const Product p) {
  const int e = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (e < p.m * p.n)
    p.out[e] = gelu_of(product_of(p, e / p.n, e % p.n) + p.bias[e / p.n]);  // BUG bias_of_rows
}
// REJECT no_gelu values
__global__ void no_gelu(const Product p) {
  const int e = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (e < p.m * p.n) p.out[e] = product_of(p, e / p.n, e % p.n) + p.bias[e % p.n];
}
// The first lane reads a row of a that others still bring.
// REJECT row_too_soon race
__global__ void row_too_soon(const Product p) {
  WT_DYN_SHARED(float, row);
  const int i = int(blockIdx.x);
  for (int l = int(threadIdx.x); l < p.k; l += 32) row[l] = p.a[i * p.k + l];  // BUG row_too_soon
  for (int j = int(threadIdx.x); j < p.n; j += 32) {
    float s = p.bias[j];
    for (int l = 0; l < p.k; ++l) s += row[l] * p.b[l * p.n + j];
    p.out[i * p.n + j] = gelu_of(s);
  }
}

Product product(const MatmulArgs& a) {
  return {static_cast<float*>(a.out),
          static_cast<const float*>(a.a),
          static_cast<const float*>(a.b),
          static_cast<const float*>(a.bias),
          int(a.m),
          int(a.n),
          int(a.k)};
}
template <auto Kernel>
void elements(const MatmulArgs& a, const Launch& l) {
  launch<Kernel>(grid(l, blocks_for(a.m * a.n, 64), 64), product(a));
}
template <auto Kernel>
void rows(const MatmulArgs& a, const Launch& l) {
  launch<Kernel>(grid(l, a.m, 32, size_t(a.k) * sizeof(float)), product(a));
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, matmul, MatmulArgs,
            {.name = "element", .why_not = dense_layer, .launch = elements<element>},
            {.name = "block_a_row", .why_not = dense_layer, .launch = rows<block_a_row>},
            {.name = "bias_behind", .why_not = dense_layer, .launch = elements<bias_behind>},
            {.name = "bias_of_rows", .why_not = dense_layer, .launch = elements<bias_of_rows>},
            {.name = "no_gelu", .why_not = dense_layer, .launch = elements<no_gelu>},
            {.name = "row_too_soon", .why_not = dense_layer, .launch = rows<row_too_soon>});

}  // namespace wt
