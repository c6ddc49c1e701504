// wt bench roofline
#include <cstdio>

#include "warptape/bench/kernels_cpu.h"
#include "warptape/core/error.h"
#include "warptape/core/input_file.h"
#include "warptape/tools/wt/measure/roofline.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

struct RooflineCommand {
  std::string from;
  bool json = false;
  bench::CpuKernelOptions measure;
};

// The cpu's rows and ceilings as lines of a file.
std::string measured_lines(const bench::CpuKernelOptions& o) {
  const bench::Machine m = bench::describe_machine(Device::cpu());
  std::string lines;
  const bench::CpuCeilings c =
      bench::measure_cpu_kernels(o, [&](const bench::Row& r) { lines += to_json(r, m) + "\n"; });
  bench::Row copy{.bench = "ceiling_copy", .impl = c.copy_by, .shape = "64 MiB", .dtype = "u8"};
  copy.time = c.copy, copy.bytes = c.copy_bytes;
  bench::Row gemm{
      .bench = "ceiling_gemm", .impl = "best", .shape = "1024x1024x1024", .dtype = "f32"};
  gemm.flops = 2.0 * 1024 * 1024 * 1024;
  const double us = gemm.flops / c.gemm_gflop_s * 1e-3;
  gemm.time = {us, us, us, us, 1};
  return to_json(copy, m) + "\n" + to_json(gemm, m) + "\n" + lines;
}

void print_roofline(const Roofline& r) {
  std::printf("%s\ncopy %.1f GB/s", printable_lines(r.machine).c_str(), r.copy_gb_s);
  for (const auto& [dtype, rate] : r.gflop_s)
    if (rate > 0)
      std::printf("; products %s %.1f GFLOP/s, from %.1f FLOPs a byte on",
                  printable_lines(dtype).c_str(), rate, rate / r.copy_gb_s);
  std::printf("\n\n%s\n", draw_roofline(r).c_str());
  std::printf("%-28s %-12s %-26s %-5s %9s %10s %9s  %s\n", "kernel", "variant", "shape", "dtype",
              "FLOP/byte", "GFLOP/s", "GB/s", "of the roof");
  for (const RooflinePoint& p : r.points) {
    char what[128];  // a file's words are anybody's
    std::snprintf(what, sizeof what, "%-28s %-12s %-26s %-5s", p.kernel.c_str(), p.variant.c_str(),
                  p.shape.c_str(), p.dtype.c_str());
    std::printf("%s %9.3g %10.2f %9.2f", printable_lines(what).c_str(), p.intensity, p.gflop_s,
                p.gb_s);
    if (p.fraction > 0) std::printf("  %.2f of %s", p.fraction, p.bound.c_str());
    std::printf("\n");
  }
  flush_stdout();
}

void show(const RooflineCommand& c) {
  if (!c.from.empty()) return print_roofline(roofline_of(read_bench_file(c.from), c.from));
  const std::string lines = measured_lines(c.measure);
  if (c.json) {
    std::printf("%s", lines.c_str());
    return flush_stdout();
  }
  print_roofline(roofline_of(read_bench_lines(lines, "the measurement"), "the measurement"));
}

}  // namespace

void add_bench_roofline(Command bench, int& code) {
  const Command c = bench.add_subcommand(
      "roofline",
      "the kernels under what memory and products allow at their arithmetic intensity: a chart "
      "and a table, of the cpu as wt bench kernels measures it (one thread, f32) or of a file");
  auto o = std::make_shared<RooflineCommand>();
  const Option from =
      c.add_option("--from", o->from,
                   "lines of wt bench roofline --json, or of wt_gpu_bench kernels --json FILE, "
                   "which measures cuda");
  c.add_option("--only", o->measure.only, "this contract, and those of further --only")
      .check(one_of(bench::cpu_kernel_names()))
      .excludes(from);
  c.add_option("--windows", o->measure.windows).check(at_least(1)).excludes(from).show_default();
  c.add_flag("--json", o->json, "one JSON object a line").excludes(from);
  c.callback([o, &code] {
    show(*o);
    code = 0;
  });
}

}  // namespace wt::tools
