// What an optimizer says of itself to its base class. Internal.
#pragma once
#include <utility>
#include <vector>

#include "warptape/kernels/optim_step.h"
#include "warptape/optim/optimizer.h"

namespace wt::optim {

struct Optimizer::Kind {
  const char* name;                                                   // "Sgd"
  std::vector<const char*> slots;                                     // state slots: "momentum"
  std::vector<std::pair<const char*, double OptimBlock::*>> scalars;  // saved options: "lr"
  std::vector<std::vector<const char*>> group_slots{};  // of each group, where they differ

  const std::vector<const char*>& slots_of(int group) const {
    return group_slots.empty() ? slots : group_slots[size_t(group)];
  }
};

}  // namespace wt::optim
