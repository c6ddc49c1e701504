// Correct kernels: every feature of the executor once. They must pass in every order and flavour.
#include "warptape/kernels/device/async_copy.cuh"
//
#include "warptape/tests/simt/good_kernels.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr unsigned kFull = 0xffffffffu;

__global__ void vector_add_kernel(float* __restrict__ c, const float* __restrict__ a,
                                  const float* __restrict__ b, int n) {
  const int stride = gridDim.x * blockDim.x, first = blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = first; i < n / 4; i += stride) {
    const float4 x = vload<float4>(a + 4 * i), y = vload<float4>(b + 4 * i);
    vstore(c + 4 * i, make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w));
  }
  for (int i = n / 4 * 4 + first; i < n; i += stride) c[i] = a[i] + b[i];
}

__global__ void block_sum_kernel(float* out, const float* x, int n) {
  WT_SHARED(float, part, [4]);
  float v = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) v += x[i];
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(kFull, v, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0) out[0] = part[0] + part[1] + part[2] + part[3];
}

__global__ void shuffles_kernel(double* out) {
  const unsigned lane = threadIdx.x;
  const float v = float(lane);
  out[lane] = __shfl_sync(kFull, v, 3);
  out[lane + 32] = __shfl_up_sync(kFull, v, 2);
  out[lane + 64] = __shfl_down_sync(kFull, v, 5);
  out[lane + 96] = __shfl_xor_sync(kFull, v, 7);
  out[lane + 128] = __shfl_xor_sync(kFull, double(lane), 1);
  out[lane + 160] = double(__shfl_xor_sync(kFull, (1ull << 40) + lane, 1) - (1ull << 40));
  out[lane + 192] = __half2float(__shfl_xor_sync(kFull, __float2half(v), 1));
  out[lane + 224] = __bfloat162float(__shfl_xor_sync(kFull, __float2bfloat16(v), 1));
  out[lane + 256] = __shfl_down_sync(kFull, v, 1, 8);
}

__global__ void votes_kernel(unsigned* out) {
  const unsigned lane = threadIdx.x;
  const unsigned ballot = __ballot_sync(kFull, lane % 3 == 0);
  const int none = __any_sync(kFull, lane == 40), one = __any_sync(kFull, lane == 4);
  const int all = __all_sync(kFull, lane < 32), most = __all_sync(kFull, lane < 31);
  unsigned half = 0;
  if (lane < 16) half = __ballot_sync(0xffffu, lane % 2);
  const unsigned active = __activemask();
  if (lane != 0) return;
  out[0] = ballot;
  out[1] = unsigned(none);
  out[2] = unsigned(one);
  out[3] = unsigned(all);
  out[4] = unsigned(most);
  out[5] = half;
  out[6] = active & 1;
}

__global__ void barrier_votes_kernel(int* out) {
  const int p = threadIdx.x < 40;
  const int count = __syncthreads_count(p), all = __syncthreads_and(p), any = __syncthreads_or(p);
  if (threadIdx.x != 77) return;
  out[0] = count;
  out[1] = all;
  out[2] = any;
}

__device__ uint32_t pack(const uint16_t* low, const uint16_t* high) {
  return *low | uint32_t(*high) << 16;
}
template <class T>
__global__ void mma_kernel(float* c, const uint16_t* a, const uint16_t* b) {
  const int g = threadIdx.x / 4, t = threadIdx.x % 4 * 2;
  const auto at = [a](int row, int k) { return pack(a + row * 16 + k, a + row * 16 + k + 1); };
  const auto bt = [b](int k, int col) { return pack(b + k * 8 + col, b + (k + 1) * 8 + col); };
  const uint32_t fa[4] = {at(g, t), at(g + 8, t), at(g, t + 8), at(g + 8, t + 8)};
  const uint32_t fb[2] = {bt(t, g), bt(t + 8, g)};
  float d[4] = {};
  mma_m16n8k16<T>(d, fa, fb);
  vstore(c + g * 8 + t, make_float2(d[0], d[1]));
  vstore(c + (g + 8) * 8 + t, make_float2(d[2], d[3]));
}

__global__ void ldmatrix_mma_kernel(float* c, const uint16_t* a, const uint16_t* b) {
  WT_SHARED(uint4, as, [32]);  // 16 x 16
  WT_SHARED(uint4, bs, [16]);  // 16 x 8
  const int lane = threadIdx.x;
  as[lane] = vload<uint4>(a + 8 * lane);
  if (lane < 16) bs[lane] = vload<uint4>(b + 8 * lane);
  __syncwarp();
  uint32_t fa[4], fb[2], one[1], again[4];
  ldmatrix<4>(fa, &as[lane % 16 * 2 + lane / 16]);
  ldmatrix<2, true>(fb, &bs[lane % 16]);
  ldmatrix<1, true>(one, &bs[lane % 8]);
  ldmatrix<4, true>(again, &as[lane % 16 * 2 + lane / 16]);
  float d[4] = {one[0] == fb[0] ? 0.0f : 1e9f};
  // The transposed upper left quarter of A holds A[2t][g] where fa[0] holds A[g][2t].
  const uint16_t* left = reinterpret_cast<const uint16_t*>(as);
  if ((again[0] & 0xffff) != left[lane % 4 * 2 * 16 + lane / 4]) d[0] = 1e9f;
  mma_m16n8k16<__half>(d, fa, fb);
  const int g = lane / 4, t = lane % 4 * 2;
  vstore(c + g * 8 + t, make_float2(d[0], d[1]));
  vstore(c + (g + 8) * 8 + t, make_float2(d[2], d[3]));
}

