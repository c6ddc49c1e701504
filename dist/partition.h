// A Sequential cut into the stages of a pipeline.
#pragma once
#include <string>
#include <vector>

#include "warptape/nn/containers.h"

namespace wt::dist {

// A net cut into `stages` runs of its steps, in order and none empty, such that the largest has as
// few bytes of parameters as possible and the others are as even as can be; of equal cuts the last
// ones, so that activations stay with the layer before them. Handles: a stage shares its modules
// with `net`, and their parameters keep the names that they have there ("3.weight"), so that the
// stages' state dicts add up to the net's. Throws UsageError for more stages than steps or none,
// and for a parameter that two stages would share: each would train its own.
WT_API std::vector<nn::Sequential> partition(const nn::Sequential& net, int stages,
                                             Frame at = Frame::here());

// A net cut where it is told: a stage begins at each of these children, in their order, and one at
// the first step. Throws UsageError, with the near name, for one that is not there, for those out
// of order or the first step itself, and for a parameter that two stages would share.
WT_API std::vector<nn::Sequential> partition(const nn::Sequential& net,
                                             const std::vector<std::string>& begins,
                                             Frame at = Frame::here());

}  // namespace wt::dist
