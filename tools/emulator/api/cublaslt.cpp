// A stand-in for libcublasLt.so.13, written from NVIDIA's header and documentation: handles,
// heuristics and products of f64, f32, f16, bf16 and i8. It refuses what the documentation forbids,
// where the library may be lenient; products run later, on the emulated stream.
//
// CUBLASLT_LOG_LEVEL=1 says why a call was refused. WT_EMU_HEURISTIC=none, state or status makes
// the heuristics answer as they may for a problem they have no algorithm for: no results, a result
// whose state is an error, a status.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "api/cublaslt_problem.h"
#include "api/cublaslt_product.h"
#include "api/enqueue.h"

struct cublasLtContext {
  emu::u32 magic;
  int device;
};

namespace emu::blas {
namespace {

constexpr u32 kHandleMagic = 0x4c744831;

bool valid(cublasLtHandle_t h) { return h && h->magic == kHandleMagic; }

// --- memory ---
Matrix matrix_of(const Layout& l, const void* at, bool transposed) {
  Matrix x{reinterpret_cast<u64>(at), l.type, 1, l.lead, l.batches > 1 ? l.stride : 0};
  if ((l.order == CUBLASLT_ORDER_ROW) != transposed) std::swap(x.row, x.column);
  return x;
}

// Stretches without holes, in order of address.
std::vector<EmuAccess> stretches(const Matrix& x, i64 rows, i64 columns, i64 batches, bool write) {
  i64 inner = rows, outer = columns, line = x.column;
  if (x.row != 1 || (rows == 1 && x.column == 1)) {
    inner = columns;
    outer = rows;
    line = x.row;
  }
  const u64 element = element_bytes(x.type);
  if (line == inner && (batches == 1 || x.batch == inner * outer))  // most often: no holes
    return {{x.at, u64(inner * outer * batches) * element, write}};
  std::vector<EmuAccess> all;
  all.reserve(size_t(outer * batches));
  for (i64 z = 0; z < batches; ++z)
    for (i64 j = 0; j < outer; ++j)
      all.push_back({x.at + u64(z * x.batch + j * line) * element, u64(inner) * element, write});
  std::sort(all.begin(), all.end(),
            [](const EmuAccess& a, const EmuAccess& b) { return a.address < b.address; });
  return all;
}

bool overlaps_itself(const std::vector<EmuAccess>& sorted) {
  for (size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i - 1].address + sorted[i - 1].bytes > sorted[i].address) return true;
  return false;
}

void add_merged(const std::vector<EmuAccess>& sorted, std::vector<EmuAccess>& to) {
  bool first = true;
  for (const EmuAccess& s : sorted) {
    const u64 end = first ? 0 : to.back().address + to.back().bytes;
    if (!first && s.address <= end)
      to.back().bytes = std::max(end, s.address + s.bytes) - to.back().address;
    else
      to.push_back(s);
    first = false;
  }
}

bool meet(Extent a, Extent b) { return a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes; }

// --- one call of cublasLtMatmul ---
class Call {
 public:
  static constexpr const char* kName = "cublasLtMatmul";
  explicit Call(const Problem& p) : p_(p) {
    out_.m = p.m;
    out_.n = p.n;
    out_.k = p.k;
    out_.batches = p.layouts[3]->batches;
    out_.compute = p.desc->compute;
    out_.scale = p.desc->scale;
    out_.epilogue = p.desc->epilogue;
    if (p.type(0) == CUDA_R_32F) {
      out_.rounding = p.desc->compute == CUBLAS_COMPUTE_32F_FAST_TF32   ? Rounding::tf32
                      : p.desc->compute == CUBLAS_COMPUTE_32F_FAST_16F  ? Rounding::f16
                      : p.desc->compute == CUBLAS_COMPUTE_32F_FAST_16BF ? Rounding::bf16
                                                                        : Rounding::none;
    }
  }

