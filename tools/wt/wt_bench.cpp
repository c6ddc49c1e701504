// wt bench WHAT
#include <algorithm>
#include <cstdio>

#include "warptape/bench/gpu/measure.h"
#include "warptape/bench/gpu/problems.h"
#include "warptape/bench/kernels_cpu.h"
#include "warptape/bench/operators.h"
#include "warptape/bench/overhead.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

void print_overhead(const bench::OverheadOptions& o, bool json) {
  const std::vector<bench::OverheadRow> rows = bench::overhead(o);
  const bench::Machine machine = bench::describe_machine(Device::cpu());
  if (!json)
    std::printf("%-10s %-22s %8s %10s %10s %10s %10s %9s\n", "bench", "shape", "threads",
                "median us", "p10", "p90", "min", "mallocs");
  for (const bench::OverheadRow& r : rows) {
    if (!json) {
      std::printf("%-10s %-22s %8d %10.3f %10.3f %10.3f %10.3f %9.3g\n", r.bench.c_str(),
                  r.shape.c_str(), o.threads, r.median_us, r.p10_us, r.p90_us, r.min_us, r.mallocs);
      if (r.roof_gb_s > 0)
        std::printf("%-10s %.2f GB/s; memcpy %.2f: %.2f of it (best window %.2f of %.2f: %.2f)\n",
                    "", r.bytes / r.median_us * 1e-3, r.roof_gb_s,
                    r.bytes / r.median_us * 1e-3 / r.roof_gb_s, r.bytes / r.min_us * 1e-3,
                    r.roof_best_gb_s, r.bytes / r.min_us * 1e-3 / r.roof_best_gb_s);
      if (r.launches >= 0) std::printf("%-10s %.0f launches a step\n", "", r.launches);
      if (r.of_bare >= 0) std::printf("%-10s %.3f of the bare step's time\n", "", r.of_bare);
      continue;
    }
    bench::Row row{.bench = r.bench, .impl = "warptape", .shape = r.shape, .dtype = "f32"};
    row.time = {r.median_us, r.p10_us, r.p90_us, r.min_us, o.fixed_calls ? 1 : o.windows};
    row.peak_bytes = r.peak_bytes;
    row.more = {{"threads", o.threads}, {"mallocs", r.mallocs}, {"calls", double(r.calls)}};
    if (r.launches >= 0) row.more.push_back({"launches", r.launches});
    if (r.of_bare >= 0) row.more.push_back({"of_bare", r.of_bare});
    if (r.check_loss >= 0) row.more.push_back({"check_loss", r.check_loss});
    row.bytes = r.bytes;
    row.roof = r.roof_gb_s;
    if (r.roof_gb_s > 0) row.ratio = r.bytes / r.median_us * 1e-3 / r.roof_gb_s;
    std::printf("%s\n", to_json(row, machine).c_str());
  }
}

constexpr double kGoal = 0.7;  // of the ceiling

void print_kernel(const bench::Row& r) {
  char figures[64];
  if (r.bound == "gemm")
    std::snprintf(figures, sizeof figures, "%7.1f GFLOP/s", r.flops / r.time.min_us * 1e-3);
  else
    std::snprintf(figures, sizeof figures, "%7.2f GB/s   ", r.bytes / r.time.min_us * 1e-3);
  std::printf("%-28s %-12s %-24s %10.1f %10.1f  %s", r.bench.c_str(), r.impl.c_str(),
              r.shape.c_str(), r.time.min_us, r.time.median_us, figures);
  if (r.ratio > 0)
    std::printf(" %6.2f of %s (median %.2f)", r.ratio, r.bound.c_str(), r.more[0].second);
  std::printf("\n");
}

void print_kernels(const bench::CpuKernelOptions& o, bool json) {
  const bench::Machine machine = bench::describe_machine(Device::cpu());
  const double load = bench::load_average();
  std::vector<bench::Row> rows;
  const bench::CpuCeilings c = bench::measure_cpu_kernels(o, [&](const bench::Row& r) {
    if (json) {
      std::printf("%s\n", to_json(r, machine).c_str());
      flush_stdout();
    }
    rows.push_back(r);
  });
  if (json) return;
  std::printf("%s, 1 thread, f32; load average %.2f before, %.2f after\n", machine.host.c_str(),
              load, bench::load_average());
  std::printf("copy (%s): %.2f GB/s at best, %.2f in the median; matmul: %.1f GFLOP/s\n\n",
              c.copy_by, c.copy_gb_s(), c.copy_bytes / c.copy.median_us * 1e-3, c.gemm_gflop_s);
  std::printf("%-28s %-12s %-24s %10s %10s  %s\n", "kernel", "variant", "shape", "min us",
              "median us", "rate, fraction of the ceiling");
  std::stable_sort(rows.begin(), rows.end(), [](const bench::Row& a, const bench::Row& b) {
    return a.ratio < b.ratio;  // those without a ceiling first
  });
  bool above = false;
  int below = 0;
  for (const bench::Row& r : rows) {
    if (r.ratio >= kGoal && !above) {
      std::printf("---- %.1f of the ceiling and more ----\n", kGoal);
      above = true;
    }
    below += r.ratio > 0 && r.ratio < kGoal;
    print_kernel(r);
  }
  std::printf("\n%d of %zu rows are below %.1f of their ceiling\n", below, rows.size(), kGoal);
  for (const std::string& name : bench::missing_rows())
    if (o.only.empty()) std::printf("not measured, no row in bench/gpu: %s\n", name.c_str());
}

