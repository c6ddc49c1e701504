// What each variant of a contract asks of a GPU's memory system, counted on simt: the rows of
// `wt bench counters`.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "warptape/bench/gpu/problems.h"
#include "warptape/kernels/simt/counters.h"

namespace wt::bench {

struct CounterOptions {
  std::vector<std::string> only{};  // contracts
  std::string variant{};            // empty: all that take the operands
  bool defaults = false;            // only what `run` chooses
  DType dtype = DType::f32;
  Scale scale = Scale::small;
  int shape = -1;      // of the row's; -1: all
  bool lines = false;  // which line makes an access
};

// Sums over accesses.
struct AccessSums {
  double requests = 0, lanes = 0, units = 0, least = 0;
  void add(const SimtAccess& a) {
    requests += double(a.requests), lanes += double(a.lanes);
    units += double(a.units), least += double(a.least);
  }
};

struct CounterRow {
  std::string contract, variant, shape, dtype;
  double bytes = 0;  // that the contract says must move
  double flops = 0;
  std::vector<SimtKernelCounts> kernels{};
  AccessSums loads{}, stores{}, shared{};  // device memory, device memory, shared memory
  double threads = 0, barriers = 0, read = 0, written = 0;
  double asked() const { return 32 * (loads.units + stores.units); }
};

// One launch. `lines`: as of simt_stop_counting().
CounterRow count_variant(const Problem& p, const VariantRun& v, bool lines = true);

void count_kernels(const CounterOptions& o, const std::function<void(const CounterRow&)>& done);

}  // namespace wt::bench
