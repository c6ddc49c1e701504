#include "warptape/autograd/op_list.h"

namespace wt {

// The families: one for each file of ops/, in the order of their names.
namespace detail {
#define WT_OP_FAMILY(family) OpInfos family##_ops();
#include "warptape/op_families.inc"
#undef WT_OP_FAMILY
}  // namespace detail

const std::vector<const OpInfo*>& all_ops() {
  static const std::vector<const OpInfo*> list = [] {
    std::vector<const OpInfo*> ops;
    const auto add = [&](detail::OpInfos family) {
      ops.insert(ops.end(), family.begin(), family.end());
    };
#define WT_OP_FAMILY(family) add(detail::family##_ops());
#include "warptape/op_families.inc"
#undef WT_OP_FAMILY
    return ops;
  }();
  return list;
}

}  // namespace wt
