// Matrix products through cuBLASLt.
//
// cuBLASLt thinks in column-major matrices: out, row-major [m, n], is its D [n, m], so its first
// operand is our b and its second our a, each transposed where ours lies row by row.
#include <unordered_map>

#include "warptape/core/error.h"
#include "warptape/core/matmul_precision.h"
#include "warptape/core/warning.h"
#include "warptape/kernels/cuda/blas.h"
#include "warptape/kernels/dispatch/run_matmul_epilogue.h"
#include "warptape/kernels/matmul.h"
#include "warptape/kernels/matmul/leading_dimension.h"

namespace wt {

// matmul.cu
namespace cuda {
void launch_row_sums(const MatmulArgs& g, const Launch& l);
}

namespace {

constexpr i64 kWorkspace = kCublasWorkspace;

// Of calls that describe a problem and touch no device.
void check(cublasStatus_t status, const char* call) { cublas_check(status, call, Device::cuda()); }

// All that the choice of an algorithm depends on; compared as bytes, so without padding.
struct PlanKey {
  i64 m, n, k, lead_out, lead_a, lead_b, batches, stride_out, stride_a, stride_b;
  u32 alignments;  // log2 of what out, a, b and the epilogue's vector are aligned to
  u8 dtype, activation;
  u16 flags;
  friend bool operator==(const PlanKey&, const PlanKey&) = default;
};
static_assert(sizeof(PlanKey) == 88);
struct PlanHash {
  size_t operator()(const PlanKey& key) const {
    u64 words[sizeof(PlanKey) / 8], h = 0x9E3779B97F4A7C15u;
    __builtin_memcpy(words, &key, sizeof key);
    for (u64 w : words) h = (h ^ w) * 0xD6E8FEB86659FD93u, h ^= h >> 32;
    return size_t(h);
  }
};

// `usable` is false of problems that cuBLASLt has no algorithm for.
struct Plan {
  cublasLtMatmulAlgo_t algorithm;
  bool usable = false;
};

// One a thread and device: cuBLASLt's handle and the algorithms chosen so far.
struct Library {
  cublasLtHandle_t handle = nullptr;
  std::unordered_map<PlanKey, Plan, PlanHash> plans;
};
Library& library(Device d) {
  thread_local std::unordered_map<int, Library> libraries;
  Library& l = libraries[d.index];
  l.handle = cublaslt_handle(d);
  return l;
}

u32 alignment_log2(const void* p) {
  const int zeros = __builtin_ctzll(reinterpret_cast<u64>(p) | 256);
  return u32(zeros);
}

struct Types {
  cudaDataType_t data, scale;
  cublasComputeType_t compute;
};
// tf32: f32 may be rounded to it.
Types types_of(DType t, bool tf32) {
  switch (t) {
    case DType::f64:
      return {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    case DType::f16:
      return {CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DType::bf16:
      return {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    default:
      return {CUDA_R_32F, CUDA_R_32F, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F};
  }
}

// cuBLASLt's name of an epilogue. Its gelu is the one by tanh (no documentation says so; PyTorch
// relies on it, and `wt tune` and first uses compare it with ours).
cublasLtEpilogue_t epilogue_of(const MatmulArgs& g, bool row_sums) {
  const bool bias = g.bias != nullptr, aux = g.epilogue.aux != nullptr;
  if (row_sums) return CUBLASLT_EPILOGUE_BGRADB;  // sums over k of its second operand, which is a
  if (g.epilogue.gradient) return CUBLASLT_EPILOGUE_DGELU;
  switch (g.epilogue.activation) {
    case Activation::relu:
      return bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Activation::gelu_tanh:
      if (aux) return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
      return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    default:
      return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }
}

bool at_16(const void* p) { return reinterpret_cast<u64>(p) % 16 == 0; }

// Whether cuBLASLt has g's epilogue: relu and gelu by tanh forward, of the gradients that of gelu
// (relu's reads a bit mask of its own, where ours reads the result). Never in f64.
bool has_epilogue(const MatmulArgs& g) {
  const MatmulEpilogue& e = g.epilogue;
  const bool gelu = e.activation == Activation::gelu_tanh;
  const bool relu = e.activation == Activation::relu && !e.gradient && !e.aux;
  if (!relu && !gelu && e.activation != Activation::none) return false;
  if (g.dtype == DType::f64 || (e.gradient && g.bias) || !at_16(e.residual)) return false;
  if (!e.aux) return true;
  bool fits = at_16(e.aux) && g.out_row % 8 == 0;
  for (int d = 0; d < g.batch_ndim; ++d) fits &= g.batch[d].out % 8 == 0;
  return fits;
}

// One product: one batch dimension at most, and an epilogue that cuBLASLt has. Its row sums are
// made only where they are asked for: by the epilogue, which writes them beside the product and
// reads a no second time.
class Product {
 public:
  explicit Product(const MatmulArgs& g, bool row_sums = false) : g_(g) {
    const MatmulEpilogue& e = g.epilogue;
    const bool tf32 = g.dtype == DType::f32 && matmul_precision() == MatmulPrecision::high;
    types_ = types_of(g.dtype, tf32);
    const void* const vector = row_sums ? g.row_sum : g.bias;
    const auto [ta, lead_a] = leading_dimension(g.m, g.k, g.a_row, g.a_column);
    const auto [tb, lead_b] = leading_dimension(g.k, g.n, g.b_row, g.b_column);
    const i64 lead_out = g.m == 1 ? g.n : g.out_row;
    const MatmulArgs::Batch one{1, 0, 0, 0}, &batch = g.batch_ndim ? g.batch[0] : one;
    key_ = {
        g.m,
        g.n,
        g.k,
        lead_out,
        lead_a,
        lead_b,
        batch.size,
        batch.out,
        batch.a,
        batch.b,
        alignment_log2(g.out) | alignment_log2(g.a) << 8 | alignment_log2(g.b) << 16 |
            alignment_log2(vector) << 24,
        u8(g.dtype),
        u8(e.activation),
        u16(g.accumulate | (g.bias != nullptr) << 1 | row_sums << 2 | tf32 << 3 | ta << 4 |
            tb << 5 | e.gradient << 6 | (e.aux != nullptr) << 7 | (e.residual != nullptr) << 8)};
    check(lt_.init_product(&product_, sizeof product_, types_.compute, types_.scale),
          "MatmulDescInit");
    set(CUBLASLT_MATMUL_DESC_TRANSA, tb ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, ta ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(g, row_sums));
    if (vector) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
    if (e.aux) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, e.aux);
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, lead_out);
      if (g.batch_ndim) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, batch.out);
    }
    layout(first_, tb ? g.k : g.n, tb ? g.n : g.k, lead_b, batch.b);
    layout(second_, ta ? g.m : g.k, ta ? g.k : g.m, lead_a, batch.a);
    layout(result_, g.n, g.m, lead_out, batch.out);
  }

