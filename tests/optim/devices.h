// The devices that a test of the optimizers runs on.
#pragma once
#include "warptape/core/mailbox.h"
#include "warptape/kernels/pointwise.h"
#include "warptape/kernels/run.h"
#include "warptape/tests/support/catch.h"

// The device with what it keeps for ever already allocated: a LeakGuard must not count it.
inline wt::Device ready(wt::Device d) {
  wt::mailbox_flag(d);
  return d;
}
inline bool has_operators(wt::Device d) {
  for (const wt::ContractInfo& c : wt::all_contracts())
    if (wt::detail::same_name(c.name, "mul")) return c.count(d.kind) > 0;
  return false;
}
#define NEEDS_OPERATORS(d) \
  if (!has_operators(d)) SKIP_TEST("pointwise operators are not built for this device")
