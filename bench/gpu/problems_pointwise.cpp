// Every entry of the pointwise list.
#include "warptape/bench/gpu/pointwise_row.h"

namespace wt::bench {

void add_pointwise_rows(std::vector<ProblemRow>& rows) {
  WT_POINTWISE_UNARY_CONTRACTS(WT_POINTWISE_ROW)
  WT_POINTWISE_PLAIN_CONTRACTS(WT_POINTWISE_ROW)
  WT_POINTWISE_BINARY_CONTRACTS(WT_POINTWISE_ROW)
  add_pointwise_backward_rows(rows);
}

}  // namespace wt::bench
