// The arithmetic of the stand-in for cuBLASLt: D = epilogue(alpha * op(A) * op(B) + beta * C).
#pragma once
#include "api/cublaslt_types.h"

namespace emu::blas {

// A matrix in memory; element (i, j) of batch z lies at z * batch + i * row + j * column.
struct Matrix {
  u64 at = 0;  // as the program knows it
  u32 type = 0;
  i64 row = 0, column = 0, batch = 0;  // in elements
};

enum class Rounding : u8 { none, tf32, f16, bf16 };  // of f32 operands before they are multiplied

struct Product {
  i64 m = 0, n = 0, k = 0, batches = 1;
  Matrix a, b, c, d;  // a: op(A), [m, k]; b: op(B), [k, n]
  i32 compute = 0, scale = 0;
  Rounding rounding = Rounding::none;
  // As `scale` stores them, or their addresses in device memory.
  bool factors_on_device = false;
  u64 alpha = 0, beta = 0;
  bool reads_c = false;  // beta is not zero, or not known yet
  u32 epilogue = 0;
  Matrix bias;  // [m]; of BGRADB the sums of op(B) over k, [n], which are written
  Matrix aux;   // [m, n]: what GELU_AUX writes and DGELU reads
  i32 splits = 1;
  u64 workspace = 0, workspace_bytes = 0;  // of partial sums
};

inline bool uses_aux(u32 epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
         epilogue == CUBLASLT_EPILOGUE_DGELU;
}

// Bytes of workspace that `splits` parts of k need.
u64 split_bytes(i64 m, i64 n, i32 compute, i32 splits);

// Runs it now. Memory is asked for again, since it may have been freed after the call; false when
// some of it is gone.
bool run_product(const Product& p);

// The bytes that a matrix of `rows` x `columns` covers, from its lowest element to its highest.
struct Extent {
  u64 begin = 0, bytes = 0;
};
Extent extent_of(const Matrix& x, i64 rows, i64 columns, i64 batches);

}  // namespace emu::blas
