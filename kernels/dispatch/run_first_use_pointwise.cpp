// The pointwise list's part of what contracts touch.
#include "warptape/kernels/dispatch/run_first_use_lists.h"
#include "warptape/kernels/pointwise.h"

namespace wt::detail {
namespace {
struct PointwiseOperands {
  template <class Args>
  void operator()(Args& a, Touched& t) const {
    t.out(a.out);
    for (View& v : a.in) t.in(v);
  }
};
}  // namespace

void add_pointwise_lists(TouchedLists& to) {
#define WT_POINTWISE_LIST(contract, Args) to.add<Args>(PointwiseOperands{});
  WT_POINTWISE_CONTRACTS(WT_POINTWISE_LIST)
#undef WT_POINTWISE_LIST
}

}  // namespace wt::detail
