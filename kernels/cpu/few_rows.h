// Products of at most four rows by a matrix that is read once, where it lies
// (matmul/matmul_few_rows_cpu.cpp), which attention of few queries runs on too.
#pragma once
#include "warptape/core/types.h"
#include "warptape/kernels/common/dtypes.h"

namespace wt {

inline constexpr int kMostFewRows = 4;

// Some columns of a product. Either b_column or, in dot products, b's stride along p is 1.
template <class T>
struct FewRows {
  using S = ComputeType<T>;
  const S* a;
  i64 a_row, a_column;  // in dot products a_column is 1
  const T* b;
  i64 b_row, b_column;
  S* out;
  i64 out_row;
  const S* bias;
  i64 columns, depth;
  bool add;  // to what out holds
};
template <class T>
struct FewRowsKernels {
  using Kernel = void (*)(const FewRows<T>&);
  Kernel add_rows[kMostFewRows], dot_columns[kMostFewRows];  // by rows, from 1 on
};
// For the instruction set in use: float, double, Half, BFloat16.
template <class T>
const FewRowsKernels<T>& few_rows_kernels();

}  // namespace wt
