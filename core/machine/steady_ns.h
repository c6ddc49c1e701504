#pragma once
#include <chrono>

#include "warptape/core/types.h"

namespace wt::detail {

// Nanoseconds of the host's steady clock.
inline i64 steady_ns() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace wt::detail
