#include "warptape/tools/wt/look/look_figures.h"

#include <algorithm>

#include "warptape/tools/wt/look/access_picture.h"

namespace wt::tools {

std::vector<AccessTotal> totals_of(const SimtKernelCounts& k) {
  // Kinds of SimtAccess, of the device's memory and of a block's.
  std::vector<AccessTotal> all{{"device loads"}, {"device stores"}, {"device atomics"},
                               {"shared loads"}, {"shared stores"}, {"shared atomics"}};
  for (const SimtAccess& a : k.accesses) all[size_t(a.kind) + (a.shared ? 3 : 0)].sum.add(a);
  std::erase_if(all, [](const AccessTotal& t) { return t.sum.requests == 0; });
  return all;
}

LaunchFigures figures_of(const Look& look) {
  LaunchFigures f;
  for (const LookKernel& k : look.kernels) {
    f.touched += double(k.counts.read) + double(k.counts.written);
    for (const SimtAccess& a : k.counts.accesses) (a.shared ? f.shared : f.device).add(a);
  }
  return f;
}

std::vector<LookTile> tiles_of(const Look& look) {
  const LaunchFigures f = figures_of(look);
  std::vector<LookTile> tiles;
  const auto ratio = [&](const char* name, const char* label, double is, double least) {
    if (least > 0) tiles.push_back({name, label, is / least, true, is_waste(is, least)});
  };
  const double requests = f.device.requests + f.shared.requests;
  if (requests > 0)
    tiles.push_back({"active_lanes", "active lanes of 32",
                     (f.device.lanes + f.shared.lanes) / requests, false});
  ratio("sectors_of_fewest", "sectors, of the fewest", f.device.units, f.device.least);
  ratio("passes_of_fewest", "passes over banks, of the fewest", f.shared.units, f.shared.least);
  ratio("asked_of_contract", "asked for, of the contract's bytes", kSectorBytes * f.device.units,
        look.bytes);
  ratio("touched_of_contract", "touched, of the contract's bytes", f.touched, look.bytes);
  return tiles;
}

std::vector<std::pair<std::string, std::string>> parts_of_mix(const std::string& mix) {
  std::vector<std::pair<std::string, std::string>> parts;
  for (size_t at = 0; at < mix.size();) {
    const size_t colon = mix.find(':', at), end = std::min(mix.find(',', at), mix.size());
    if (colon == mix.npos || colon > end) return {};
    parts.emplace_back(mix.substr(at, colon - at), mix.substr(colon + 1, end - colon - 1));
    at = end + 1;
  }
  return parts;
}

BlockNeeds needs_of(const LookKernel& k) {
  const auto& b = k.counts.block;
  return {.threads = i64(b[0]) * b[1] * b[2],
          .registers = k.code ? k.code->registers : 0,
          .shared = i64(k.counts.shared_bytes)};
}

}  // namespace wt::tools
