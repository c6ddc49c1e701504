// The best that cuBLASLt does on one product: the ceiling of matrix products.
#include "warptape/bench/gpu/ceilings.h"
#include "warptape/bench/gpu/maker.h"
#include "warptape/core/error.h"
#include "warptape/core/stream.h"
#include "warptape/kernels/cuda/blas.h"

namespace wt::bench {
namespace {

struct Descriptions {
  cublasLtMatmulDescOpaque_t product;
  cublasLtMatrixLayoutOpaque_t matrix;  // all three are n x n
  cublasLtMatmulPreferenceOpaque_t wish;
};

Descriptions describe(Device d, i64 n, cudaDataType_t type) {
  Descriptions s;
  cublas_check(cublasLtMatmulDescInit(&s.product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "MatmulDescInit",
               d);
  cublas_check(cublasLtMatrixLayoutInit(&s.matrix, type, u64(n), u64(n), n), "MatrixLayoutInit", d);
  cublas_check(cublasLtMatmulPreferenceInit(&s.wish), "MatmulPreferenceInit", d);
  const u64 workspace = u64(kCublasWorkspace);
  cublas_check(cublasLtMatmulPreferenceSetAttribute(
                   &s.wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace),
               "MatmulPreferenceSetAttribute", d);
  return s;
}

}  // namespace

double gemm_ceiling(Device d, i64 n, DType t) {
  const cublasLtHandle_t handle = cublaslt_handle(d);
  Descriptions s = describe(d, n, t == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F);
  cublasLtMatmulHeuristicResult_t found[8];
  int count = 0;
  cublas_check(cublasLtMatmulAlgoGetHeuristic(handle, &s.product, &s.matrix, &s.matrix, &s.matrix,
                                              &s.matrix, &s.wish, 8, found, &count),
               "cublasLtMatmulAlgoGetHeuristic", d);
  std::vector<Tensor> keep;
  Maker m(d, 1, keep);
  const Tensor a = m.normal({n, n}, t), b = m.normal({n, n}, t), out = m.out({n, n}, t);
  const Tensor workspace = m.out({kCublasWorkspace}, DType::u8);
  const float one = 1, zero = 0;
  double best_us = 0;
  for (int i = 0; i < count; ++i) {
    if (found[i].state != CUBLAS_STATUS_SUCCESS) continue;
    const auto run = [&](int) {
      cublas_check(
          cublasLtMatmul(handle, &s.product, &one, a.impl()->data, &s.matrix, b.impl()->data,
                         &s.matrix, &zero, out.impl()->data, &s.matrix, out.impl()->data, &s.matrix,
                         &found[i].algo, workspace.impl()->data, size_t(kCublasWorkspace),
                         static_cast<cudaStream_t>(detail::native_stream(d))),
          "cublasLtMatmul", d);
    };
    const double us = time_batch(d, 10, run, {.seconds = 0.15}).median_us;
    if (us > 0 && (best_us == 0 || us < best_us)) best_us = us;
  }
  const double flops = 2.0 * double(n) * double(n) * double(n);
  return best_us > 0 ? flops / best_us * 1e-6 : 0;
}

}  // namespace wt::bench
