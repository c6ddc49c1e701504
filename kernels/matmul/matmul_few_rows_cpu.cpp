// Matrix products of at most four rows on the cpu: a model that writes one token at a time. Such a
// product takes as long as b takes to come from memory, so b is read once, where it lies and in the
// order in which it lies, and nothing of it is packed; 16-bit floats are widened in registers. Each
// result is added up in one order, whatever the number of threads.
#include <algorithm>

#include "warptape/core/device.h"
#include "warptape/core/half.h"
#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/cpu/few_rows.h"
#include "warptape/kernels/cpu/half_rows.h"
#include "warptape/kernels/cpu/threads.h"
#include "warptape/kernels/matmul/matmul_cpu.h"

#define WT_ISA_BODY "warptape/kernels/matmul/matmul_few_rows_cpu.inc"
#include "warptape/kernels/cpu/vector_isa.inc"

namespace wt {
namespace {

constexpr i64 kMostColumns = 2048;  // at a time: their sums stay in the first-level cache

template <class T>
constexpr FewRowsKernels<T> kKernels[3] = {baseline::few_rows<T>(), avx2::few_rows<T>(),
                                           avx512::few_rows<T>()};

// Whether b's rows are contiguous; else its columns are.
bool has_rows(const MatmulArgs& g) { return g.b_column == 1; }

template <class T>
constexpr bool kIsHalf = !std::is_same_v<T, ComputeType<T>>;

// a with rows that are contiguous, as dot products want them, in the type of the sums.
template <class T>
void copy_a(const MatmulArgs& g, ComputeType<T>* to) {
  const T* from = static_cast<const T*>(g.a);
  for (i64 i = 0; i < g.m; ++i)
    for (i64 p = 0; p < g.k; ++p)
      to[i * g.k + p] = ComputeType<T>(from[i * g.a_row + p * g.a_column]);
}
bool needs_copy(const MatmulArgs& g) {
  return is_half(g.dtype) || (!has_rows(g) && g.a_column != 1);
}

// A kernel's work on columns from j on: sums in place, or those of 16-bit floats beside it and
// rounded once.
template <class T, class Kernel>
void columns_at(const MatmulArgs& g, FewRows<T> part, i64 j, Kernel kernel) {
  T* const out = static_cast<T*>(g.out) + j;
  const T* const bias = g.bias ? static_cast<const T*>(g.bias) + j : nullptr;
  if constexpr (!kIsHalf<T>) {
    part.out = out, part.out_row = g.out_row;
    part.bias = bias, part.add = g.accumulate;
    kernel(part);
  } else {
    alignas(64) float sums[kMostFewRows * kMostColumns], line[kMostColumns];
    part.out = sums, part.out_row = kMostColumns;
    if (bias) detail::convert_row(line, bias, part.columns), part.bias = line;
    kernel(part);
    for (i64 r = 0; r < g.m; ++r) {
      float* const row = sums + r * kMostColumns;
      if (g.accumulate) {
        detail::convert_row(line, out + r * g.out_row, part.columns);
        for (i64 i = 0; i < part.columns; ++i) row[i] += line[i];
      }
      detail::convert_row(out + r * g.out_row, row, part.columns);
    }
  }
}

// row_sum of 16-bit floats from their copies.
template <class T>
void half_row_sums(const MatmulArgs& g, const float* a) {
  T* const out = static_cast<T*>(g.row_sum);
  float sums[kMostFewRows];
  MatmulArgs wide = g;
  wide.dtype = DType::f32;
  wide.a = a, wide.a_row = g.k, wide.a_column = 1;
  wide.row_sum = sums, wide.row_sum_accumulate = false;
  matmul_row_sum(wide);
  for (i64 i = 0; i < g.m; ++i)
    out[i] = T(g.row_sum_accumulate ? sums[i] + float(out[i]) : sums[i]);
}

template <class T>
void product(const MatmulArgs& g, void* workspace) {
  using S = ComputeType<T>;
  constexpr i64 kBytesAThread = 128 << 10;  // of b that are worth waking a thread
  constexpr i64 kLine = 64 / i64(sizeof(T));
  FewRows<T> all{static_cast<const S*>(g.a),
                 g.a_row,
                 g.a_column,
                 static_cast<const T*>(g.b),
                 g.b_row,
                 g.b_column,
                 nullptr,
                 0,
                 nullptr,
                 g.n,
                 g.k,
                 false};
  if (needs_copy(g)) {
    copy_a<T>(g, static_cast<S*>(workspace));
    all.a = static_cast<S*>(workspace), all.a_row = g.k, all.a_column = 1;
  }
  const FewRowsKernels<T>& kernels = few_rows_kernels<T>();
  const auto kernel = (has_rows(g) ? kernels.add_rows : kernels.dot_columns)[g.m - 1];
  const i64 bytes = g.n * g.k * i64(sizeof(T));
  const int threads = int(std::min<i64>(num_threads(), bytes / kBytesAThread + 1));
  const i64 each = std::min(kMostColumns, (g.n + threads - 1) / threads);
  const i64 columns = (each + kLine - 1) / kLine * kLine;
  parallel(threads, int((g.n + columns - 1) / columns), [&](int piece, int) {
    const i64 j = piece * columns;
    FewRows<T> part = all;
    part.b += j * g.b_column;
    part.columns = std::min(columns, g.n - j);
    columns_at(g, part, j, kernel);
  });
  if constexpr (kIsHalf<T>)
    if (g.row_sum) half_row_sums<T>(g, static_cast<const float*>(workspace));
}

}  // namespace

template <class T>
const FewRowsKernels<T>& few_rows_kernels() {
  return kKernels<T>[cpu_isa()];
}
template const FewRowsKernels<float>& few_rows_kernels();
template const FewRowsKernels<double>& few_rows_kernels();
template const FewRowsKernels<Half>& few_rows_kernels();
template const FewRowsKernels<BFloat16>& few_rows_kernels();

const char* matmul_few_rows_why_not(const MatmulArgs& g) {
  if (!is_floating(g.dtype)) return "takes floating dtypes only";
  return g.m <= kMostFewRows ? nullptr : "takes at most four rows";
}

i64 matmul_few_rows_workspace(const MatmulArgs& g) {
  if (!needs_copy(g)) return 0;
  return g.m * g.k * (is_half(g.dtype) ? 4 : item_size(g.dtype));
}

void matmul_few_rows(const MatmulArgs& g, const Launch& l) {
  const i64 batches = g.m > 0 && g.n > 0 ? g.batches() : 0;
  dispatch_floating(g.dtype, [&]<class T>() {
    for (i64 i = 0; i < batches; ++i) product<T>(matmul_at(g, i), l.workspace);
  });
  if (g.row_sum && !is_half(g.dtype)) matmul_row_sum(g);
}

}  // namespace wt
