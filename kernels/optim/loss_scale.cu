// Dynamic loss scaling on simt and cuda.
//   naive  one thread (grad_unscale: a thread a chunk)
//   block  grad_unscale: a block a chunk, 16-byte accesses
#include "warptape/kernels/loss_scale.h"

#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/device/vector.cuh"
#include "warptape/kernels/grad_norm.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 256;

struct SeedPointers : LossSeedArgs {
  template <class F>
  void visit_pointers(F&& f) const {
    f(step), f(scaler);
  }
};

inline Config config(i64 blocks, unsigned threads, const Launch& l) {
  return {.grid = unsigned(blocks),
          .block = threads,
          .stream = l.stream,
          .op_name = l.op ? l.op->name : nullptr};
}

// --- a handful of numbers, on the device because the scale is there ---
__global__ void __launch_bounds__(1) seed_kernel(SeedPointers a) { detail::seed_loss(a); }
void seed_naive(const LossSeedArgs& a, const Launch& l) {
  launch<seed_kernel>(config(1, 1, l), SeedPointers{a});
}
__global__ void __launch_bounds__(1) scale_update_kernel(LossScale* scaler) {
  detail::update_scale(*scaler);
}
void update_naive(const LossScaleUpdateArgs& a, const Launch& l) {
  launch<scale_update_kernel>(config(1, 1, l), a.scaler);
}

// --- gradients: multiplied, and their squares summed, in one pass ---
template <class T>
__global__ void __launch_bounds__(kThreads)
    unscale_naive_kernel(T* x, i64 n, const LossScale* scaler, double* partials) {
  const i64 chunk = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  const i64 begin = chunk * kNormChunk;
  // A thread walks a chunk of its own: lanes read and write a chunk apart.
  if (begin >= n) return;
  const i64 end = begin + kNormChunk < n ? begin + kNormChunk : n;
  const T factor = T(scaler->inverse);
  double s = 0;
  for (i64 i = begin; i < end; ++i) {
    x[i] *= factor;
    s += double(x[i]) * double(x[i]);
  }
  partials[chunk] = s;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    unscale_block_kernel(T* x, i64 n, const LossScale* scaler, double* partials) {
  // As grad_norm's block rung reads, and each pack is written back from the registers it was
  // squared in: 8 bytes an element of f32, where scaling and norm apart are 12.
  constexpr int V = 16 / sizeof(T);
  const i64 begin = i64(blockIdx.x) * kNormChunk;
  const i64 end = begin + kNormChunk < n ? begin + kNormChunk : n;
  const T factor = T(scaler->inverse);
  double s = 0;
  for (i64 i = begin + i64(threadIdx.x) * V; i < end; i += kThreads * V) {
    if (i + V <= end) {
      T v[V];
      load_vector(v, x + i);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        v[k] *= factor;
        s += double(v[k]) * double(v[k]);
      }
      store_vector(x + i, v);
    } else {
      for (i64 k = i; k < end; ++k) {
        const T v = x[k] * factor;
        x[k] = v;
        s += double(v) * double(v);
      }
    }
  }
  s = block_reduce(s, Plus{});
  if (threadIdx.x == 0) partials[blockIdx.x] = s;
}

template <class T>
void launch_naive(const GradUnscaleArgs& a, const Launch& l) {
  const i64 chunks = norm_chunks(a.n);
  launch<unscale_naive_kernel<T>>(config((chunks + kThreads - 1) / kThreads, kThreads, l),
                                  static_cast<T*>(a.x), a.n, a.scaler, a.partials);
}
template <class T>
void launch_block(const GradUnscaleArgs& a, const Launch& l) {
  launch<unscale_block_kernel<T>>(config(norm_chunks(a.n), kThreads, l), static_cast<T*>(a.x), a.n,
                                  a.scaler, a.partials);
}
void unscale_naive(const GradUnscaleArgs& a, const Launch& l) {
  a.dtype == DType::f32 ? launch_naive<float>(a, l) : launch_naive<double>(a, l);
}
void unscale_block(const GradUnscaleArgs& a, const Launch& l) {
  a.dtype == DType::f32 ? launch_block<float>(a, l) : launch_block<double>(a, l);
}

const char* not_f32_or_f64(const GradUnscaleArgs& a) {
  return a.dtype == DType::f32 || a.dtype == DType::f64 ? nullptr : "gradients must be f32 or f64";
}
const char* unaligned(const GradUnscaleArgs& a) {
  if (const char* why = not_f32_or_f64(a)) return why;
  return aligned_16(a.x) ? nullptr : "gradients must be 16-byte aligned";
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, loss_seed, LossSeedArgs, {.name = "naive", .launch = seed_naive});
WT_VARIANTS(WT_DEVICE_NS, loss_scale_update, LossScaleUpdateArgs,
            {.name = "naive", .launch = update_naive});
WT_VARIANTS(WT_DEVICE_NS, grad_unscale, GradUnscaleArgs,
            {.name = "block", .rank = 10, .why_not = unaligned, .launch = unscale_block},
            {.name = "naive", .why_not = not_f32_or_f64, .launch = unscale_naive});

}  // namespace wt
