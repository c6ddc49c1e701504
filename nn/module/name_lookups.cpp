#include "warptape/nn/name_lookups.h"

#include <chrono>

#include "warptape/core/mode.h"

namespace wt::nn::detail {

static i64 now_ns() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

NameLookups& name_lookups() {
  static thread_local NameLookups of_thread;
  return of_thread;
}

CountedLookup::CountedLookup()
    : begin_ns_(process_slow.load(std::memory_order_relaxed) & kSlowObserved ? now_ns() : 0) {}

CountedLookup::~CountedLookup() {
  if (!begin_ns_) return;
  ++name_lookups().count;
  name_lookups().ns += now_ns() - begin_ns_;
}

}  // namespace wt::nn::detail
