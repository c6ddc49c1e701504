#include "warptape/core/matmul_precision.h"

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "warptape/core/machine/launch_timer.h"

namespace wt {
namespace {
constinit std::atomic<MatmulPrecision> precision{MatmulPrecision::highest};
constinit std::atomic<int> timed{-1};  // -1: nobody has looked at WT_BENCHMARK
}  // namespace

void set_matmul_precision(MatmulPrecision p) { precision.store(p, std::memory_order_relaxed); }
MatmulPrecision matmul_precision() { return precision.load(std::memory_order_relaxed); }

void set_benchmark(bool on) { timed.store(on, std::memory_order_relaxed); }
bool benchmark() {
  int on = timed.load(std::memory_order_relaxed);
  if (on >= 0) return on;
  const char* const text = std::getenv("WT_BENCHMARK");
  on = text && *text && std::string_view(text) != "0";
  int unset = -1;  // set_benchmark() of another thread comes first
  return timed.compare_exchange_strong(unset, on, std::memory_order_relaxed) ? on : unset;
}
void detail::forget_benchmark() { timed.store(-1); }

}  // namespace wt
