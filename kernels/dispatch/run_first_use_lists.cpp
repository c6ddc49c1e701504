#include "warptape/kernels/dispatch/run_first_use_lists.h"

#include "warptape/kernels/dispatch/run_operands.h"

namespace wt::detail {

TouchedLists& touched_lists() {
  static auto* all = [] {
    auto* lists = new TouchedLists;
    operands::list_operands(*lists);
    operands::list_optim_operands(*lists);
    add_pointwise_lists(*lists);
    return lists;
  }();
  return *all;
}

ListTouched touched_by(const char* contract) {
  const auto& all = touched_lists().by_contract;
  const auto found = all.find(contract);
  return found == all.end() ? nullptr : found->second;
}

}  // namespace wt::detail
