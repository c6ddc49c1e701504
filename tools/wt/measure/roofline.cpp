#include "warptape/tools/wt/measure/roofline.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "warptape/bench/gpu/measure.h"
#include "warptape/core/chart.h"
#include "warptape/core/error.h"
#include "warptape/core/str.h"

namespace wt::tools {
namespace {

constexpr double kLeastBytes = 1e6;  // below, the time is that of a launch

// A logarithmic axis over `cells` characters.
class LogAxis {
 public:
  LogAxis(double low, double high, int cells)
      : low_(std::log10(low)), step_((std::log10(high) - low_) / cells), cells_(cells) {}
  int cell(double v) const {
    return std::clamp(int(std::floor((std::log10(v) - low_) / step_)), 0, cells_ - 1);
  }
  double middle(int cell) const { return std::pow(10, low_ + (cell + 0.5) * step_); }
  // The power of ten that begins in a cell; 0: none does.
  double decade_in(int cell) const {
    const double power = std::ceil(low_ + cell * step_ - 1e-9);
    return power < low_ + (cell + 1) * step_ - 1e-9 ? std::pow(10, power) : 0;
  }

 private:
  double low_, step_;
  int cells_;
};

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  void hold(double v) { low = std::min(low, v), high = std::max(high, v); }
};

void add_ceiling(Roofline& r, const BenchLine& l) {
  if (l.word("bench") == "ceiling_copy") r.copy_gb_s = l.number("gb_s");
  if (l.word("bench") == "ceiling_gemm") r.gflop_s[l.word("dtype")] = l.number("tflop_s") * 1e3;
}

// Products have both roofs, what is no product memory's alone, as in all benchmarks.
void compare_with_roof(const Roofline& r, RooflinePoint& p) {
  const bool is_product = bench::is_product(p.kernel);
  const double copy = p.gb_s / r.copy_gb_s;
  const double peak = r.peak(p.dtype);
  const double product = is_product && peak > 0 ? p.gflop_s / peak : 0;
  if (is_product && product == 0) return;
  p.fraction = std::max(copy, product);
  p.bound = product > copy ? "gemm" : "copy";
}

std::vector<std::string> empty_grid(const Roofline& r, const LogAxis& x, const LogAxis& y,
                                    int columns, int rows) {
  std::vector<std::string> grid(size_t(rows), std::string(size_t(columns), ' '));
  std::vector<std::string> dtypes{""};  // memory alone, then all products
  for (const auto& [dtype, rate] : r.gflop_s)
    if (rate > 0) dtypes.push_back(dtype);
  if (dtypes.size() > 1) dtypes.erase(dtypes.begin());
  for (const std::string& dtype : dtypes)
    for (int c = 0; c < columns; ++c) {
      const double at = x.middle(c), roof = r.roof(at, dtype);
      const bool flat = roof < r.copy_gb_s * at * 0.999;
      grid[size_t(y.cell(roof))][size_t(c)] = flat ? '-' : '/';
    }
  return grid;
}

void count_point(char& cell) {
  if (cell == 'o')
    cell = '2';
  else if (cell >= '2' && cell < '9')
    ++cell;
  else if (cell == '9' || cell == '+')
    cell = '+';
  else
    cell = 'o';
}

std::string axis_below(const LogAxis& x, int columns) {
  std::string ticks(size_t(columns), '-'), labels(size_t(columns) + 8, ' ');
  for (int c = 0; c < columns; ++c) {
    const double decade = x.decade_in(c);
    if (decade == 0) continue;
    ticks[size_t(c)] = '+';
    const std::string text = chart::short_number(decade);
    labels.replace(size_t(c), text.size(), text);
  }
  labels.erase(labels.find_last_not_of(' ') + 1);
  return str("         +", ticks, "\n          ", labels, "\n");
}

}  // namespace

double Roofline::peak(const std::string& dtype) const {
  auto found = gflop_s.find(dtype);
  if (found == gflop_s.end() && dtype == "f16") found = gflop_s.find("bf16");
  return found == gflop_s.end() ? 0 : found->second;
}

double Roofline::roof(double intensity, const std::string& dtype) const {
  const double memory = copy_gb_s * intensity, products = peak(dtype);
  return products > 0 ? std::min(memory, products) : memory;
}

Roofline roofline_of(const std::vector<BenchLine>& lines, const std::string& path) {
  Roofline r;
  for (const BenchLine& l : lines) add_ceiling(r, l);
  if (!(r.copy_gb_s > 0))
    throw DataError(str(path,
                        ": no line of ceiling_copy, so there is no roof (wt bench roofline --json "
                        "and wt_gpu_bench kernels --json write one)"));
  for (const BenchLine& l : lines) {
    if (r.machine.empty()) r.machine = l.word("machine");
    const double bytes = l.number("gb_s") * l.number("median_us") * 1e3;
    if (l.word("bench").starts_with("ceiling_") || bytes < kLeastBytes) continue;
    RooflinePoint p{l.word("bench"), l.word("impl"),   l.word("shape"),
                    l.word("dtype"), l.number("gb_s"), l.number("tflop_s") * 1e3};
    p.intensity = p.gflop_s / p.gb_s;
    compare_with_roof(r, p);
    r.points.push_back(std::move(p));
  }
  std::stable_sort(r.points.begin(), r.points.end(),
                   [](const auto& a, const auto& b) { return a.intensity < b.intensity; });
  return r;
}

std::string draw_roofline(const Roofline& r, int columns, int rows) {
  Range x, y;
  for (const RooflinePoint& p : r.points)
    if (p.gflop_s > 0) x.hold(p.intensity), y.hold(p.gflop_s);
  if (x.high == 0) return "";
  for (const auto& [dtype, rate] : r.gflop_s)
    if (rate > 0) x.hold(rate / r.copy_gb_s), y.hold(rate);
  x.low /= 2, x.high *= 2;
  y.hold(r.copy_gb_s * x.low);
  if (r.gflop_s.empty()) y.hold(r.copy_gb_s * x.high);
  const LogAxis across(x.low, x.high, columns), up(y.low / 1.5, y.high * 1.5, rows);
  std::vector<std::string> grid = empty_grid(r, across, up, columns, rows);
  for (const RooflinePoint& p : r.points)
    if (p.gflop_s > 0)
      count_point(grid[size_t(up.cell(p.gflop_s))][size_t(across.cell(p.intensity))]);
  std::string text = " GFLOP/s\n";
  for (int row = rows - 1; row >= 0; --row) {
    const double decade = up.decade_in(row);
    char label[16];
    std::snprintf(label, sizeof label, "%8s",
                  decade > 0 ? chart::short_number(decade).c_str() : "");
    text += str(label, " |", grid[size_t(row)], "\n");
  }
  return text + axis_below(across, columns) + "          FLOPs a byte\n";
}

}  // namespace wt::tools