  cublasStatus_t factors(const void* alpha, const void* beta) {
    if (!alpha || !beta) return refuse(CUBLAS_STATUS_INVALID_VALUE, kName, "alpha or beta is null");
    const size_t bytes = element_bytes(u32(p_.desc->scale));
    out_.factors_on_device = p_.desc->pointer_mode == CUBLASLT_POINTER_MODE_DEVICE;
    out_.reads_c = true;
    if (out_.factors_on_device) {
      out_.alpha = reinterpret_cast<u64>(alpha);
      out_.beta = reinterpret_cast<u64>(beta);
      if (const auto s = inside("alpha", {out_.alpha, bytes})) return s;
      if (const auto s = inside("beta", {out_.beta, bytes})) return s;
      accesses_.push_back({out_.alpha, bytes, false});
      accesses_.push_back({out_.beta, bytes, false});
    } else {
      std::memcpy(&out_.alpha, alpha, bytes);
      std::memcpy(&out_.beta, beta, bytes);
      // A negative zero is zero too.
      u64 sign = u64(1) << (bytes * 8 - 1);
      if (p_.desc->scale == CUDA_R_32I) sign = 0;
      out_.reads_c = (out_.beta & ~sign) != 0;
    }
    return CUBLAS_STATUS_SUCCESS;
  }

  cublasStatus_t operands(const Algo& algo, const void* a, const void* b, const void* c, void* d) {
    const Desc& q = *p_.desc;
    out_.a = matrix_of(*p_.layouts[0], a, q.op_a != CUBLAS_OP_N);
    out_.b = matrix_of(*p_.layouts[1], b, q.op_b != CUBLAS_OP_N);
    out_.c = matrix_of(*p_.layouts[2], c, false);
    out_.d = matrix_of(*p_.layouts[3], d, false);
    if (const auto s = operand("A", out_.a, p_.m, p_.k, algo.alignment[0], false)) return s;
    if (const auto s = operand("B", out_.b, p_.k, p_.n, algo.alignment[1], false)) return s;
    if (out_.reads_c)
      if (const auto s = operand("C", out_.c, p_.m, p_.n, algo.alignment[2], false)) return s;
    if (const auto s = operand("D", out_.d, p_.m, p_.n, algo.alignment[3], true)) return s;
    if (q.epilogue & CUBLASLT_EPILOGUE_BIAS) {
      out_.bias = {q.bias, bias_type(p_), 1, 0, out_.batches > 1 ? q.bias_stride : 0};
      if (const auto s = operand("bias", out_.bias, p_.m, 1, algo.bias_alignment, false)) return s;
    }
    if (q.epilogue & CUBLASLT_EPILOGUE_BGRADB) {
      out_.bias = {q.bias, bias_type(p_), 1, 0, 0};
      if (const auto s = operand("bias gradient", out_.bias, p_.n, 1, algo.bias_alignment, true))
        return s;
    }
    if (uses_aux(q.epilogue)) {
      out_.aux = {q.aux, p_.type(3), 1, q.aux_ld, out_.batches > 1 ? q.aux_stride : 0};
      const bool writes = q.epilogue != CUBLASLT_EPILOGUE_DGELU;
      if (const auto s = operand("aux", out_.aux, p_.m, p_.n, 16, writes)) return s;
    }
    return aliasing();
  }

  cublasStatus_t workspace(const Algo& algo, void* at, size_t bytes) {
    out_.splits = algo.splits;
    out_.workspace = reinterpret_cast<u64>(at);
    out_.workspace_bytes = split_bytes(p_.m, p_.n, out_.compute, algo.splits);
    if (out_.workspace_bytes > bytes)
      return refuse(CUBLAS_STATUS_INVALID_VALUE, kName,
                    "the algorithm needs %lu bytes of workspace, there are %zu",
                    out_.workspace_bytes, bytes);
    if (bytes == 0) return CUBLAS_STATUS_SUCCESS;
    if (!at || out_.workspace % 256)
      return refuse(CUBLAS_STATUS_INVALID_VALUE, kName, "the workspace %p is not 256-byte aligned",
                    at);
    if (const auto s = inside("the workspace", {out_.workspace, bytes})) return s;
    if (meet({out_.workspace, bytes}, extent_of(out_.d, p_.m, p_.n, out_.batches)))
      return refuse(CUBLAS_STATUS_INVALID_VALUE, kName, "D lies in the workspace");
    if (out_.workspace_bytes) accesses_.push_back({out_.workspace, out_.workspace_bytes, true});
    return CUBLAS_STATUS_SUCCESS;
  }

  cublasStatus_t enqueue(cudaStream_t stream) {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    cudaStreamIsCapturing(stream, &capture);
    auto state = std::make_unique<State>();
    state->product = out_;
    state->once = capture == cudaStreamCaptureStatusNone;  // a graph may run it often: it stays
    __wt_emu_enqueue(stream, kName, accesses_.data(), accesses_.size(), run, state.release());
    return CUBLAS_STATUS_SUCCESS;
  }

