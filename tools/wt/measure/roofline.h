// The roofline model: what memory and products allow at a kernel's arithmetic intensity (Williams,
// Waterman and Patterson 2009), from the lines of benchmarks.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "warptape/tools/wt/measure/bench_lines.h"

namespace wt::tools {

struct RooflinePoint {
  std::string kernel, variant, shape, dtype;
  double gb_s = 0, gflop_s = 0;  // in the median; no FLOPs: a copy
  double intensity = 0;          // FLOPs a byte that must move
  double fraction = 0;           // of what the roof allows there; 0: it has none
  std::string bound{};           // "copy", "gemm" or ""
};
struct Roofline {
  std::string machine;
  double copy_gb_s = 0;                   // bytes read and written by a copy
  std::map<std::string, double> gflop_s;  // of the best product, by dtype
  std::vector<RooflinePoint> points;      // by intensity

  // GFLOP/s of the best product, f16's as bf16's where it has none of its own. 0: not measured.
  double peak(const std::string& dtype) const;
  // GFLOP/s at an intensity. Without a product's rate for the dtype what memory allows.
  double roof(double intensity, const std::string& dtype) const;
};
// Of lines with `gb_s` and `tflop_s`, the ceilings among them: ceiling_copy and ceiling_gemm, the
// last of each. What moves less than 1 MB is left out: its time is that of a launch. DataError
// where no copy was measured.
Roofline roofline_of(const std::vector<BenchLine>& lines, const std::string& path);

// A chart of characters, both axes logarithmic: the roof of each dtype, o where a kernel lies, a
// digit where several do, + where ten or more. "" where no point has FLOPs.
std::string draw_roofline(const Roofline& r, int columns = 76, int rows = 20);

}  // namespace wt::tools
