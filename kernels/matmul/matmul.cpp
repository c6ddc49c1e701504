// Matrix product on the cpu: the reference and the list of variants. matmul/matmul_vector_cpu.cpp
// has the kernel for small products, matmul/matmul_few_rows_cpu.cpp the one for few rows,
// matmul/matmul_packed_cpu.cpp the one for large ones, matmul/matmul_widened_cpu.cpp the one for
// 16-bit floats, matmul/matmul_blas_cpu.cpp OpenBLAS.
#include "warptape/kernels/matmul.h"

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/common/slow_reference.h"
#include "warptape/kernels/dispatch/run_matmul_epilogue.h"
#include "warptape/kernels/matmul/matmul_cpu.h"

namespace wt {

namespace {

// What products of T are summed in: as ComputeType, but integers unsigned, so that they wrap.
template <class T, bool = std::is_integral_v<T>>
struct MatmulSum {
  using type = ComputeType<T>;
};
template <class T>
struct MatmulSum<T, true> {
  using type = std::make_unsigned_t<T>;
};

template <class T>
void product(const MatmulArgs& g) {
  using Sum = typename MatmulSum<T>::type;
  T* out = static_cast<T*>(g.out);
  const T* a = static_cast<const T*>(g.a);
  const T* b = static_cast<const T*>(g.b);
  const T* bias = static_cast<const T*>(g.bias);
  for (i64 i = 0; i < g.m; ++i) {
    for (i64 j = 0; j < g.n; ++j) {
      Sum sum = 0;
      for (i64 p = 0; p < g.k; ++p)
        sum += Sum(a[i * g.a_row + p * g.a_column]) * Sum(b[p * g.b_row + j * g.b_column]);
      if (bias) sum += Sum(bias[j]);
      if (g.accumulate) sum += Sum(out[i * g.out_row + j]);
      out[i * g.out_row + j] = T(sum);
    }
  }
  if (T* row_sum = static_cast<T*>(g.row_sum)) {
    for (i64 i = 0; i < g.m; ++i) {
      Sum sum = 0;
      for (i64 p = 0; p < g.k; ++p) sum += Sum(a[i * g.a_row + p * g.a_column]);
      if (g.row_sum_accumulate) sum += Sum(row_sum[i]);
      row_sum[i] = T(sum);
    }
  }
}

void matmul_reference(const MatmulArgs& g, const Launch&) {
  const i64 batches = g.batches();
  for (i64 i = 0; i < batches; ++i) {
    const MatmulArgs one = matmul_at(g, i);
    if (g.dtype == DType::i64)
      product<i64>(one);
    else if (g.dtype == DType::i32)
      product<i32>(one);
    else
      dispatch_floating(g.dtype, [&]<class T>() { product<T>(one); });
  }
}

const char* reference_why_not(const MatmulArgs& g) {
  switch (g.dtype) {
    case DType::f64:
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::i64:
    case DType::i32:
      return nullptr;
    default:
      return "takes f64, f32, f16, bf16, i64 and i32 only";
  }
}

}  // namespace

WT_VARIANTS(cpu, matmul, MatmulArgs,
            {.name = "tiny",
             .rank = 50,
             .why_not = matmul_tiny_why_not,
             .rank_of = matmul_tiny_rank,
             .launch = with_epilogue<matmul_tiny>},
            {.name = "few_rows",
             .rank = 45,
             .why_not = matmul_few_rows_why_not,
             .workspace = matmul_few_rows_workspace,
             .launch = with_epilogue<matmul_few_rows>},
            {.name = "packed",
             .rank = 40,
             .why_not = matmul_packed_why_not,
             .rank_of = matmul_packed_rank,
             .workspace = matmul_packed_workspace,
             .launch = with_epilogue<matmul_packed>},
            {.name = "widened",
             .rank = 30,
             .why_not = matmul_widened_why_not,
             .workspace = matmul_widened_workspace,
             .launch = with_epilogue<matmul_widened>},
            {.name = "blas",
             .rank = 20,
             .why_not = matmul_blas_why_not,
             .launch = with_epilogue<matmul_blas>,
             .deterministic = false},  // how it cuts a product depends on the number of threads
            {.name = "reference",
             .rank = 1,
             .why_not = reference_why_not,
             .launch = told_if_slow<with_epilogue<matmul_reference>>});

}  // namespace wt
