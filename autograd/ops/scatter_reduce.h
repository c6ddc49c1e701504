// Many elements put into one place by index, and what becomes of them there.
#pragma once
#include "warptape/core/in.h"

namespace wt {

enum class ScatterReduction : u8 { sum, prod, mean, amax, amin };
struct ScatterReduceOptions {
  bool include_self = true;  // x's own element takes part where an index names it
};
// x with the elements source[.., j, ..] that go to place index[.., j, ..] of the axis reduced
// there; places that no index names keep x's element. index and source as scatter_add takes them;
// mean is of floats alone. In a fixed order (a tree for prod), so equal inputs give equal bits;
// 16-bit floats compute in f32. Elements that share an extreme share its gradient evenly; prod has
// both derivatives where elements are 0. Throws ShapeError and IndexError as scatter_add,
// DtypeError for other dtypes and bool.
WT_API Tensor scatter_reduce(const In& x, i64 axis, const In& index, const In& source,
                             ScatterReduction reduce, ScatterReduceOptions options = {});

}  // namespace wt
