#include "warptape/tools/wt/look/roof_picture.h"

#include <algorithm>
#include <cmath>

#include "warptape/core/chart.h"
#include "warptape/core/str.h"
#include "warptape/tools/wt/look/look_figures.h"
#include "warptape/tools/wt/number_text.h"

namespace wt::tools {
namespace {

using chart::fixed;

constexpr double kRoofWidth = 700, kRoofHeight = 270, kRoofLeft = 64, kRoofRight = 14,
                 kRoofTop = 24, kRoofBottom = 34;

struct RoofAxes {
  double x0, x1, y0, y1;  // decades
  double x(double v) const {
    return kRoofLeft + (std::log10(v) - x0) / (x1 - x0) * (kRoofWidth - kRoofLeft - kRoofRight);
  }
  double y(double v) const {
    return kRoofHeight - kRoofBottom -
           (std::log10(v) - y0) / (y1 - y0) * (kRoofHeight - kRoofTop - kRoofBottom);
  }
};

std::string roof_text(double x, double y, const char* style, const std::string& text) {
  return str("<text class=\"", style, "\" x=\"", fixed(x), "\" y=\"", fixed(y), "\">", text,
             "</text>");
}
std::string roof_line(const char* style, double x0, double y0, double x1, double y1) {
  return str("<path class=\"", style, "\" d=\"M", fixed(x0), " ", fixed(y0), "L", fixed(x1), " ",
             fixed(y1), "\"/>");
}

std::string roof_grid(const RoofAxes& a) {
  std::string out;
  for (double d = a.x0; d <= a.x1; ++d) {
    const double x = a.x(std::pow(10, d));
    out += roof_line("grid", x, kRoofTop, x, kRoofHeight - kRoofBottom) +
           roof_text(x, kRoofHeight - kRoofBottom + 15, "tick mid",
                     chart::short_number(std::pow(10, d)));
  }
  for (double d = a.y0; d <= a.y1; ++d) {
    const double y = a.y(std::pow(10, d));
    out += roof_line("grid", kRoofLeft, y, kRoofWidth - kRoofRight, y) +
           roof_text(kRoofLeft - 6, y + 4, "tick end", chart::short_number(std::pow(10, d)));
  }
  return out +
         roof_text((kRoofLeft + kRoofWidth) / 2, kRoofHeight - 4, "tick mid", "FLOPs a byte") +
         roof_text(4, 12, "tick", "GFLOP/s");
}

std::string roof_edge(const RoofAxes& a, double memory, double peak, const char* name) {
  const double bend = peak / memory;
  const double left = std::pow(10, a.x0);
  const double from_x = std::max(left, std::pow(10, a.y0) / memory);
  return roof_line("roof", a.x(from_x), a.y(from_x * memory), a.x(bend), a.y(peak)) +
         roof_line("roof", a.x(bend), a.y(peak), kRoofWidth - kRoofRight, a.y(peak)) +
         roof_text(kRoofWidth - kRoofRight - 2, a.y(peak) - 5, "tick end", str(name));
}

std::string roof_spot(const RoofAxes& a, const RoofPoint& p, const char* style,
                      const std::string& title) {
  return str("<circle class=\"spot ", style, "\" cx=\"", fixed(a.x(p.intensity)), "\" cy=\"",
             fixed(a.y(p.gflop_s)), "\" r=\"5\"><title>", title, "</title></circle>");
}

}  // namespace

double peak_of(const std::string& dtype, bool tensor, const LookGpu& gpu) {
  return tensor ? gpu.tensor_gflop_s : dtype == "f64" ? gpu.f64_gflop_s : gpu.f32_gflop_s;
}

bool on_tensor_cores(const Look& look) {
  for (const LookKernel& k : look.kernels)
    if (k.code && k.code->kernel.find("mma") != std::string::npos) return true;
  return false;
}

RoofPoint under_roof(double flops, double bytes, const std::string& dtype, bool tensor,
                     const LookGpu& gpu) {
  RoofPoint p;
  if (flops <= 0 || bytes <= 0) return p;
  const double peak = peak_of(dtype, tensor, gpu);
  p.intensity = flops / bytes;
  p.gflop_s = std::min(peak, p.intensity * gpu.memory_gb_s);
  p.by_memory = p.gflop_s < peak;
  return p;
}

std::string roof_picture(const Look& look, const LookGpu& gpu) {
  const bool tensor = on_tensor_cores(look);
  const RoofPoint contract = under_roof(look.flops, look.bytes, look.dtype, tensor, gpu);
  if (contract.intensity <= 0) return "";
  const RoofPoint as_touched =
      under_roof(look.flops, figures_of(look).touched, look.dtype, tensor, gpu);
  const double least =
      std::min(contract.intensity, as_touched.intensity > 0 ? as_touched.intensity : 1e9);
  RoofAxes a{std::floor(std::log10(std::min(least, 0.1))), 4, 0, 6};
  a.x1 = std::max(4.0, std::ceil(std::log10(contract.intensity)));
  a.y0 = std::floor(std::log10(std::min(100.0, least * gpu.memory_gb_s / 2)));
  std::string out = roof_grid(a);
  out += roof_edge(a, gpu.memory_gb_s, peak_of(look.dtype, false, gpu),
                   look.dtype == "f64" ? "f64 FMAs" : "f32 FMAs");
  if (look.dtype == "f16" || look.dtype == "bf16")
    out += roof_edge(a, gpu.memory_gb_s, gpu.tensor_gflop_s, "tensor cores");
  if (as_touched.intensity > 0)
    out += roof_spot(
        a, as_touched, "touched",
        str("with the bytes touched here: ", three_digits(as_touched.intensity), " FLOPs a byte"));
  out +=
      roof_spot(a, contract, "contract",
                str("with the contract's bytes: ", three_digits(contract.intensity),
                    " FLOPs a byte, at most ", chart::short_number(contract.gflop_s), " GFLOP/s"));
  return str("<svg class=\"roofline\" viewBox=\"0 0 ", fixed(kRoofWidth), " ", fixed(kRoofHeight),
             "\" role=\"img\" aria-label=\"roofline of an ", gpu.name, "\">", out, "</svg>");
}

}  // namespace wt::tools