 private:
  struct State {
    Product product;
    bool once;
  };
  static void run(void* p) {
    auto* state = static_cast<State*>(p);
    if (!run_product(state->product))
      std::fprintf(stderr, "%s: memory of a queued product was freed before it ran\n", kName);
    if (state->once) delete state;
  }

  cublasStatus_t inside(const char* name, Extent e) {
    if (__wt_emu_alias(e.begin, e.bytes) != INT64_MIN) return CUBLAS_STATUS_SUCCESS;
    std::fprintf(stderr,
                 "%s: %s: the %lu bytes at %#lx are not all in one block of device memory\n", kName,
                 name, e.bytes, e.begin);
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }

  cublasStatus_t operand(const char* name, const Matrix& x, i64 rows, i64 columns, u32 alignment,
                         bool write) {
    if (!x.at) return refuse(CUBLAS_STATUS_INVALID_VALUE, kName, "%s is null", name);
    if (x.at % alignment)
      return refuse(CUBLAS_STATUS_INVALID_VALUE, kName,
                    "%s at %#lx has not the %u-byte alignment that the algorithm was chosen for",
                    name, x.at, alignment);
    if (const auto s = inside(name, extent_of(x, rows, columns, out_.batches))) return s;
    const std::vector<EmuAccess> all = stretches(x, rows, columns, out_.batches, write);
    if (write && overlaps_itself(all))
      return refuse(CUBLAS_STATUS_INVALID_VALUE, kName, "matrices of %s's batch overlap", name);
    add_merged(all, accesses_);
    return CUBLAS_STATUS_SUCCESS;
  }

  // D may be C, in the same layout, and nothing else.
  cublasStatus_t aliasing() {
    const Extent d = extent_of(out_.d, p_.m, p_.n, out_.batches);
    const auto clash = [&](const char* name, Extent e) {
      return refuse(CUBLAS_STATUS_INVALID_VALUE, kName,
                    "D, %lu bytes at %#lx, overlaps %s, %lu at %#lx", d.bytes, d.begin, name,
                    e.bytes, e.begin);
    };
    const bool holes =
        d.bytes != u64(p_.m) * u64(p_.n) * u64(out_.batches) * element_bytes(out_.d.type);
    const Extent a = extent_of(out_.a, p_.m, p_.k, out_.batches);
    const Extent b = extent_of(out_.b, p_.k, p_.n, out_.batches);
    if (out_.epilogue & CUBLASLT_EPILOGUE_BGRADB) {
      const Extent sums = extent_of(out_.bias, p_.n, 1, 1);
      if (meet(sums, a) || meet(sums, b) || (!holes && meet(sums, d)))
        return refuse(CUBLAS_STATUS_INVALID_VALUE, kName, "the bias gradient overlaps A, B or D");
    }
    if (uses_aux(out_.epilogue) && !holes) {
      const Extent aux = extent_of(out_.aux, p_.m, p_.n, out_.batches);
      if (meet(d, aux)) return clash("aux", aux);
    }
    // With holes in D the others may lie in them: columns of one buffer, say.
    if (!holes && meet(d, a)) return clash("A", a);
    if (!holes && meet(d, b)) return clash("B", b);
    if (out_.reads_c && out_.c.at == out_.d.at) {
      const Matrix &c = out_.c, &o = out_.d;
      if (c.row != o.row || c.column != o.column || c.batch != o.batch)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, kName, "C is D, but their layouts differ");
    } else if (out_.reads_c && !holes) {
      const Extent c = extent_of(out_.c, p_.m, p_.n, out_.batches);
      if (meet(d, c)) return clash("C", c);
    }
    return CUBLAS_STATUS_SUCCESS;
  }

  const Problem& p_;
  Product out_;
  std::vector<EmuAccess> accesses_;
};

cublasStatus_t check_handle(const char* call, cublasLtHandle_t h) {
  if (!valid(h)) return refuse(CUBLAS_STATUS_NOT_INITIALIZED, call, "no handle");
  int device = -1;
  if (cudaGetDevice(&device) != cudaSuccess || device != h->device)
    return refuse(CUBLAS_STATUS_ARCH_MISMATCH, call,
                  "the handle was made for device %d, the current one is %d", h->device, device);
  return CUBLAS_STATUS_SUCCESS;
}

bool asked_for(const char* answer) {
  const char* text = std::getenv("WT_EMU_HEURISTIC");
  return text && !std::strcmp(text, answer);
}

}  // namespace
}  // namespace emu::blas