__global__ void atomics_kernel(int* i, unsigned* u, unsigned long long* l, float* f, double* d) {
  const int n = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(i, 1);
  atomicMin(i + 1, -n);
  atomicMax(u, unsigned(n));
  atomicAdd(u + 1, 2u);
  atomicAdd(l, 1ull << 33);
  atomicMax(l + 1, (1ull << 33) + n);
  atomicAdd(f, 1.0f);
  atomicAdd(d, 1.0);
  atomic_max(f + 1, float(n));
  atomic_min(d + 1, -double(n));
  atomicExch(u + 2, 7u);
  unsigned seen = *reinterpret_cast<volatile unsigned*>(u + 4), now = 0;  // always 0: a first guess
  for (;; seen = now) {
    now = atomicCAS(u + 3, seen, seen + 1);
    if (now == seen) break;
  }
}

__global__ void reverse_kernel(float* out, const float* in, int n) {
  WT_DYN_SHARED(float, buffer);
  for (int i = threadIdx.x; i < n; i += blockDim.x) buffer[i] = in[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = buffer[n - 1 - i];
}

template <int Bytes>
__device__ void copy_inside(float* to, const float* in, int i, int n) {
  const int left = (n - i) * 4;
  cp_async<Bytes>(to, left > 0 ? in + i : in, left < 0 ? 0 : left < Bytes ? left : Bytes);
}
__global__ void copy_pipeline_kernel(float* out, const float* in, int n) {
  constexpr int kStages = 3, kRow = 256;
  struct alignas(16) Stage {
    float v[kRow];
  };
  WT_SHARED(Stage, stage, [kStages]);
  const int t = threadIdx.x, rows = (n + kRow - 1) / kRow;
  const auto copy = [&](int row) WT_INLINE_LAMBDA {
    if (row < rows) {
      float* to = stage[row % kStages].v;
      if (t < 32)
        copy_inside<16>(to + 4 * t, in, row * kRow + 4 * t, n);
      else
        copy_inside<8>(to + 64 + 2 * t, in, row * kRow + 64 + 2 * t, n);
      copy_inside<4>(to + 192 + t, in, row * kRow + 192 + t, n);
    }
    cp_async_commit();
  };
  float sum[4] = {};
  for (int row = 0; row < kStages - 1; ++row) copy(row);
  for (int row = 0; row < rows; ++row) {
    cp_async_wait<kStages - 2>();
    __syncthreads();
    copy(row + kStages - 1);
    for (int i = 0; i < 4; ++i) sum[i] += stage[row % kStages].v[(255 - t - 64 * i)];
  }
  for (int i = 0; i < 4; ++i) out[255 - t - 64 * i] = sum[i];
}

__global__ void last_block_kernel(float* out, float* part, unsigned* ticket) {
  WT_SHARED(int, last, );
  if (threadIdx.x % 16 == 0) part[blockIdx.x * 2 + threadIdx.x / 16] = float(blockIdx.x + 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(ticket, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last || threadIdx.x != 1) return;
  float s = 0;
  for (unsigned b = 0; b < gridDim.x; ++b) s += part[b * 2];
  *out = s;
}

__global__ void append_kernel(unsigned* log, unsigned* count, unsigned id) {
  log[atomicAdd(count, 1u)] = id;
}

__global__ void block_order_kernel(unsigned* order, unsigned* ticket) {
  order[atomicAdd(ticket, 1u)] = blockIdx.x;
}

__global__ void indices_kernel(unsigned* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned i = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
  out[i] = i;
}

__global__ void syncwarp_kernel(float* out) {
  WT_SHARED(float, s, [64]);
  const int t = threadIdx.x, base = t / 32 * 32;
  s[t] = float(t);
  __syncwarp();
  const float v = s[base + (t + 1) % 32];
  __syncwarp();
  s[t] = v;
  __syncwarp();
  out[t] = s[base + (t + 1) % 32];
}

__global__ void small_types_kernel(unsigned char* bytes, uint16_t* halves, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  bytes[i] = static_cast<unsigned char>(i);
  halves[i] = uint16_t(bytes[i] * 2);
}

__global__ void scalars_kernel(float* out) {
  out[0] = __half2float(__float2half(1.0f / 3));
  out[1] = __bfloat162float(__float2bfloat16(1.0f / 3));
  out[2] = float(__half(2.0f) * __half(3.0f) + __half(0.5f));
  out[3] = __half2float(__float2half(1e6f));
  out[4] = rsqrtf(16.0f);
  out[5] = float(__popc(0xf0u) + __clz(1) + __ffs(8));
  out[6] = fmaf(2.0f, 3.0f, 4.0f) + max(1, 2) + min(3.0f, 4.0f);
  out[7] = erff(0.5f);
  out[8] = tanhf(0.5f);
  out[9] = float(__umulhi(1u << 31, 6u));
  out[10] = __expf(1.0f);
  out[11] = __float_as_int(1.0f) == 0x3f800000 ? 1.0f : 0.0f;
  const __half2 h = __floats2half2_rn(1.5f, -2.0f);
  out[12] = __low2float(h) + __high2float(h);
}

struct CopyArgs {
  float* out;
  const float* x;
  int n;
  template <class F>
  void visit_pointers(F&& f) const {
    f(out);
    f(x);
  }
};
__global__ void struct_copy_kernel(int first, CopyArgs a) {
  for (int i = first + threadIdx.x; i < a.n; i += blockDim.x) a.out[i] = a.x[i];
}

__global__ void never_kernel() { __trap(); }

unsigned blocks_of(int n, int threads) { return unsigned((n + threads - 1) / threads); }

}  // namespace

void test_vector_add(float* c, const float* a, const float* b, int n) {
  launch<vector_add_kernel>({.grid = 3, .block = 64, .op_name = "add"}, c, a, b, n);
}
void test_block_sum(float* out, const float* x, int n) {
  launch<block_sum_kernel>({.grid = 1, .block = 128}, out, x, n);
}
void test_shuffles(double* out) { launch<shuffles_kernel>({.grid = 1, .block = 32}, out); }
void test_votes(unsigned* out) { launch<votes_kernel>({.grid = 1, .block = 32}, out); }
void test_barrier_votes(int* out) { launch<barrier_votes_kernel>({.grid = 1, .block = 96}, out); }
void test_mma(float* c, const uint16_t* a, const uint16_t* b, bool bf16) {
  const Config one{.grid = 1, .block = 32};
  if (bf16)
    launch<mma_kernel<__nv_bfloat16>>(one, c, a, b);
  else
    launch<mma_kernel<__half>>(one, c, a, b);
}
void test_ldmatrix_mma(float* c, const uint16_t* a, const uint16_t* b) {
  launch<ldmatrix_mma_kernel>({.grid = 1, .block = 32}, c, a, b);
}
void test_atomics(int* i, unsigned* u, unsigned long long* l, float* f, double* d) {
  launch<atomics_kernel>({.grid = 4, .block = 64}, i, u, l, f, d);
}
void test_reverse(float* out, const float* in, int n) {
  launch<reverse_kernel>({.grid = 1, .block = 128, .shared_bytes = n * sizeof(float)}, out, in, n);
}
void test_copy_pipeline(float* out, const float* in, int n) {
  launch<copy_pipeline_kernel>({.grid = 1, .block = 64}, out, in, n);
}
void test_last_block(float* out, float* part, unsigned* ticket, int blocks) {
  launch<last_block_kernel>({.grid = unsigned(blocks), .block = 32}, out, part, ticket);
}
void test_block_order(unsigned* order, unsigned* ticket, int blocks) {
  launch<block_order_kernel>({.grid = unsigned(blocks), .block = 1}, order, ticket);
}
void test_append(unsigned* log, unsigned* count, unsigned id, void* stream) {
  launch<append_kernel>({.grid = 1, .block = 1, .stream = stream, .op_name = "append"}, log, count,
                        id);
}
void test_indices(unsigned* out, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                  unsigned bz) {
  launch<indices_kernel>({.grid = dim3(gx, gy, gz), .block = dim3(bx, by, bz)}, out);
}
void test_syncwarp(float* out) { launch<syncwarp_kernel>({.grid = 1, .block = 64}, out); }
void test_small_types(unsigned char* bytes, uint16_t* halves, int n) {
  launch<small_types_kernel>({.grid = blocks_of(n, 32), .block = 32}, bytes, halves, n);
}
void test_scalars(float* out) { launch<scalars_kernel>({.grid = 1, .block = 1}, out); }
void test_struct_copy(float* out, const float* x, int n) {
  launch<struct_copy_kernel>({.grid = 1, .block = 32}, 0, CopyArgs{out, x, n});
}
void test_empty_grid() {
  launch<never_kernel>({.grid = dim3(0, 5, 1), .block = 32});
  launch<never_kernel>({.grid = dim3(5, 5, 0), .block = 32});
}

}  // namespace WT_DEVICE_NS
}  // namespace wt
