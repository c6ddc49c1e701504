// The fused backward of every entry of the pointwise list: a file of its own, for the time that it
// takes to compile.
#include "warptape/bench/gpu/pointwise_row.h"

namespace wt::bench {

void add_pointwise_backward_rows(std::vector<ProblemRow>& rows) {
  WT_POINTWISE_BACKWARD_CONTRACTS(WT_POINTWISE_ROW)
  WT_POINTWISE_BINARY_BACKWARD_CONTRACTS(WT_POINTWISE_ROW)
}

}  // namespace wt::bench
