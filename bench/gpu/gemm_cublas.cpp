// The best that cuBLASLt does on one product: the ceiling of matrix products.
#include "warptape/bench/gpu/ceilings.h"
#include "warptape/bench/gpu/maker.h"
#include "warptape/core/error.h"
#include "warptape/core/stream.h"
#include "warptape/kernels/cuda/blas.h"

namespace wt::bench {
namespace {

struct Kind {
  DType dtype;
  cudaDataType_t type;
  cublasComputeType_t compute;
};
Kind kind_of(const std::string& dtype) {
  if (dtype == "bf16") return {DType::bf16, CUDA_R_16BF, CUBLAS_COMPUTE_32F};
  if (dtype == "f16") return {DType::f16, CUDA_R_16F, CUBLAS_COMPUTE_32F};
  if (dtype == "tf32") return {DType::f32, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32};
  return {DType::f32, CUDA_R_32F, CUBLAS_COMPUTE_32F};
}

class Product {
 public:
  Product(Device d, i64 n, const Kind& kind) : device_(d), handle_(cublaslt_handle(d)) {
    describe(n, kind);
    Maker m(d, 1, keep_);
    a_ = m.normal({n, n}, kind.dtype).impl()->data;
    b_ = m.normal({n, n}, kind.dtype).impl()->data;
    out_ = m.out({n, n}, kind.dtype).impl()->data;
    workspace_ = m.out({kCublasWorkspace}, DType::u8).impl()->data;
  }
  int choices() const { return count_; }
  bool usable(int choice) const { return found_[choice].state == CUBLAS_STATUS_SUCCESS; }
  void run(int choice) {
    const float one = 1, zero = 0;
    cublas_check(
        lt_.matmul(handle_, &product_, &one, a_, &matrix_, b_, &matrix_, &zero, out_, &matrix_,
                   out_, &matrix_, &found_[choice].algo, workspace_, size_t(kCublasWorkspace),
                   static_cast<cudaStream_t>(detail::native_stream(device_))),
        "cublasLtMatmul", device_);
  }

 private:
  void describe(i64 n, const Kind& kind) {
    const auto check = [&](cublasStatus_t s, const char* call) { cublas_check(s, call, device_); };
    check(lt_.init_product(&product_, sizeof product_, kind.compute, CUDA_R_32F), "MatmulDescInit");
    check(lt_.init_layout(&matrix_, sizeof matrix_, kind.type, u64(n), u64(n), n),
          "MatrixLayoutInit");
    cublasLtMatmulPreferenceOpaque_t wish;
    check(lt_.init_preference(&wish, sizeof wish), "MatmulPreferenceInit");
    const u64 workspace = u64(kCublasWorkspace);
    check(lt_.set_preference(&wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                             sizeof workspace),
          "MatmulPreferenceSetAttribute");
    check(lt_.heuristic(handle_, &product_, &matrix_, &matrix_, &matrix_, &matrix_, &wish,
                        kMostChoices, found_, &count_),
          "cublasLtMatmulAlgoGetHeuristic");
  }

  static constexpr int kMostChoices = 8;
  Device device_;
  const CublasLt& lt_ = cublaslt();
  cublasLtHandle_t handle_;
  cublasLtMatmulDescOpaque_t product_;
  cublasLtMatrixLayoutOpaque_t matrix_;  // all three are n x n
  cublasLtMatmulHeuristicResult_t found_[kMostChoices];
  int count_ = 0;
  std::vector<Tensor> keep_;
  void *a_, *b_, *out_, *workspace_;
};

}  // namespace

// All choices for a moment, then the best: a slow one of eight would take seconds.
Timing gemm_ceiling(Device d, i64 n, const std::string& dtype, double seconds) {
  Product product(d, n, kind_of(dtype));
  int best = -1;
  double best_us = 0;
  for (int i = 0; i < product.choices(); ++i) {
    if (!product.usable(i)) continue;
    const auto run = [&](int) { product.run(i); };
    const double us = time_batch(d, 2, run, {.seconds = 0}).median_us;
    if (best < 0 || us < best_us) best = i, best_us = us;
  }
  if (best < 0) throw NotAvailable("cuBLASLt has no kernel for this product");
  const auto run = [&](int) { product.run(best); };
  return time_batch(d, 10, run, {.seconds = seconds});
}

}  // namespace wt::bench