  // False when cuBLASLt has no algorithm for it: nothing was queued then.
  bool run(Library& library, const Launch& l) {
    Plan& chosen = plan(library);
    if (!chosen.usable) return false;
    // Scale factors of the compute type: a double 1.0 or a float 1.0f.
    const double one = 1, zero = 0;
    const float one_f = 1, zero_f = 0;
    const bool wide = types_.scale == CUDA_R_64F;
    const void* alpha = wide ? static_cast<const void*>(&one) : &one_f;
    const void* const added = g_.accumulate ? g_.out : g_.epilogue.residual;  // its C
    const void* beta = added ? alpha : wide ? static_cast<const void*>(&zero) : &zero_f;
    const cublasStatus_t status =
        lt_.matmul(library.handle, &product_, alpha, g_.b, &first_, g_.a, &second_, beta,
                   added ? added : g_.out, &result_, g_.out, &result_, &chosen.algorithm,
                   l.workspace, kWorkspace, static_cast<cudaStream_t>(l.stream));
    chosen.usable = status != CUBLAS_STATUS_NOT_SUPPORTED;
    if (chosen.usable) cublas_check(status, "[matmul] cublasLtMatmul", l.device);
    return chosen.usable;
  }

 private:
  template <class V>
  void set(cublasLtMatmulDescAttributes_t attribute, V value) {
    check(lt_.set_product(&product_, attribute, &value, sizeof value), "MatmulDescSetAttribute");
  }
  void layout(cublasLtMatrixLayoutOpaque_t& to, i64 rows, i64 columns, i64 lead, i64 stride) {
    check(lt_.init_layout(&to, sizeof to, types_.data, u64(rows), u64(columns), lead),
          "MatrixLayoutInit");
    if (!g_.batch_ndim) return;
    const i32 count = i32(g_.batch[0].size);
    check(lt_.set_layout(&to, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
          "MatrixLayoutSetAttribute");
    check(lt_.set_layout(&to, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
          "MatrixLayoutSetAttribute");
  }
  Plan& plan(Library& library) {
    const auto found = library.plans.find(key_);
    if (found != library.plans.end()) [[likely]]
      return found->second;
    cublasLtMatmulPreferenceOpaque_t wish;
    check(lt_.init_preference(&wish, sizeof wish), "MatmulPreferenceInit");
    const auto want = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      check(lt_.set_preference(&wish, attribute, &value, sizeof value),
            "MatmulPreferenceSetAttribute");
    };
    want(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, u64(kWorkspace));
    const u32 out = 1u << alignment_log2(g_.out);
    want(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 1u << alignment_log2(g_.b));
    want(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 1u << alignment_log2(g_.a));
    want(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, g_.epilogue.residual ? 16u : out);
    want(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, out);
    cublasLtMatmulHeuristicResult_t results[4];
    int count = 0;
    const cublasStatus_t status = lt_.heuristic(library.handle, &product_, &first_, &second_,
                                                &result_, &result_, &wish, 4, results, &count);
    Plan chosen;
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) {
      check(status, "cublasLtMatmulAlgoGetHeuristic");
      for (int i = 0; i < count && !chosen.usable; ++i) {
        chosen.usable = results[i].state == CUBLAS_STATUS_SUCCESS &&
                        results[i].workspaceSize <= size_t(kWorkspace);
        chosen.algorithm = results[i].algo;
      }
    }
    return library.plans.emplace(key_, chosen).first->second;
  }

