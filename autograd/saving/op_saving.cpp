#include "warptape/autograd/op_saving.h"

#include <unordered_map>

namespace wt {

namespace detail {
OpSavings activation_savings();
OpSavings add_norm_savings();
OpSavings channel_norm_savings();
OpSavings dropout_savings();
OpSavings norm_savings();
OpSavings pointwise_savings();
OpSavings shape_copies_savings();
}  // namespace detail

const OpSaving* saving_of(const OpInfo* op) {
  static const auto& all = *new std::unordered_map<const OpInfo*, const OpSaving*>([] {
    std::unordered_map<const OpInfo*, const OpSaving*> list;
    for (const OpSavings family :
         {detail::activation_savings(), detail::add_norm_savings(), detail::channel_norm_savings(),
          detail::dropout_savings(), detail::norm_savings(), detail::pointwise_savings(),
          detail::shape_copies_savings()})
      for (const OpSaving& s : family) list.emplace(s.op, &s);
    return list;
  }());
  const auto found = all.find(op);
  return found == all.end() ? nullptr : found->second;
}

}  // namespace wt
