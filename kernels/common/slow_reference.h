// A reference that is chosen because every faster variant refuses says so when it takes long: such
// a cliff is a hundred times slower than its neighbours and looks like any other call.
//
//   {.name = "reference", .rank = 1, .launch = told_if_slow<softmax_reference>}
#pragma once
#include <chrono>

#include "warptape/kernels/contract.h"

namespace wt {

namespace detail {

inline constexpr double kSlowReferenceMs = 10;

struct Refusal {
  const char *variant, *why;
};
// One warning (core/warning.h) a contract and set of reasons.
WT_COLD void tell_slow_reference(const char* contract, const OpInfo* op, double ms,
                                 const Refusal* refusals, int count);

// Says nothing where a faster variant would have taken the arguments: then the reference was asked
// for.
template <class Args>
WT_COLD void explain_slow_reference(const Args& a, const Launch& l, double ms) {
  constexpr int kMost = 16;
  const Variants<Args>& list = *ContractTable<Args>::rows[int(DeviceKind::cpu)];
  Refusal refusals[kMost];
  int count = 0;
  for (int i = 0; i + 1 < list.count && count < kMost; ++i) {
    const Variant<Args>& v = list.rows[i];
    const char* const why = v.why_not ? v.why_not(a) : nullptr;
    if (!why) return;
    refusals[count++] = {v.name, why};
  }
  if (count > 0) tell_slow_reference(ContractTable<Args>::kName, l.op, ms, refusals, count);
}

template <auto Reference>
struct ToldIfSlow;
template <class Args, void (*Reference)(const Args&, const Launch&)>
struct ToldIfSlow<Reference> {
  static void launch(const Args& a, const Launch& l) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    Reference(a, l);
    const std::chrono::duration<double, std::milli> ms = Clock::now() - begin;
    if (ms.count() > kSlowReferenceMs) [[unlikely]]
      explain_slow_reference(a, l, ms.count());
  }
};

}  // namespace detail

// Host code of the cpu's references only.
template <auto Reference>
constexpr auto told_if_slow = detail::ToldIfSlow<Reference>::launch;

}  // namespace wt
