// Statistics over axes: spread and size.
#pragma once
#include "warptape/core/in.h"

namespace wt {

// sum((x - mean)^2) / max(0, n - correction) over the given axes (all when omitted), n elements
// each. In one pass by Welford's update, so large offsets do not cancel; 16-bit floats compute in
// f32. One element with correction 1 gives NaN, and so does none. Throws ShapeError for bad axes,
// DtypeError for dtypes that are not floating.
WT_API Tensor var(const In& x, const Dims& dims = Dims::all(), VarOptions options = {});
// The square root of var(), to which the rest applies too. Its gradient is 0 where it is 0.
WT_API Tensor std(const In& x, const Dims& dims = Dims::all(), VarOptions options = {});
// sum(|x|^p)^(1/p) over the given axes (all when omitted). p = 1 and 2 are one kernel; inf and
// -inf give the largest and the least |x|; 0 counts what is not zero and has no gradient. The
// gradient is 0 where the norm is 0, and at elements that are 0. Floating dtypes (DtypeError).
// Throws ShapeError for bad axes and, with p = inf or -inf, when there is no element; UsageError
// when p is NaN. PyTorch's name: torch.linalg.vector_norm.
WT_API Tensor norm(const In& x, double p = 2, const Dims& dims = Dims::all(),
                   SumOptions options = {});
// log(sum(exp(x))) over the given axes (all when omitted), with the largest element taken out
// first, so that nothing overflows. Nothing, or only -inf, gives -inf, with gradient 0. 16-bit
// floats compute in f32. Throws ShapeError for bad axes, DtypeError for dtypes that are not
// floating.
WT_API Tensor logsumexp(const In& x, const Dims& dims = Dims::all(), SumOptions options = {});

}  // namespace wt