  const CublasLt& lt_ = cublaslt();
  const MatmulArgs& g_;
  Types types_;
  PlanKey key_;
  cublasLtMatmulDescOpaque_t product_;
  cublasLtMatrixLayoutOpaque_t first_, second_, result_;
};

}  // namespace

const char* matmul_vendor_why_not(const MatmulArgs& g) {
  if (!is_floating(g.dtype) || !computes(g.dtype)) return "takes f64, f32, f16 and bf16 only";
  if (g.m == 0 || g.n == 0 || g.k == 0 || g.batches() == 0) return "takes no empty products";
  if (g.bias && g.dtype == DType::f64) return "adds no bias in f64";
  // A bias that begins elsewhere is read wrong, or not at all, by kernels that load 16 bytes of it.
  if (reinterpret_cast<u64>(g.bias) % 16 != 0)
    return "adds no bias that begins between 16-byte boundaries";
  for (int d = 0; d < g.batch_ndim; ++d)
    if (g.batch[d].size > INT32_MAX) return "takes batches below 2^31 only";
  return cublaslt_why_not();  // last: it looks for the library
}

i64 matmul_vendor_workspace(const MatmulArgs&) { return kWorkspace; }

void matmul_vendor(const MatmulArgs& g, const Launch& l);
void matmul_vendor_epilogues(const MatmulArgs& g, const Launch& l);

namespace {

// The best of our own kernels whose workspace is not larger than cuBLASLt's, which is there.
WT_COLD void launch_own(const MatmulArgs& g, const Launch& l) {
  const Variant<MatmulArgs>* best = nullptr;
  int score = -1;
  for (int i = 0; i < matmul_on_cuda.count; ++i) {
    const Variant<MatmulArgs>& v = matmul_on_cuda.rows[i];
    const bool own = v.launch != matmul_vendor && v.launch != matmul_vendor_epilogues;
    if (!own || refusal(v, g, l.device) || (v.workspace && v.workspace(g) > kWorkspace)) continue;
    const int rank = v.rank_of ? v.rank_of(g) : v.rank;
    if (rank > score) best = &v, score = rank;
  }
  const std::string problem = str(dtype_name(g.dtype), " [", g.m, ", ", g.k, "] times [", g.k, ", ",
                                  g.n, "]", g.bias ? " with a bias" : "");
  if (!best) throw NotAvailable("[matmul] cuBLASLt has no algorithm for " + problem);
  warn_once("matmul without cuBLASLt",
            str("[matmul] cuBLASLt has no algorithm for ", problem, ": our own kernel \"",
                best->name, "\" multiplies here, more slowly (so for every such product)"));
  best->launch(g, l);
}

// One batch dimension at most. False: nothing was queued, for cuBLASLt has no algorithm.
bool by_library(const MatmulArgs& g, const Launch& l) {
  return Product(g).run(library(l.device), l);
}
void multiply(const MatmulArgs& g, const Launch& l) {
  if (!by_library(g, l)) launch_own(g, l);
}

// f(product) with one batch dimension at most: cuBLASLt strides over the innermost, the others are
// walked here.
template <class F>
void each_product(const MatmulArgs& g, F f) {
  if (g.batch_ndim <= 1) return f(g);
  MatmulArgs outer = g;
  outer.batch_ndim = u8(g.batch_ndim - 1);
  const i64 count = outer.batches();
  for (i64 i = 0; i < count; ++i) {
    MatmulArgs one = matmul_at(outer, i);
    one.batch_ndim = 1;
    one.batch[0] = g.batch[g.batch_ndim - 1];
    f(one);
  }
}

}  // namespace

void matmul_vendor(const MatmulArgs& g, const Launch& l) {
  MatmulArgs product = without_epilogue(g);
  product.row_sum = nullptr;  // a kernel of its own, below
  each_product(product, [&](const MatmulArgs& one) { multiply(one, l); });
  if (g.epilogue) run_epilogue(g, l);
  if (g.row_sum) cuda::launch_row_sums(g, l);
}

void matmul_vendor_epilogues(const MatmulArgs& g, const Launch& l) {
  if (g.epilogue && !g.row_sum && has_epilogue(g))
    return each_product(g, [&](const MatmulArgs& one) {
      if (!by_library(one, l)) matmul_vendor(one, l);
    });
  // What beta does beside BGRADB no documentation says: sums that come with a product that is added
  // to something are our kernel's, as those of f64 are, and those between 16-byte boundaries.
  const bool sums = g.row_sum && !g.bias && !g.accumulate && !g.row_sum_accumulate && !g.epilogue &&
                    g.dtype != DType::f64 && at_16(g.row_sum);
  if (!sums || !Product(g, true).run(library(l.device), l)) matmul_vendor(g, l);
}

}  // namespace wt
