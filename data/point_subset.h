// A fresh random part of the points of a shape or a field for each step.
//
//   const data::RandomPointSubset part{.ratio = 0.1};
//   TrainStep step{...};
//   step(batch, [&](const data::Batch& b) {
//     const Tensor p = part(b.x);                     // [10000, 4] -> [1000, 4]
//     ...
//   });
//
// For points of which each stands for itself: the mean over the part is an unbiased estimate of the
// mean over all, and its variance is (1 - ratio) / (ratio * points) of theirs. It is nothing for
// images: their pixels mean something beside their neighbours alone, so a network of convolutions
// has no use for a tenth of them; there one takes crops (data/transforms.h).
#pragma once
#include "warptape/core/macros.h"
#include "warptape/core/tensor.h"

namespace wt::data {

// A random part of points that stand for themselves: an aggregate of its ratio, called with a
// tensor.
struct RandomPointSubset {
  double ratio = 0.1;  // of the points, in (0, 1]

  // How many of `points` are taken: the nearest number to ratio * points, at least one. Throws
  // UsageError for a ratio outside (0, 1] and for no points.
  WT_API i64 count(i64 points) const;
  // A random subset's indices, i64 [count] without repetition, every subset equally likely, in
  // random order; with `sets` [sets, count], each drawn for itself. On the device, nothing is sent
  // there. Numbers of the generator's user stream (core/random.h): each call draws anew. Not for a
  // captured step: TrainStep takes steps that draw them eagerly. Throws UsageError for a ratio
  // outside (0, 1] and for no points.
  WT_API Tensor indices(i64 points, Device device) const;
  WT_API Tensor indices(i64 sets, i64 points, Device device) const;

  // A random subset of the points of x, where it lies, with gradients: [points, ...] along axis 0,
  // of [sets, points, ...] along axis 1, where each set has a subset of its own. Draws as
  // indices(). Throws ShapeError for other axes, and what indices() throws.
  WT_API Tensor operator()(const Tensor& x, i64 axis = 0) const;
};

}  // namespace wt::data