void add_kernels(Command bench, int& code) {
  const Command c =
      bench.add_subcommand("kernels",
                           "the cpu's kernels at sizes beyond its caches: time, rate, and the "
                           "fraction of what a copy or "
                           "a product of matrices reaches in the same run, on one thread");
  auto o = std::make_shared<bench::CpuKernelOptions>();
  auto json = std::make_shared<bool>(false);
  auto device = std::make_shared<std::string>("cpu");
  c.add_option("--device", *device, "cpu; wt_gpu_bench measures the others").check(one_of({"cpu"}));
  c.add_flag("--json", *json, "one JSON object a line");
  c.add_option("--windows", o->windows).check(at_least(1)).show_default();
  c.add_option("--only", o->only, "this contract, and those of further --only")
      .check(one_of(bench::cpu_kernel_names()));
  c.callback([o, json, device, &code] {
    print_kernels(*o, *json);
    code = 0;
  });
}

void print_operator(const bench::OperatorRow& r, const bench::OperatorOptions& o,
                    const bench::Machine& machine, bool json) {
  if (json) {
    bench::Row row{.bench = r.name, .impl = "warptape", .shape = r.shape, .dtype = r.dtype};
    row.time = r.time;
    row.more = {{"threads", o.threads}, {"gradients", r.gradients ? 1 : 0}};
    std::printf("%s\n", to_json(row, machine).c_str());
  } else {
    std::printf("%-18s %-48s %-5s %-9s %10.1f %10.1f\n", r.name.c_str(), r.shape.c_str(),
                r.dtype.c_str(), r.gradients ? "gradients" : "forward", r.time.min_us,
                r.time.median_us);
  }
  flush_stdout();
}

void add_operators(Command bench, int& code) {
  const Command c =
      bench.add_subcommand("operators",
                           "operators of the cpu as a user calls them, forward and with "
                           "gradients, at sizes where a missing fast kernel would show; "
                           "bench/peers/operators.py sets PyTorch beside them");
  auto o = std::make_shared<bench::OperatorOptions>();
  auto json = std::make_shared<bool>(false);
  c.add_flag("--json", *json, "one JSON object a line");
  c.add_option("--threads", o->threads).check(at_least(1)).show_default();
  c.add_option("--windows", o->windows).check(at_least(1)).show_default();
  c.add_option("--only", o->only, "this operator, and those of further --only")
      .check(one_of(bench::operator_names()));
  c.callback([o, json, &code] {
    if (!*json)
      std::printf("%-18s %-48s %-5s %-9s %10s %10s\n", "operator", "shape", "dtype", "", "min us",
                  "median us");
    const bench::Machine machine = bench::describe_machine(Device::cpu());
    bench::measure_operators(
        *o, [&](const bench::OperatorRow& r) { print_operator(r, *o, machine, *json); });
    code = 0;
  });
}

}  // namespace

std::vector<std::string> benched_contracts() {
  std::vector<std::string> names;
  for (const bench::ProblemRow& row : bench::problem_rows()) names.push_back(row.contract);
  return names;
}

void add_bench(Command app, int& code) {
  const Command c = app.add_subcommand("bench", "measure");
  c.require_subcommand();
  const Command overhead =
      c.add_subcommand("overhead",
                       "cost of the framework itself: tape_add (us an operator), "
                       "mlp_tiny, mlp_small, mnist_cnn, fashion_cnn, gpt_small, "
                       "adam_step (us a step), adam_launches (one launch for all "
                       "parameters beside a loop over tensors) and watched_step (gpt_small "
                       "profiled, recorded and examined)");
  auto o = std::make_shared<bench::OverheadOptions>();
  auto json = std::make_shared<bool>(false);
  overhead.add_flag("--json", *json, "one JSON object a line");
  overhead.add_option("--threads", o->threads).check(at_least(1)).show_default();
  overhead.add_option("--windows", o->windows).check(at_least(1)).show_default();
  overhead.add_option("--window-s", o->window_s).check(positive()).show_default();
  overhead.add_option("--calls", o->fixed_calls, "one window of exactly this many calls")
      .check(at_least(0));
  overhead.add_option("--only", o->only, "this row, and those of further --only")
      .check(one_of({"tape_add", "mlp_tiny", "mlp_small", "mnist_cnn", "fashion_cnn", "gpt_small",
                     "adam_step", "adam_launches", "watched_step"}));
  overhead.callback([o, json, &code] {
    print_overhead(*o, *json);
    code = 0;
  });
  add_bench_machine(c, code);
  add_bench_loader(c, code);
  add_bench_allreduce(c, code);
  add_bench_overlap(c, code);
  add_bench_scaling(c, code);
  add_operators(c, code);
  add_kernels(c, code);
  add_bench_model(c, code);
  add_bench_counters(c, code);
  add_bench_compare(c, code);
  add_bench_ladder(c, code);
  add_bench_gemm(c, code);
  add_bench_roofline(c, code);
  add_bench_generate(c, code);
  add_bench_step(c, code);
  add_bench_throughput(c, code);
}

}  // namespace wt::tools
