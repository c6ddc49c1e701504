// What moves a training step's scalars on, on the cpu.
#include "warptape/kernels/optim_step.h"

#include <cmath>
#include <cstring>

namespace wt {
namespace {

void advance_reference(const StepAdvanceArgs& a, const Launch&) {
  const auto root = [](const auto& x, auto& y) { y = std::sqrt(x); };
  if (!a.cohorts_alone) detail::advance(a, root);
  for (i64 k = 0; k < a.n_cohorts; ++k) detail::advance_cohort(a, k, root);
}
void restore_reference(const StepRestoreArgs& a, const Launch&) {
  if (a.flags.skip()) std::memcpy(a.to, a.from, size_t(a.size));
}

}  // namespace

WT_VARIANTS(cpu, step_advance, StepAdvanceArgs, {.name = "reference", .launch = advance_reference});
WT_VARIANTS(cpu, step_restore, StepRestoreArgs, {.name = "reference", .launch = restore_reference});

}  // namespace wt
