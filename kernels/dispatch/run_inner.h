// A variant that hands its problem on: to another contract, or to its own at another dtype.
// Overrides do not reach the inner kernel: they named the outer one.
#pragma once
#include "warptape/core/error.h"
#include "warptape/kernels/run.h"

namespace wt {

template <class Args>
const Variant<Args>& inner_variant(const Args& a, const Device& d = Device::cpu()) {
  const Variants<Args>& list = *ContractTable<Args>::rows[int(d.kind)];
  const Variant<Args>* const best = detail::best_variant(a, list, d);
  if (!best) throw InternalError("a variant hands on what no other variant takes");
  return *best;
}
template <class Args>
i64 inner_workspace(const Args& a) {
  const Variant<Args>& v = inner_variant(a);
  return v.workspace ? v.workspace(a) : 0;
}
// `workspace`: of inner_workspace(a) bytes, 64-byte aligned.
template <class Args>
void inner_run(const Args& a, Launch l, void* workspace) {
  l.workspace = workspace;
  inner_variant(a, l.device).launch(a, l);
}

}  // namespace wt
