// What the arguments of every optimizer's kernel begin with. Internal.
#pragma once
#include "warptape/kernels/optim_rule.h"
#include "warptape/optim/arena.h"

namespace wt::optim::detail {

// For one range of an arena: parameters, gradients, and where the step's numbers lie.
template <class Args>
Args rule_args(const Run& r, const OptimBlock* block, const double* grad_factor,
               const StepFlags& flags) {
  const Arena& a = *r.arena;
  Args args{};
  args.param = a.at(a.param, r.begin);
  args.grad = r.grad();
  args.n = r.count;
  args.dtype = a.dtype;
  args.block = block;
  args.grad_factor = grad_factor;
  args.flags = flags;
  args.cohorts = r.cohorts;
  args.n_cohorts = i32(r.n_cohorts);
  args.set_begin(r.begin);
  if (a.half && a.half->data) {
    args.half = static_cast<char*>(a.half->data) + r.begin * item_size(a.half_dtype);
    args.half_dtype = a.half_dtype;
  }
  return args;
}
// The range in the optimizer's slot number k.
inline auto state_at(const Run& r, size_t k) { return r.arena->at(r.arena->state[k], r.state); }

}  // namespace wt::optim::detail
