#include "warptape/nn/name_lookups.h"

#include "warptape/core/machine/steady_ns.h"
#include "warptape/core/mode.h"

namespace wt::nn::detail {

NameLookups& name_lookups() {
  static thread_local NameLookups of_thread;
  return of_thread;
}

CountedLookup::CountedLookup()
    : begin_ns_(process_slow.load(std::memory_order_relaxed) & kSlowObserved
                    ? wt::detail::steady_ns()
                    : 0) {}

CountedLookup::~CountedLookup() {
  if (!begin_ns_) return;
  ++name_lookups().count;
  name_lookups().ns += wt::detail::steady_ns() - begin_ns_;
}

}  // namespace wt::nn::detail
