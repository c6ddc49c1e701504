// Figures of a launch that the page of `wt look` and its JSON document both have.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "warptape/tools/wt/look/look.h"
#include "warptape/tools/wt/look/occupancy.h"

namespace wt::tools {

// Half as much again as it would have to be: marked wherever it is shown.
inline bool is_waste(double units, double least) { return units > 1.5 * least; }

struct AccessSum {
  double requests = 0, lanes = 0, units = 0, least = 0;
  void add(const SimtAccess& a) {
    requests += double(a.requests), lanes += double(a.lanes);
    units += double(a.units), least += double(a.least);
  }
};

// By kind of access, in an order that does not change; those that there are none of are left out.
struct AccessTotal {
  const char* what;  // "device loads"
  AccessSum sum{};
};
std::vector<AccessTotal> totals_of(const SimtKernelCounts& k);

// Over all kernels.
struct LaunchFigures {
  AccessSum device{}, shared{};
  double touched = 0;  // bytes, of different sectors
};
LaunchFigures figures_of(const Look& look);

// What the page says in its tiles; those that are not known are left out.
struct LookTile {
  const char *name, *label;  // as a key, and in words
  double value = 0;
  bool ratio = true, waste = false;
};
std::vector<LookTile> tiles_of(const Look& look);

// "alu" and "12" of "alu:12,lsu:2"; none where it is no such text.
std::vector<std::pair<std::string, std::string>> parts_of_mix(const std::string& mix);

// Of a block of the kernel, with the registers of its machine code where these are known.
BlockNeeds needs_of(const LookKernel& k);

}  // namespace wt::tools
