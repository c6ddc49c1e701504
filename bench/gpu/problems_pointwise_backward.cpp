// The fused backward of every entry of the pointwise list: a file of its own, for the time that it
// takes to compile.
#include "warptape/bench/gpu/launched.h"
#include "warptape/kernels/pointwise.h"

namespace wt::bench {

void add_pointwise_backward_launchers(Launchers& to) {
  WT_POINTWISE_GRADIENT_CONTRACTS(WT_POINTWISE_LAUNCHER)
}

}  // namespace wt::bench
