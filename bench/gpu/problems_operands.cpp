// Of the contracts that operators launch: what they read and write, kernels/dispatch/run_operands.h
// says.
#include "warptape/bench/gpu/launched.h"
#include "warptape/kernels/dispatch/run_operands.h"

namespace wt::bench {

void add_launchers(Launchers& to) {
  operands::list_operands(to);
  add_pointwise_launchers(to);
}

}  // namespace wt::bench
