// Contract of the matrix product.
//
//   z[.., i, j]   = sum_p a[.., i, p] * b[.., p, j]  (+ bias[j])  (+ residual[.., i, j])
//   out[.., i, j] = z                                (+ out[.., i, j])
//                   or f(z), aux = z                 forward of an activation f
//                   or z * f'(aux)                   its gradient
//   row_sum[i]    = sum_p a[i, p]                    (+ row_sum[i])
//
// Shapes: a [.., m, k], b [.., k, n], out [.., m, n]; the batch dimensions are equal after
// broadcasting (stride 0). k = 0 gives zeros. One dtype for all: f64, f32, f16, bf16 (16-bit
// storage accumulates in f32), i64, i32 (wrap around). out may not overlap an operand. Nothing is
// saved.
//
// Layout: out has unit stride along its columns. a and b have unit stride along rows or along
// columns, and the other stride is at least the extent of the unit one, so a transposed or sliced
// matrix is only a pair of strides.
//
// `row_sum` rides along where a = dy^T: the gradients of a linear layer's weight and bias then read
// dy once. Only without a batch, and with n > 0.
//
// An epilogue is for floating types and comes without `accumulate`. residual and aux have out's
// shape and strides; variants may round z to the dtype before the activation, as an operator after
// the product would.
#pragma once
#include "warptape/core/activation.h"
#include "warptape/kernels/contract.h"

namespace wt {

struct MatmulEpilogue {
  Activation activation = Activation::none;
  // False: out = f(z), and z is left in aux, unless that is null. True: out = z * f'(x), where aux
  // holds what f' is told from: relu's result, of the others the x that they were applied to.
  bool gradient = false;
  const void* residual = nullptr;
  void* aux = nullptr;  // only beside an activation
  WT_HD explicit operator bool() const { return activation != Activation::none || residual; }
};

struct MatmulArgs {
  void* out = nullptr;
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;  // [n], or null
  void* row_sum = nullptr;     // [m], or null
  i64 m = 0, n = 0, k = 0;
  i64 out_row = 0;  // strides in elements
  i64 a_row = 0, a_column = 1;
  i64 b_row = 0, b_column = 1;
  DType dtype = DType::f32;
  bool accumulate = false;          // add to what out holds; else its old contents are never read
  bool row_sum_accumulate = false;  // the same for row_sum
  MatmulEpilogue epilogue{};
  u8 batch_ndim = 0;
  struct Batch {
    i64 size, out, a, b;  // of one batch dimension: its size, and the strides of the three
  };
  Batch batch[kMaxDims - 2];  // outermost first; only the first batch_ndim are set

  // The slices of vmap() as batch dimensions (kernels/dispatch/run_slices.h), where these are
  // enough to describe them.
  template <class Slices>
  bool add_slices(const Slices& s) {
    const int n = s.levels();
    if (batch_ndim + n > kMaxDims - 2 || row_sum || epilogue.residual || epilogue.aux) return false;
    for (int k = 0; k < n; ++k)
      if (s.step(bias, k) != 0) return false;
    for (int d = batch_ndim; d-- > 0;) batch[n + d] = batch[d];
    const i64 item = item_size(dtype);
    for (int k = 0; k < n; ++k)
      batch[k] = {s.count(k), s.step(out, k) / item, s.step(a, k) / item, s.step(b, k) / item};
    batch_ndim = u8(batch_ndim + n);
    return true;
  }

  // For the check that kernels get device memory only.
  template <class F>
  void visit_pointers(F&& f) const {
    f(out);
    f(a);
    f(b);
    f(bias);
    f(row_sum);
    f(epilogue.residual);
    f(epilogue.aux);
  }
  WT_HOT
  i64 batches() const {
    i64 count = 1;
    for (int d = 0; d < batch_ndim; ++d) count *= batch[d].size;
    return count;
  }
  // Compulsory traffic: each operand once, a broadcast one once.
  i64 bytes() const {
    i64 in_a = m * k, in_b = k * n, written = m * n * (accumulate ? 2 : 1);
    for (int d = 0; d < batch_ndim; ++d) {
      if (batch[d].a != 0) in_a *= batch[d].size;
      if (batch[d].b != 0) in_b *= batch[d].size;
      written *= batch[d].size;
    }
    if (epilogue.residual || epilogue.aux)
      written += m * n * batches() * ((epilogue.residual != nullptr) + (epilogue.aux != nullptr));
    const i64 sums = row_sum ? m * (row_sum_accumulate ? 2 : 1) : 0;
    return item_size(dtype) * (in_a + in_b + written + (bias ? n : 0) + sums);
  }
  // A multiplication and an addition count as two.
  double flops() const {
    const double adds = row_sum ? double(m) * double(k) : 0;
    return 2.0 * double(batches()) * double(m) * double(n) * double(k) + adds;
  }
};

WT_CONTRACT(matmul, MatmulArgs);

// The matrices of batch `index`, counted in C order over the batch dimensions, as a product of its
// own. Elements are `item` bytes.
WT_HOT
MatmulArgs matmul_at(const MatmulArgs& all, i64 index) {
  MatmulArgs one = all;
  i64 out = 0, a = 0, b = 0;
  for (int d = all.batch_ndim; d-- > 0;) {
    const i64 i = index % all.batch[d].size;
    index /= all.batch[d].size;
    out += i * all.batch[d].out;
    a += i * all.batch[d].a;
    b += i * all.batch[d].b;
  }
  const i64 item = item_size(all.dtype);
  one.out = static_cast<char*>(all.out) + out * item;
  one.a = static_cast<const char*>(all.a) + a * item;
  one.b = static_cast<const char*>(all.b) + b * item;
  MatmulEpilogue& e = one.epilogue;
  if (e.residual) e.residual = static_cast<const char*>(e.residual) + out * item;
  if (e.aux) e.aux = static_cast<char*>(e.aux) + out * item;
  one.batch_ndim = 0;
  return one;
}

}  // namespace wt