using namespace emu;
using namespace emu::blas;

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  int device = -1;
  if (!handle) return refuse(CUBLAS_STATUS_INVALID_VALUE, "cublasLtCreate", "null");
  if (cudaGetDevice(&device) != cudaSuccess)
    return refuse(CUBLAS_STATUS_NOT_INITIALIZED, "cublasLtCreate", "no device");
  *handle = new cublasLtContext{kHandleMagic, device};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  if (!valid(handle)) return refuse(CUBLAS_STATUS_NOT_INITIALIZED, "cublasLtDestroy", "no handle");
  handle->magic = 0;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* count) {
  static const char* const call = "cublasLtMatmulAlgoGetHeuristic";
  if (const auto s = check_handle(call, handle)) return s;
  if (wanted <= 0 || !results || !count)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, call, "%d results wanted", wanted);
  *count = 0;
  const Wish* wish = wish_of(preference);
  if (!wish) return refuse(CUBLAS_STATUS_INVALID_VALUE, call, "no preference");
  Problem p;
  if (const auto s = read_problem(call, desc, a, b, c, d, &p)) return s;
  if (wish->search != CUBLASLT_SEARCH_BEST_FIT || asked_for("status"))
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, call, "search mode %u", wish->search);
  Algo algo;
  if (!choose(p, wish->alignment, 1, &algo) || asked_for("none")) {
    refuse(CUBLAS_STATUS_NOT_SUPPORTED, call, "no algorithm for the promised alignments");
    return CUBLAS_STATUS_SUCCESS;
  }
  const i32 most = splits_for(p, wish->workspace, wish->reductions);
  for (i32 splits = most; splits >= 1 && *count < wanted; --splits) {
    cublasLtMatmulHeuristicResult_t& r = results[(*count)++];
    std::memset(&r, 0, sizeof r);
    algo.splits = splits;
    std::memcpy(&r.algo, &algo, sizeof algo);
    r.workspaceSize = split_bytes(p.m, p.n, p.desc->compute, splits);
    r.wavesCount = 1;
    r.state = asked_for("state") ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
    if (r.state != CUBLAS_STATUS_SUCCESS) std::memset(&r.algo, 0, sizeof r.algo);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algo,
                                       cublasLtMatmulHeuristicResult_t* result) {
  static const char* const call = "cublasLtMatmulAlgoCheck";
  if (const auto s = check_handle(call, handle)) return s;
  Problem p;
  if (const auto s = read_problem(call, desc, a, b, c, d, &p)) return s;
  const Algo* chosen = algo ? algo_of(algo) : nullptr;
  if (!chosen || !result || !fits(*chosen, p))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, call, "the algorithm is for another problem");
  result->workspaceSize = split_bytes(p.m, p.n, p.desc->compute, chosen->splits);
  result->state = CUBLAS_STATUS_SUCCESS;
  result->wavesCount = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* A, cublasLtMatrixLayout_t a, const void* B,
                              cublasLtMatrixLayout_t b, const void* beta, const void* C,
                              cublasLtMatrixLayout_t c, void* D, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t* algo, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  if (const auto s = check_handle(Call::kName, handle)) return s;
  Problem p;
  if (const auto s = read_problem(Call::kName, desc, a, b, c, d, &p)) return s;
  Algo own;
  const Algo* chosen = algo ? algo_of(algo) : &own;
  if (!algo) {  // the library then asks its heuristics itself, for what it sees
    const u32 seen[4] = {
        alignment_of(reinterpret_cast<u64>(A)), alignment_of(reinterpret_cast<u64>(B)),
        alignment_of(reinterpret_cast<u64>(C)), alignment_of(reinterpret_cast<u64>(D))};
    if (!choose(p, seen, splits_for(p, workspace_bytes, CUBLASLT_REDUCTION_SCHEME_MASK), &own))
      return refuse(CUBLAS_STATUS_NOT_SUPPORTED, Call::kName, "no algorithm");
  } else if (!chosen || !fits(*chosen, p)) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, Call::kName,
                  "the algorithm is none, or for another problem");
  }
  Call call(p);
  if (const auto s = call.factors(alpha, beta)) return s;
  if (const auto s = call.operands(*chosen, A, B, C, D)) return s;
  if (const auto s = call.workspace(*chosen, workspace, workspace_bytes)) return s;
  return call.enqueue(stream);
}

}  // extern "C"
