// Every differentiable function: the library's table of contents. Each family has one block; the
// operators are defined in autograd/ops_<family>.cpp beside their backward.
#pragma once
#include <span>
#include <vector>

#include "warptape/core/in.h"
#include "warptape/core/operators.h"
#include "warptape/kernels/pointwise.h"

namespace wt {

struct Backward;

// --- pointwise: kernels/pointwise.h has the list, formulas and derivatives ----------------------
// Operands broadcast. Types promote as in PyTorch: 0-d tensors and numbers change the dtype only
// when their category (bool, integer, float) is higher. Integers wrap; bool + is or, bool * is and.
// The storage-only dtypes are refused (DtypeError). Also as a + b, a - b, a * b, a / b, -x.
//
// One operand; integers are converted to the default dtype, but for those marked *:
//   abs* cos erf exp gelu gelu_tanh log neg* reciprocal relu* rsqrt sigmoid sign* silu sin sqrt
//   square* tanh
// Two operands, of which one may be a number; div (of integers too) gives floats:
//   add div maximum minimum mul pow sub
// To bool, without gradient:
//   eq ne lt le gt ge logical_and logical_or    logical_not isfinite isnan
#define WT_DECLARE_UNARY(M, name, Entry) WT_API Tensor name(const In& x);
#define WT_DECLARE_BINARY(M, name, Entry) WT_API Tensor name(const Operand& a, const Operand& b);
WT_POINTWISE_UNARY(WT_DECLARE_UNARY, )
WT_POINTWISE_UNARY_PLAIN(WT_DECLARE_UNARY, )
WT_POINTWISE_BINARY(WT_DECLARE_BINARY, )
WT_POINTWISE_BINARY_PLAIN(WT_DECLARE_BINARY, )
#undef WT_DECLARE_UNARY
#undef WT_DECLARE_BINARY
// min(max(x, lo), hi). An integer tensor with a floating bound becomes the default dtype.
WT_API Tensor clamp(const In& x, Scalar lo, Scalar hi);
// c ? a : b; c is bool, a and b promote. Throws DtypeError for another c.
WT_API Tensor where(const In& c, const Operand& a, const Operand& b);

// --- shape: views (no copy) ----------------------------------------------------------------------
// The same elements under another shape; one size may be -1. Throws ShapeError when the strides do
// not allow it (use reshape).
WT_API Tensor view(const In& x, const Shape& shape);
// view where possible, else a contiguous copy.
WT_API Tensor reshape(const In& x, const Shape& shape);
// Axes first..last merged into one, in logical order.
WT_API Tensor flatten(const In& x, i64 first = 0, i64 last = -1);
WT_API Tensor transpose(const In& x, i64 a, i64 b);
// Axis i of the result is axis order[i] of x.
WT_API Tensor permute(const In& x, const Dims& order);
// Size-1 axes repeated without copying (stride 0); -1 keeps a size; new leading axes are allowed.
WT_API Tensor expand(const In& x, const Shape& shape);
WT_API Tensor squeeze(const In& x);
WT_API Tensor squeeze(const In& x, i64 axis);
WT_API Tensor unsqueeze(const In& x, i64 axis);
// x[..., index, ...] of one axis, which disappears. Throws IndexError.
WT_API Tensor select(const In& x, i64 axis, i64 index);
WT_API Tensor slice(const In& x, i64 axis, Slice range);
// Pieces of `size` along an axis (the last may be smaller), as views.
WT_API std::vector<Tensor> split(const In& x, i64 size, i64 axis = 0);
// The same elements without gradient.
WT_API Tensor detach(const In& x);

// --- shape: copies -------------------------------------------------------------------------------
// Itself when it already has the format, else a copy.
WT_API Tensor contiguous(const In& x, MemoryFormat format = MemoryFormat::contiguous);
WT_API Tensor clone(const In& x);
WT_API Tensor cat(std::span<const Tensor> parts, i64 axis = 0, Frame at = Frame::here());
WT_API Tensor stack(std::span<const Tensor> parts, i64 axis = 0, Frame at = Frame::here());
inline Tensor cat(std::initializer_list<Tensor> parts, i64 axis = 0, Frame at = Frame::here()) {
  return cat(std::span(parts.begin(), parts.size()), axis, at);
}
inline Tensor stack(std::initializer_list<Tensor> parts, i64 axis = 0, Frame at = Frame::here()) {
  return stack(std::span(parts.begin(), parts.size()), axis, at);
}
// The same values as another dtype or on another device; itself when nothing changes. The gradient
// comes back as the original's dtype and device.
WT_API Tensor to_dtype(const In& x, DType t);
WT_API Tensor to_device(const In& x, Device d);
// Zeros of `shape` with x written at range of an axis: the gradient of slice.
WT_API Tensor slice_backward(const In& x, const Shape& shape, i64 axis, Slice range);

// --- reductions ----------------------------------------------------------------------------------
// Over the given axes (all when omitted, none for {}), which disappear unless keep_dim. Computing
// dtypes. 16-bit floats accumulate in f32; the order of the additions is fixed. Throw ShapeError
// for bad axes, DtypeError for storage-only dtypes.
//
// Integers and bool give i64. The sum of nothing is 0.
WT_API Tensor sum(const In& x, const Dims& dims = Dims::all(), SumOptions options = {});
// sum / number of elements; floating dtypes only (DtypeError). The mean of nothing is NaN.
WT_API Tensor mean(const In& x, const Dims& dims = Dims::all(), SumOptions options = {});
// The largest element: NaN if there is one. Elements that share it share its gradient evenly. Throws
// ShapeError when there is no element.
WT_API Tensor max(const In& x, const Dims& dims = Dims::all(), SumOptions options = {});
// The place (i64) of the largest element along one axis, or in the flattened tensor: the first of
// equal ones, the first NaN if there is one. No gradient. Throws ShapeError when there is no
// element.
WT_API Tensor argmax(const In& x, const Dims& dims = Dims::all(), SumOptions options = {});
// Reverse of broadcasting: x summed over the axes along which `shape` was repeated; x itself when
// the shapes agree.
WT_API Tensor sum_to(const In& x, const Shape& shape);

// --- matrix products -----------------------------------------------------------------------------
// a [.., m, k] times b [.., k, n] gives [.., m, n]; the batch dimensions broadcast. A 1-d operand
// is a row (a) or a column (b) and its dimension is dropped from the result, as in PyTorch. One
// dtype, f64, f32, f16, bf16 (both summed in f32), i64 or i32; k = 0 gives zeros. A transposed or
// sliced matrix is not copied. Throws ShapeError and DtypeError.
WT_API Tensor matmul(const In& a, const In& b);
// y = x w^T + bias: x [.., in], w [out, in], bias [out], y [.., out]. One kernel each for y, for dx
// and for dw with dbias.
WT_API Tensor linear(const In& x, const In& w);
WT_API Tensor linear(const In& x, const In& w, const In& bias);

// --- softmax and losses --------------------------------------------------------------------------

// --- indexing ------------------------------------------------------------------------------------

namespace detail {
// One more reference to p, for making a handle of it.
inline TensorImpl* retained(TensorImpl* p) {
  retain(p);
  return p;
}
// Behind Backward::put_broadcast: hands over t, summed to the shape of input i; a leaf's slot is
// written directly.
void put_sum_to(Backward& g, u32 i, Tensor t);
}  // namespace detail

}  // namespace wt
