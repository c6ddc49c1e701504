// Tensors as indices.
#pragma once
#include <optional>
#include <span>

#include "warptape/core/in.h"

namespace wt {

// x[{...}], one entry an axis from the first on: an integer drops the axis, a Slice keeps part of
// it, an i64 or i32 tensor picks along it (negative counts from the end), a bool tensor of k axes
// stands for the k index tensors of its true elements (their number is read by the host);
// `ellipsis` passes over the axes that the rest does not take, `newaxis` adds one of size 1. A 0-d
// tensor of integers counts as an integer, whose value the host does not read. Tensors broadcast
// together to a shape that takes the place of their axes if those are neighbours, else comes first,
// as in PyTorch. Without a tensor the result is a view, else a copy. The gradient is added up in a
// fixed order. Throws ShapeError, DtypeError, and IndexError for an index outside
// [-size, size): at once on the cpu, at the next wait on other devices.
WT_API Tensor index(const In& x, std::span<const Index> at);
WT_API Tensor index(const In& x, std::initializer_list<Index> at);
// x with the elements that x[{...}] names replaced by `value`, or with accumulate (floats only)
// added to, as a new tensor; x.index_put_() writes into x. The value broadcasts to the shape of
// x[{...}] and takes x's dtype and device. Where tensors name an element twice the last one counts,
// and has all of the gradient; with accumulate all are added, in an order that is fixed. Throws as
// index() does, and ShapeError for a value that does not broadcast.
WT_API Tensor index_put(const In& x, std::span<const Index> at, const In& value,
                        const IndexPutOptions& options = {});
WT_API Tensor index_put(const In& x, std::initializer_list<Index> at, const In& value,
                        const IndexPutOptions& options = {});
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

}  // namespace wt
