// What each contract touches, by its name. Host code only.
#pragma once
#include <map>
#include <string>

#include "warptape/kernels/contract.h"
#include "warptape/kernels/dispatch/run_first_use_values.h"

namespace wt::detail {

using ListTouched = void (*)(void* args, Touched& t);

// Takes the lines of kernels/dispatch/run_operands.h.
struct TouchedLists {
  std::map<std::string, ListTouched> by_contract;
  template <class Args, class List>
  void add(List) {
    by_contract[ContractTable<Args>::kName] = [](void* args, Touched& t) {
      List{}(*static_cast<Args*>(args), t);
    };
  }
};
TouchedLists& touched_lists();
// Null: a launch of the contract cannot be made twice, or nobody has said what it touches.
ListTouched touched_by(const char* contract);
void add_pointwise_lists(TouchedLists& to);

}  // namespace wt::detail
