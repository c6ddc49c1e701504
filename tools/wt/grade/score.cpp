#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

#include "warptape/tools/wt/grade/checks.h"
#include "warptape/tools/wt/grade/lines.h"

namespace wt::grade {
namespace {

constexpr double kSector = 32;

struct Sums {
  double lanes = 0, requests = 0, passes = 0, least_passes = 0, sectors = 0;
};

std::string two(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", v);
  return text;
}

// The access that asks for most sectors beyond what would do.
struct Worst {
  double excess = 0, units = 0, least = 0, requests = 0;
  std::string place, kind;
};

std::string worst_text(const Worst& w, const std::string& unit) {
  return str(w.place, ": a ", w.kind, " takes ", two(w.units / w.requests), " ", unit, " where ",
             two(w.least / w.requests), " would do");
}

}  // namespace

Score score_of(const std::string& counts, i64 contract_bytes, const std::string& program,
               const std::string& own) {
  Score s{.counted = true, .contract_bytes = double(contract_bytes)};
  Sums sum;
  Worst device, shared;
  double most = 0;
  std::istringstream lines(counts);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    if (what == "kernel") {
      double launches, blocks, threads, barriers, read = 0, written = 0;
      words >> launches >> blocks >> threads >> barriers >> read >> written;
      s.touched += read + written;
    } else if (what == "access") {
      std::string kind, memory, bytes, place;
      double requests = 0, lanes = 0, units = 0, least = 0;
      words >> kind >> memory >> bytes >> requests >> lanes >> units >> least >> place;
      if (requests <= 0) continue;
      sum.requests += requests, sum.lanes += lanes;
      const bool is_shared = memory == "shared";
      (is_shared ? sum.passes : sum.sectors) += units;
      if (!is_shared && units > most) most = units, s.busiest = place;
      if (is_shared) sum.least_passes += least;
      Worst& worst = is_shared ? shared : device;
      if (units - least > worst.excess)
        worst = {units - least, units, least, requests, place, kind};
    } else if (what == "wait") {
      double warps = 0;
      words >> warps >> what;
      if (what == "mma_m16n8k16") s.mma += warps;
    }
  }
  s.busiest = with_lines(s.busiest, program, own);
  s.asked = sum.sectors * kSector;
  s.lanes = sum.requests > 0 ? sum.lanes / sum.requests : 0;
  s.passes = sum.passes, s.least_passes = sum.least_passes;
  const double memory = s.asked > 0 ? std::min(1.0, s.contract_bytes / s.asked) : 0;
  const double banks = s.passes > 0 ? s.least_passes / s.passes : 1;
  s.points = int(std::lround(100 * memory * banks * std::min(1.0, s.lanes / 32)));
  const double by = std::max(1.0, s.contract_bytes);
  s.reasons.push_back(str("memory: asks for ", two(s.asked / by), " times the contract's ",
                          contract_bytes, " bytes, touches ", two(s.touched / by), " times"));
  s.reasons.push_back(str("lanes: ", two(s.lanes), " of 32 take part in an access"));
  if (s.passes > 0)
    s.reasons.push_back(str("banks: ", two(s.passes), " passes over shared memory where ",
                            two(s.least_passes), " would do"));
  for (const auto& [worst, unit] : {std::pair(&device, "sectors"), std::pair(&shared, "passes")})
    if (worst->excess > 0.1 * worst->units)
      s.reasons.push_back(with_lines(worst_text(*worst, unit), program, own));
  return s;
}

}  // namespace wt::grade
