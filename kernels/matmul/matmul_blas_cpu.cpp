// Matrix products through OpenBLAS.
#include <algorithm>
#include <climits>
#include <string_view>

#include "warptape/config.h"
#include "warptape/core/device.h"
#include "warptape/kernels/cpu/isa.h"
#include "warptape/kernels/matmul/matmul_cpu.h"
#if WARPTAPE_HAS_OPENBLAS
#include <cblas.h>
#endif

namespace wt {

#if WARPTAPE_HAS_OPENBLAS

namespace {

// How BLAS is told of a matrix: transposed or not, and its leading dimension.
struct Operand {
  CBLAS_TRANSPOSE flag;
  int leading;
};
Operand operand(i64 row, i64 column, i64 rows, i64 columns) {
  if (column == 1 && (row >= columns || rows <= 1))
    return {CblasNoTrans, int(row > columns ? row : columns)};
  return {CblasTrans, int(column > rows ? column : rows)};
}

void gemm(const MatmulArgs& g, Operand a, Operand b, bool add, float* out) {
  cblas_sgemm(CblasRowMajor, a.flag, b.flag, int(g.m), int(g.n), int(g.k), 1,
              static_cast<const float*>(g.a), a.leading, static_cast<const float*>(g.b), b.leading,
              add ? 1 : 0, out, int(g.out_row));
}
void gemm(const MatmulArgs& g, Operand a, Operand b, bool add, double* out) {
  cblas_dgemm(CblasRowMajor, a.flag, b.flag, int(g.m), int(g.n), int(g.k), 1,
              static_cast<const double*>(g.a), a.leading, static_cast<const double*>(g.b),
              b.leading, add ? 1 : 0, out, int(g.out_row));
}

template <class T>
void product(const MatmulArgs& g) {
  T* out = static_cast<T*>(g.out);
  bool add = g.accumulate;
  if (g.bias || g.k == 0) {  // what the product is then added to
    const T* bias = static_cast<const T*>(g.bias);
    for (i64 i = 0; i < g.m; ++i)
      for (i64 j = 0; j < g.n; ++j) {
        T& to = out[i * g.out_row + j];
        to = (add ? to : T(0)) + (bias ? bias[j] : T(0));
      }
    add = true;
  }
  if (g.k > 0 && g.m > 0 && g.n > 0)
    gemm(g, operand(g.a_row, g.a_column, g.m, g.k), operand(g.b_row, g.b_column, g.k, g.n), add,
         out);
}

}  // namespace

const char* matmul_blas_why_not(const MatmulArgs& g) {
  if (g.dtype != DType::f32 && g.dtype != DType::f64) return "takes f32 and f64 only";
  for (i64 v : {g.m, g.n, g.k, g.out_row, g.a_row, g.a_column, g.b_row, g.b_column})
    if (v > INT_MAX) return "takes sizes and strides below 2^31 only";
  return nullptr;
}

const char* blas_core() { return openblas_get_corename(); }

bool blas_is_behind(std::string_view core, int isa) {
  static constexpr std::string_view kBeforeAvx2[] = {
      "Atom",         "Banias",  "Barcelona",  "Bobcat",   "Bulldozer",   "Coppermine", "Core2",
      "Dunnington",   "Generic", "Katmai",     "Nano",     "Nehalem",     "Northwood",  "Opteron",
      "Opteron_SSE3", "Penryn",  "Piledriver", "Prescott", "Sandybridge", "Athlon",     "Unknown"};
  const bool before =
      std::find(std::begin(kBeforeAvx2), std::end(kBeforeAvx2), core) != std::end(kBeforeAvx2);
  return (isa >= kAvx2 && before) || (isa >= kAvx512 && core == "Haswell");
}

bool blas_is_behind() {
  static const std::string_view core = blas_core();
  return blas_is_behind(core, cpu_isa());
}

void matmul_blas(const MatmulArgs& g, const Launch&) {
  // A global setting of OpenBLAS, and cheap to read.
  if (const int threads = num_threads(); openblas_get_num_threads() != threads)
    openblas_set_num_threads(threads);
  const i64 batches = g.batches();
  for (i64 i = 0; i < batches; ++i) {
    const MatmulArgs one = matmul_at(g, i);
    g.dtype == DType::f32 ? product<float>(one) : product<double>(one);
  }
  if (g.row_sum) matmul_row_sum(g);
}

#else

const char* blas_core() { return ""; }
bool blas_is_behind(std::string_view, int) { return false; }
bool blas_is_behind() { return false; }
const char* matmul_blas_why_not(const MatmulArgs&) { return "this build has no OpenBLAS"; }
void matmul_blas(const MatmulArgs&, const Launch&) {}

#endif

}  // namespace wt
