// The slices of vmap() as more matrices of a batch (kernels/dispatch/run_slices.h), for contracts
// that want them one after the other.
#pragma once
#include "warptape/kernels/contract.h"

namespace wt {

// Leading axes for all views that there are; false where one of them is not dense then, as a part
// of each slice is not, nor what all slices share.
template <class Slices, class... Views>
bool lead_dense(const Slices& s, Views&... views) {
  // The geometries live as long as the launch, which does not keep them.
  static thread_local Geometry geometries[sizeof...(views)];
  Geometry* next = geometries;
  const auto lead = [&](View& v) {
    Geometry& g = *next++;
    return !v || (s.lead(v, g, v.ndim()) && v.dense());
  };
  return (... && lead(views));
}

}  // namespace wt
