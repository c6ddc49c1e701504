#include "warptape/autograd/op_list.h"

namespace wt {

const std::vector<const OpInfo*>& all_ops() {
  static const std::vector<const OpInfo*> list = [] {
    std::vector<const OpInfo*> ops;
    for (const detail::OpInfos family :
         {detail::pointwise_ops(), detail::shape_ops(), detail::reduce_ops(), detail::matmul_ops(),
          detail::softmax_ops(), detail::loss_ops(), detail::index_ops(), detail::dropout_ops(),
          detail::writing_ops()})
      ops.insert(ops.end(), family.begin(), family.end());
    return ops;
  }();
  return list;
}

}  // namespace wt
