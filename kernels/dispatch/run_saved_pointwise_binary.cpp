// What can be saved of the pointwise list: operators of two tensors.
#include "warptape/kernels/dispatch/run_saved_pointwise.h"

namespace wt::detail {

void add_saved_pointwise_binary(SavedLists& to) {
  WT_POINTWISE_BINARY_CONTRACTS(WT_POINTWISE_SAVED)
  WT_POINTWISE_BINARY_PLAIN_CONTRACTS(WT_POINTWISE_SAVED)
  WT_POINTWISE_RARE_BINARY_CONTRACTS(WT_POINTWISE_SAVED)
}

}  // namespace wt::detail
