// Every differentiable function: the library's table of contents. Each family has one block; the
// operators are defined in autograd/ops_<family>.cpp beside their backward.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "warptape/autograd/loss.h"
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

// --- random --------------------------------------------------------------------------------------
// In training: zero with probability p, else x / (1 - p); the mask comes from the generator's
// dropout stream by logical element, the same bits on every device. Otherwise x itself. Throws
// UsageError unless 0 <= p <= 1.
WT_API Tensor dropout(const In& x, double p = 0.5, bool training = true);

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
// The largest element: NaN if there is one. Elements that share it share its gradient evenly.
// Throws ShapeError when there is no element.
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
// exp(x) / sum(exp(x)) along an axis (negative counts from the end), and its logarithm. x: any
// strides, f64 f32 f16 bf16 (16 bits compute in f32). Rows of only -inf give NaN, as in PyTorch.
// Throw ShapeError for the axis, DtypeError for other dtypes.
WT_API Tensor softmax(const In& x, Dim axis);
WT_API Tensor log_softmax(const In& x, Dim axis);
struct CrossEntropyOptions {
  i64 ignore_index = -100;
  double label_smoothing = 0;
};
// Cross-entropy of unnormalised logits [N, C], [N, C, d...] or [C] and i64 labels [N], [N, d...]
// or []. Samples whose label is ignore_index count neither in sum nor in weight. With smoothing e
// the target is (1 - e) at the label plus e / C everywhere. The sum is f32 (f64 for f64 logits),
// computed as a log-sum-exp; the mean over no sample is NaN. The backward writes over logits that
// nobody else holds: pass them as an rvalue. Throws ShapeError, DtypeError, UsageError (smoothing
// outside [0, 1]) and IndexError for a label outside [0, C): at once on the cpu, at the next wait
// on other devices.
WT_API Loss cross_entropy(const In& logits, const In& labels,
                          const CrossEntropyOptions& options = {});
// sum((input - target)^2), its weight the number of elements. Shapes must be equal (ShapeError):
// nothing broadcasts. 16-bit operands are summed in f32.
WT_API Loss mse_loss(const In& input, const In& target);

// --- normalisation -------------------------------------------------------------------------------
struct LayerNormOptions {
  double eps = 1e-5;
};
// Over the last axes of x, which must be normalized_shape: (x - mean) / sqrt(var + eps) * weight +
// bias, where var is the mean of (x - mean)^2 (Ba, Kiros, Hinton 2016, arXiv:1607.06450). weight
// and bias have normalized_shape. x: any strides; f64 f32 f16 bf16, one dtype for all operands (16
// bits compute in f32). Large offsets do not cancel. A backward adds in a fixed order. Throws
// ShapeError, DtypeError, and UsageError unless eps >= 0.
WT_API Tensor layer_norm(const In& x, const Shape& normalized_shape,
                         const LayerNormOptions& options = {});
WT_API Tensor layer_norm(const In& x, const Shape& normalized_shape, const In& weight,
                         const LayerNormOptions& options = {});
WT_API Tensor layer_norm(const In& x, const Shape& normalized_shape, const In& weight,
                         const In& bias, const LayerNormOptions& options = {});

// --- indexing ------------------------------------------------------------------------------------
// x[{...}], one entry an axis from the first on: an integer drops the axis, a Slice keeps part of
// it, an i64 or i32 tensor picks along it (negative counts from the end), a bool tensor of k axes
// stands for the k index tensors of its true elements (their number is read by the host). Tensors
// broadcast together to a shape that takes the place of their axes if those are neighbours, else
// comes first, as in PyTorch. Without a tensor the result is a view, else a copy. The gradient is
// added up in a fixed order. Throws ShapeError, DtypeError, and IndexError for an index outside
// [-size, size): at once on the cpu, at the next wait on other devices.
WT_API Tensor index(const In& x, std::initializer_list<Index> at);
struct EmbeddingOptions {
  std::optional<i64> padding_idx{};
};
// Rows of weight [V, D] by i64 or i32 indices of any shape: the shape of indices with D appended.
// The row padding_idx (negative counts from the end) is read like any other and gets no gradient.
// The gradient's additions have one order, so equal inputs give equal bits. Throws IndexError for
// an index outside [0, V): at once on the cpu, at the next wait on other devices.
WT_API Tensor embedding(const In& indices, const In& weight, const EmbeddingOptions& options = {});
// The gradient of embedding's weight [rows, D]: row v is the sum of gout over the positions with
// index v; positions of padding_idx (not negative here) and indices outside [0, rows) add nothing.
WT_API Tensor embedding_backward(const In& gout, const In& indices, i64 rows,
                                 const EmbeddingOptions& options = {});

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
