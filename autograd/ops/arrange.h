// Rearranging: windows, pieces, repetition, other orders, and writing into a part.
#pragma once
#include <span>
#include <vector>

#include "warptape/core/in.h"

namespace wt {

// --- views (no copy) ---
// All windows of `size` neighbouring elements along an axis, `step` apart: the axis then counts the
// windows, (n - size) / step + 1 of them, and the elements of a window are a new last axis. A view:
// where windows overlap, an element is seen more than once, and its gradient is the sum over them,
// in the order of the windows. Any dtype. Throws ShapeError unless 1 <= size <= n and step >= 1.
WT_API Tensor unfold(const In& x, i64 axis, i64 size, i64 step);
// An axis in `chunks` pieces of ceil(n / chunks) elements, as views: the last one may be smaller,
// and there may be fewer pieces. Throws ShapeError for chunks < 1 and for a 0-d tensor.
WT_API std::vector<Tensor> chunk(const In& x, i64 chunks, i64 axis = 0);
// x[.., 0, ..], x[.., 1, ..], ... of an axis, which disappears: views. Throws ShapeError for a 0-d
// tensor.
WT_API std::vector<Tensor> unbind(const In& x, i64 axis = 0);
// Axis source[i] becomes axis destination[i]; the others keep their order: a view. Throws
// ShapeError for lists of unequal length and for axes named twice.
WT_API Tensor movedim(const In& x, const Dims& source, const Dims& destination);
// ij: the axes of the results are those of the list. xy: the first two are swapped.
enum class Indexing : u8 { ij, xy };
struct MeshgridOptions {
  Indexing indexing = Indexing::ij;
};
// The coordinates of a grid: result k has the sizes of all the lists (1-d or 0-d, one dtype) as its
// shape and varies along axis k only, as list k does (Indexing::xy swaps the first two axes).
// Expanded views. Throws ShapeError for a list of more than one dimension, DtypeError when dtypes
// differ, UsageError for no list at all.
WT_API std::vector<Tensor> meshgrid(std::span<const Tensor> lists, MeshgridOptions options = {},
                                    Frame at = Frame::here());
WT_API std::vector<Tensor> meshgrid(std::initializer_list<Tensor> lists,
                                    MeshgridOptions options = {}, Frame at = Frame::here());

// --- copies ---
// The sum over all windows that show an element: the gradient of unfold(x, axis, size, step) for x
// of `shape`. Floating dtypes; 16-bit floats are added in f32, always in the order of the windows.
// Throws ShapeError when gout has not the shape of that unfold.
WT_API Tensor unfold_backward(const In& gout, const Shape& shape, i64 axis, i64 size, i64 step);
// x repeated repeats[i] times along axis i, whole after whole; more repeats than axes make new
// leading axes. A copy. Throws ShapeError for fewer repeats than axes and for negative ones.
WT_API Tensor repeat(const In& x, const Shape& repeats);
// Each element of an axis (without one: of the flattened tensor) `repeats` times in a row. A copy.
// Throws ShapeError for negative repeats.
WT_API Tensor repeat_interleave(const In& x, i64 repeats);
WT_API Tensor repeat_interleave(const In& x, i64 repeats, i64 axis);
// The elements of the given axes in reverse order. A copy, any dtype.
WT_API Tensor flip(const In& x, const Dims& dims);
// Element i of an axis moves to (i + shift) mod n; one shift an axis. Without axes the flattened
// tensor is rolled. A copy. Throws ShapeError for lists of unequal length.
WT_API Tensor roll(const In& x, const Dims& shifts, const Dims& dims = Dims::all());
// x with `source` written at a range of an axis, as a new tensor: what x[range] = source is for
// tensors that need gradients. Both have one dtype; source has the shape of slice(x, axis, range).
// Throws ShapeError.
WT_API Tensor slice_scatter(const In& x, const In& source, i64 axis, Slice range);
// x with `source` written at one index of an axis (negative counts from the end), as a new tensor.
// source has the shape of select(x, axis, index). Throws ShapeError, and IndexError for the index.
WT_API Tensor select_scatter(const In& x, const In& source, i64 axis, i64 index);

}  // namespace wt
