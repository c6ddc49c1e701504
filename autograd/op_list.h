// The one list of operators: `wt ops`, the check that each has a row in tests/op_cases, and whoever
// wants to walk over all of them.
#pragma once
#include <span>
#include <vector>

#include "warptape/core/macros.h"
#include "warptape/core/op_info.h"

namespace wt {

// All operators that users can call, family after family. In-place ones have a trailing underscore.
WT_API const std::vector<const OpInfo*>& all_ops();

namespace detail {
// A family's own list, at the end of its file: autograd/ops_<family>.cpp defines <family>_ops().
using OpInfos = std::span<const OpInfo* const>;
}  // namespace detail

}  // namespace wt
