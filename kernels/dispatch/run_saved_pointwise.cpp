// What can be saved of the pointwise list: operators of one tensor.
#include "warptape/kernels/dispatch/run_saved_pointwise.h"

namespace wt::detail {

void add_saved_pointwise(SavedLists& to) {
  WT_POINTWISE_UNARY_CONTRACTS(WT_POINTWISE_SAVED)
  WT_POINTWISE_RARE_CONTRACTS(WT_POINTWISE_SAVED)
  WT_POINTWISE_PLAIN_CONTRACTS(WT_POINTWISE_SAVED)
  add_saved_pointwise_binary(to);
}

}  // namespace wt::detail
