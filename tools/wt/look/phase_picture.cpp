#include "warptape/tools/wt/look/phase_picture.h"

#include <algorithm>
#include <vector>

#include "warptape/core/chart.h"
#include "warptape/core/str.h"

namespace wt::tools {
namespace {

using chart::fixed;

constexpr double kPhaseWidth = 1060, kPhaseLeft = 58, kPhaseRight = 8, kPhaseTop = 22,
                 kWarpRow = 15;

std::string phase_bar(double x, double y, double width, const char* style,
                      const std::string& title) {
  if (width <= 0) return "";
  return str("<rect class=\"", style, "\" x=\"", fixed(x), "\" y=\"", fixed(y), "\" width=\"",
             fixed(std::max(width, 0.6)), "\" height=\"", fixed(kWarpRow - 3), "\"><title>", title,
             "</title></rect>");
}

std::string warp_bars(const SimtPhase& p, std::size_t warp, double x, double scale) {
  const SimtWarpWork& w = p.warps[warp];
  const double y = kPhaseTop + double(warp) * kWarpRow;
  const u32 most = longest_of(p);
  const std::string who = str("warp ", warp, ": ");
  std::string out;
  const auto add = [&](u32 n, const char* style, const char* what) {
    out += phase_bar(x, y, n * scale, style, str(who, n, " ", what));
    x += n * scale;
  };
  add(w.device, "on-device", "to device memory");
  add(w.shared, "on-shared", "to shared memory");
  add(w.exchanges, "on-lanes", "between lanes");
  if (!p.barrier.empty()) add(most - w.all(), "waits", "fewer than the longest warp's: it waits");
  return out;
}

}  // namespace

u32 longest_of(const SimtPhase& p) {
  u32 most = 0;
  for (const SimtWarpWork& w : p.warps) most = std::max(most, w.all());
  return most;
}

std::string phase_picture(const SimtKernelCounts& k, std::size_t phases) {
  const std::size_t n = std::min(phases, k.phases.size());
  if (n == 0) return "";
  double all = 0;
  for (std::size_t i = 0; i < n; ++i) all += std::max(1u, longest_of(k.phases[i]));
  const double gap = std::min(6.0, 200 / double(n));
  const double scale = (kPhaseWidth - kPhaseLeft - kPhaseRight - gap * double(n)) / all;
  const std::size_t warps = k.phases[0].warps.size();
  const double bottom = kPhaseTop + double(warps) * kWarpRow;
  std::string out;
  for (std::size_t w = 0; w < warps; ++w)
    out += str("<text class=\"tick\" x=\"2\" y=\"", fixed(kPhaseTop + double(w) * kWarpRow + 10),
               "\">warp ", w, "</text>");
  double x = kPhaseLeft, named = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const SimtPhase& p = k.phases[i];
    const double width = std::max(1u, longest_of(p)) * scale;
    for (std::size_t w = 0; w < p.warps.size(); ++w) out += warp_bars(p, w, x, scale);
    x += width + gap / 2;
    if (!p.barrier.empty())
      out += str("<path class=\"barrier\" d=\"M", fixed(x), " ", fixed(kPhaseTop - 6), "V",
                 fixed(bottom), "\"><title>barrier at ", chart::html_escape(p.barrier),
                 "</title></path>");
    // Names where there is room for them, some 6.5 a letter.
    if (!p.barrier.empty() && x - named > 6.5 * double(p.barrier.size()) + 8) {
      out += str("<text class=\"tick end\" x=\"", fixed(x), "\" y=\"", fixed(kPhaseTop - 9), "\">",
                 chart::html_escape(p.barrier), "</text>");
      named = x;
    }
    x += gap / 2;
  }
  return str("<svg class=\"phases\" viewBox=\"0 0 ", fixed(kPhaseWidth), " ", fixed(bottom + 4),
             "\" role=\"img\" aria-label=\"warps of the first block between its barriers\">", out,
             "</svg>");
}

}  // namespace wt::tools
