// Padding.
#pragma once
#include <initializer_list>
#include <span>
#include <vector>

#include "warptape/core/in.h"

namespace wt {

// What lies beyond the border: a constant, the tensor mirrored at its first and last elements
// (which are not repeated), its border elements, or the tensor over again.
enum class PadMode : u8 { constant, reflect, replicate, circular };
struct PadOptions {
  PadMode mode = PadMode::constant;
  Scalar value = 0;  // of PadMode::constant
};
// x with more elements before and after those of some axes: `pairs` are (before, after) of the last
// axis, then of the one before it, and so on. Negative numbers crop, with PadMode::constant. Any
// dtype; the order of the axes in memory is kept. PyTorch: F.pad, of which the modes work here for
// any number of axes. Throws ShapeError for an odd list, more pairs than axes, cropping more than
// there is, and in the other modes for negative numbers and for a border wider than the axis gives:
// reflect at most n - 1, circular at most n.
WT_API Tensor pad(const In& x, std::span<const i64> pairs, const PadOptions& options = {});
WT_API Tensor pad(const In& x, std::initializer_list<Dim> pairs, const PadOptions& options = {});

}  // namespace wt
