// How a loss that is made of other operators ends: as a sum with its weight, or one by one.
// Internal.
#pragma once
#include <utility>

#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/loss.h"
#include "warptape/autograd/ops/reduce.h"

namespace wt {

// The sum of `losses`, its weight their number, or `count`.
inline Loss finish_loss(CompositeScope& s, const Tensor& losses, i64 count) {
  Loss loss(sum(losses), double(count));
  loss.sum = s.finish(std::move(loss.sum));
  return loss;
}
inline Loss finish_loss(CompositeScope& s, const Tensor& losses) {
  return finish_loss(s, losses, losses.numel());
}

}  // namespace wt
