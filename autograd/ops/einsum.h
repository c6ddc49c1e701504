// Einstein's summation.
#pragma once
#include <initializer_list>
#include <span>
#include <string_view>

#include "warptape/core/in.h"

namespace wt {

// Sums of products written with labels: einsum("bik,kj->bij", {a, b}) is
// y[b, i, j] = sum over k of a[b, i, k] b[k, j]. A letter names an axis; one that is twice in an
// operand takes its diagonal; one that the result does not name is summed over. "..." stands for
// any further axes, which broadcast. Without "->" the result has the axes of "..." and then the
// letters that occur once, in the order of the alphabet. Axes of size 1 broadcast; spaces do not
// count. Any number of operands, contracted by pairs from the left: each pair is one matrix
// product, so an order of operands with small intermediate results is the caller's. One dtype, as
// in matmul; 16-bit floats stay in f32 between the products. Throws UsageError for a text that
// cannot be read, ShapeError for axes and sizes that do not fit, naming the label.
WT_API Tensor einsum(std::string_view equation, std::span<const Tensor> operands,
                     Frame at = Frame::here());
WT_API Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands,
                     Frame at = Frame::here());

}  // namespace wt
