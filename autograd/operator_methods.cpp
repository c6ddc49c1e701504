// The members of Tensor that are operators in method form. core/method_list.h has those that are
// alike.
#include "warptape/autograd/compare.h"
#include "warptape/autograd/ops.h"

namespace wt {

// `self`: this tensor as an operand, with the line of the call or of another operand.
#define WT_SELF const In self(*this, at.file, at.line)
#define WT_SELF_AS(operand) const In self(*this, operand.frame().file, operand.frame().line)

#define WT_METHOD(name)                 \
  Tensor Tensor::name(Frame at) const { \
    WT_SELF;                            \
    return wt::name(self);              \
  }
WT_UNARY_METHODS(WT_METHOD)
#undef WT_METHOD
#define WT_METHOD(name)                                                             \
  Tensor Tensor::name(const Operand& other) const {                                 \
    return wt::name(Operand(*this, other.frame().file, other.frame().line), other); \
  }
WT_BINARY_METHODS(WT_METHOD)
#undef WT_METHOD
#define WT_METHOD(name)                        \
  Tensor Tensor::name(const In& other) const { \
    WT_SELF_AS(other);                         \
    return wt::name(self, other);              \
  }
WT_PAIR_METHODS(WT_METHOD)
#undef WT_METHOD
#define WT_METHOD(name)                           \
  Tensor Tensor::name(Dim axis, Frame at) const { \
    WT_SELF;                                      \
    return wt::name(self, axis);                  \
  }
WT_AXIS_METHODS(WT_METHOD)
#undef WT_METHOD
#define WT_METHOD(name)                                                       \
  Tensor Tensor::name(const Dims& dims, SumOptions options, Frame at) const { \
    WT_SELF;                                                                  \
    return wt::name(self, dims, options);                                     \
  }
WT_REDUCTION_METHODS(WT_METHOD)
#undef WT_METHOD

// Result Tensor::name(parameters) const, which is wt::name(self, ...).
#define WT_METHOD(Result, name, parameters, ...)      \
  Result Tensor::name parameters const {              \
    WT_SELF;                                          \
    return wt::name(self __VA_OPT__(, ) __VA_ARGS__); \
  }
WT_METHOD(Tensor, argsort, (Dim axis, SortOptions options, Frame at), axis, options)
WT_METHOD(Tensor, bincount, (i64 minlength, Frame at), minlength)
WT_METHOD(Tensor, broadcast_to, (const Shape& shape, Frame at), shape)
WT_METHOD(std::vector<Tensor>, chunk, (i64 chunks, i64 axis, Frame at), chunks, axis)
WT_METHOD(Tensor, clamp, (Scalar lo, Scalar hi, Frame at), lo, hi)
WT_METHOD(Tensor, clamp, (const ClampOptions& options, Frame at), options)
WT_METHOD(Tensor, count_nonzero, (const Dims& dims, Frame at), dims)
WT_METHOD(Tensor, diag, (i64 offset, Frame at), offset)
WT_METHOD(Tensor, diag_embed, (i64 offset, i64 axis1, i64 axis2, Frame at), offset, axis1, axis2)
WT_METHOD(Tensor, diagonal, (i64 offset, i64 axis1, i64 axis2, Frame at), offset, axis1, axis2)
WT_METHOD(Tensor, diff, (Frame at))
WT_METHOD(Tensor, diff, (const DiffOptions& options, Frame at), options)
WT_METHOD(Tensor, flip, (const Dims& dims, Frame at), dims)
WT_METHOD(Tensor, hardshrink, (double lambda, Frame at), lambda)
WT_METHOD(Tensor, istft, (i64 n_fft, const IstftOptions& options, Frame at), n_fft, options)
WT_METHOD(PlacedResult, kthvalue, (i64 k, Dim axis, SumOptions options, Frame at), k, axis, options)
WT_METHOD(PlacedResult, max_with_indices, (Dim axis, SumOptions options, Frame at), axis, options)
WT_METHOD(PlacedResult, median, (Dim axis, SumOptions options, Frame at), axis, options)
WT_METHOD(PlacedResult, min_with_indices, (Dim axis, SumOptions options, Frame at), axis, options)
WT_METHOD(Tensor, movedim, (const Dims& source, const Dims& destination, Frame at), source,
          destination)
WT_METHOD(Tensor, multinomial, (i64 draws, Frame at), draws)
WT_METHOD(Tensor, multinomial, (i64 draws, const MultinomialOptions& options, Frame at), draws,
          options)
WT_METHOD(Tensor, nan_to_num, (const NanToNumOptions& options, Frame at), options)
WT_METHOD(PlacedResult, nanmedian, (Dim axis, SumOptions options, Frame at), axis, options)
WT_METHOD(Tensor, norm, (double p, const Dims& dims, SumOptions options, Frame at), p, dims,
          options)
WT_METHOD(QrResult, qr, (Frame at))
WT_METHOD(Tensor, quantile, (double q, Dim axis, Frame at), q, axis)
WT_METHOD(Tensor, quantile, (double q, Dim axis, const QuantileOptions& options, Frame at), q, axis,
          options)
WT_METHOD(Tensor, repeat, (const Shape& repeats, Frame at), repeats)
WT_METHOD(Tensor, repeat_interleave, (i64 repeats, Frame at), repeats)
WT_METHOD(Tensor, repeat_interleave, (i64 repeats, i64 axis, Frame at), repeats, axis)
WT_METHOD(Tensor, roll, (const Dims& shifts, const Dims& dims, Frame at), shifts, dims)
WT_METHOD(SlogdetResult, slogdet, (Frame at))
WT_METHOD(SortResult, sort, (Dim axis, SortOptions options, Frame at), axis, options)
WT_METHOD(SortResult, sort, (SortOptions options, Frame at), options)
WT_METHOD(std::vector<Tensor>, split, (i64 size, i64 axis, Frame at), size, axis)
WT_METHOD(std::vector<Tensor>, split, (const std::vector<i64>& sizes, i64 axis, Frame at), sizes,
          axis)
WT_METHOD(Tensor, std, (const Dims& dims, VarOptions options, Frame at), dims, options)
WT_METHOD(Tensor, stft, (i64 n_fft, const StftOptions& options, Frame at), n_fft, options)
WT_METHOD(Tensor, tile, (const Shape& repeats, Frame at), repeats)
WT_METHOD(SortResult, topk, (i64 k, Dim axis, TopkOptions options, Frame at), k, axis, options)
WT_METHOD(SortResult, topk, (i64 k, TopkOptions options, Frame at), k, options)
WT_METHOD(Tensor, tril, (i64 k, Frame at), k)
WT_METHOD(Tensor, triu, (i64 k, Frame at), k)
WT_METHOD(std::vector<Tensor>, unbind, (i64 axis, Frame at), axis)
WT_METHOD(UniqueResult, unique, (Frame at))
WT_METHOD(Tensor, var, (const Dims& dims, VarOptions options, Frame at), dims, options)
#undef WT_METHOD

// The same with a tensor among the arguments, whose line is that of the call.
#define WT_METHOD(Result, name, with, parameters, ...) \
  Result Tensor::name parameters const {               \
    WT_SELF_AS(with);                                  \
    return wt::name(self, __VA_ARGS__);                \
  }
WT_METHOD(Tensor, addcdiv, a, (const In& a, const In& b), a, b)
WT_METHOD(Tensor, addcdiv, a, (const In& a, const In& b, const AddcOptions& options), a, b, options)
WT_METHOD(Tensor, addcmul, a, (const In& a, const In& b), a, b)
WT_METHOD(Tensor, addcmul, a, (const In& a, const In& b, const AddcOptions& options), a, b, options)
WT_METHOD(Tensor, addmm, a, (const In& a, const In& b), a, b)
WT_METHOD(Tensor, addmm, a, (const In& a, const In& b, const AddmmOptions& options), a, b, options)
WT_METHOD(bool, allclose, other, (const In& other), other)
WT_METHOD(bool, allclose, other, (const In& other, const IscloseOptions& options), other, options)
WT_METHOD(Tensor, clamp, lo, (const In& lo, const In& hi), lo, hi)
WT_METHOD(bool, equal, other, (const In& other), other)
WT_METHOD(Tensor, gather, index, (i64 axis, const In& index), axis, index)
WT_METHOD(Tensor, index_add, index, (i64 axis, const In& index, const In& source), axis, index,
          source)
WT_METHOD(Tensor, index_add, index,
          (i64 axis, const In& index, const In& source, const IndexAddOptions& options), axis,
          index, source, options)
WT_METHOD(Tensor, index_put, value,
          (std::initializer_list<Index> at, const In& value, IndexPutOptions options), at, value,
          options)
WT_METHOD(Tensor, index_select, index, (i64 axis, const In& index), axis, index)
WT_METHOD(Tensor, isclose, other, (const In& other, const IscloseOptions& options), other, options)
WT_METHOD(Tensor, lerp, end, (const In& end, const Operand& weight), end, weight)
WT_METHOD(Tensor, masked_fill, mask, (const In& mask, const Operand& value), mask, value)
WT_METHOD(Tensor, scatter, index, (i64 axis, const In& index, const Operand& source), axis, index,
          source)
WT_METHOD(Tensor, scatter_add, index, (i64 axis, const In& index, const In& source), axis, index,
          source)
WT_METHOD(Tensor, scatter_reduce, index,
          (i64 axis, const In& index, const In& source, ScatterReduction reduce), axis, index,
          source, reduce)
WT_METHOD(Tensor, scatter_reduce, index,
          (i64 axis, const In& index, const In& source, ScatterReduction reduce,
           const ScatterReduceOptions& options),
          axis, index, source, reduce, options)
WT_METHOD(Tensor, select_scatter, source, (const In& source, i64 axis, i64 index), source, axis,
          index)
WT_METHOD(Tensor, slice_scatter, source, (const In& source, i64 axis, Slice range), source, axis,
          range)
#undef WT_METHOD

Tensor Tensor::div(const Operand& other, const DivOptions& options) const {
  return wt::div(Operand(*this, other.frame().file, other.frame().line), other, options);
}
Tensor Tensor::where(const In& condition, const Operand& other) const {
  const Frame at = condition.frame();
  return wt::where(condition, Operand(*this, at.file, at.line), other);
}

// --- other names ---

Tensor Tensor::sum_to_size(const Shape& shape, Frame at) const {
  WT_SELF;
  return sum_to(self, shape);
}
Tensor Tensor::expand_as(const Tensor& other, Frame at) const {
  return expand(other.shape(at), at);
}
Tensor Tensor::reshape_as(const Tensor& other, Frame at) const {
  return reshape(other.shape(at), at);
}
Tensor Tensor::view_as(const Tensor& other, Frame at) const { return view(other.shape(at), at); }

#undef WT_SELF
#undef WT_SELF_AS

}  // namespace wt
