// Matrix products of at most four rows on the cpu, f32 and f64: a model that writes one token at a
// time. Such a product takes as long as b takes to come from memory, so b is read once, where it
// lies and in the order in which it lies, and nothing of it is packed. Each result is added up in
// one order, whatever the number of threads.
#include <algorithm>

#include "warptape/core/device.h"
#include "warptape/kernels/cpu/threads.h"
#include "warptape/kernels/matmul/matmul_cpu.h"

namespace wt {
namespace {

constexpr int kMostRows = 4;

// Some columns of a product. Either b_column or, in dot products, b's stride along p is 1.
template <class T>
struct FewRows {
  const T* a;
  i64 a_row, a_column;  // in dot products a_column is 1
  const T* b;
  i64 b_row, b_column;
  T* out;
  i64 out_row;
  const T* bias;
  i64 columns, depth;
  bool add;  // to what out holds
};
template <class T>
struct FewRowsKernels {
  using Kernel = void (*)(const FewRows<T>&);
  Kernel add_rows[kMostRows], dot_columns[kMostRows];  // by rows, from 1 on
};

}  // namespace
}  // namespace wt

#define WT_ISA_BODY "warptape/kernels/matmul/matmul_few_rows_cpu.inc"
#include "warptape/kernels/cpu/vector_isa.inc"

namespace wt {
namespace {

template <class T>
constexpr FewRowsKernels<T> kKernels[3] = {
    baseline::few_rows_kernels<T>(), avx2::few_rows_kernels<T>(), avx512::few_rows_kernels<T>()};

// Whether b's rows are contiguous; else its columns are.
bool has_rows(const MatmulArgs& g) { return g.b_column == 1; }

// a with rows that are contiguous, as dot products want them.
template <class T>
void copy_a(const MatmulArgs& g, T* to) {
  const T* from = static_cast<const T*>(g.a);
  for (i64 i = 0; i < g.m; ++i)
    for (i64 p = 0; p < g.k; ++p) to[i * g.k + p] = from[i * g.a_row + p * g.a_column];
}

template <class T>
void product(const MatmulArgs& g, T* workspace) {
  constexpr i64 kBytesAThread = 128 << 10;  // of b that are worth waking a thread
  constexpr i64 kMostColumns = 2048, kLine = 64 / i64(sizeof(T));
  FewRows<T> all{static_cast<const T*>(g.a),
                 g.a_row,
                 g.a_column,
                 static_cast<const T*>(g.b),
                 g.b_row,
                 g.b_column,
                 static_cast<T*>(g.out),
                 g.out_row,
                 static_cast<const T*>(g.bias),
                 g.n,
                 g.k,
                 g.accumulate};
  if (!has_rows(g) && g.a_column != 1) {
    copy_a(g, workspace);
    all.a = workspace, all.a_row = g.k, all.a_column = 1;
  }
  const FewRowsKernels<T>& kernels = kKernels<T>[cpu_isa()];
  const auto kernel = (has_rows(g) ? kernels.add_rows : kernels.dot_columns)[g.m - 1];
  const i64 bytes = g.n * g.k * i64(sizeof(T));
  const int threads = int(std::min<i64>(num_threads(), bytes / kBytesAThread + 1));
  const i64 each = std::min(kMostColumns, (g.n + threads - 1) / threads);
  const i64 columns = (each + kLine - 1) / kLine * kLine;
  parallel(threads, int((g.n + columns - 1) / columns), [&](int piece, int) {
    const i64 j = piece * columns;
    FewRows<T> part = all;
    part.b += j * g.b_column;
    part.out += j;
    if (part.bias) part.bias += j;
    part.columns = std::min(columns, g.n - j);
    kernel(part);
  });
}

}  // namespace

const char* matmul_few_rows_why_not(const MatmulArgs& g) {
  if (g.dtype != DType::f32 && g.dtype != DType::f64) return "takes f32 and f64 only";
  return g.m <= kMostRows ? nullptr : "takes at most four rows";
}

i64 matmul_few_rows_workspace(const MatmulArgs& g) {
  return has_rows(g) || g.a_column == 1 ? 0 : g.m * g.k * item_size(g.dtype);
}

void matmul_few_rows(const MatmulArgs& g, const Launch& l) {
  const i64 batches = g.m > 0 && g.n > 0 ? g.batches() : 0;
  for (i64 i = 0; i < batches; ++i) {
    const MatmulArgs one = matmul_at(g, i);
    g.dtype == DType::f32 ? product(one, static_cast<float*>(l.workspace))
                          : product(one, static_cast<double*>(l.workspace));
  }
  if (g.row_sum) matmul_row_sum(g);
}

}  // namespace wt
