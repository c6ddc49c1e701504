// wt bench scaling
#include <cstdio>
#include <thread>

#include "warptape/bench/kernels_cpu.h"
#include "warptape/bench/scaling.h"
#include "warptape/tools/wt/comm_options.h"
#include "warptape/tools/wt/number_text.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

struct ScalingCommand {
  bench::ScalingOptions measure;
  bool json = false;
};

std::string shape_of(const bench::ScalingOptions& o) {
  return str("784-", o.width, "x", o.layers, "-10 b", o.batch);
}

void print_head(const bench::ScalingOptions& o) {
  std::printf(
      "Weak scaling: perceptron %s, %lld samples a rank; a rank is a thread, on %u processors\n"
      "wires' model: %s; load average %.1f\n\n"
      "%5s %14s %14s %10s %17s %14s %10s\n",
      shape_of(o).c_str(), static_cast<long long>(o.batch), std::thread::hardware_concurrency(),
      bench::wires_text(o.world).c_str(), bench::load_average(), "ranks", "computation ms",
      "buckets ms", "efficiency", "p10 to p90", "replicated ms", "efficiency");
}

void print_row(const bench::ScalingRow& r) {
  // A ratio that is small is an efficiency that is large.
  char spread[32], replicated[32] = "             -          -";
  std::snprintf(spread, sizeof spread, "%.1f to %.1f %%", 100 / r.of_alone.p90_us,
                100 / r.of_alone.p10_us);
  if (r.replicate.samples > 0)
    std::snprintf(replicated, sizeof replicated, "%14.3f %8.1f %%", r.replicate.median_us * 1e-3,
                  100 * r.replicate_efficiency);
  std::printf("%5d %14.3f %14.3f %8.1f %% %17s %s\n", r.ranks, r.alone.median_us * 1e-3,
              r.buckets.median_us * 1e-3, 100 * r.efficiency, spread, replicated);
}

void print_foot(const bench::ScalingOptions& o) {
  std::printf(
      "\ncomputation: as many ranks at once that send nothing; with more ranks than processors "
      "they "
      "take\nturns, so that efficiency, computation / step of the same turn, is what communication "
      "costs.\nOf one rank it is the cost of DataParallel itself. buckets: dist::DataParallel "
      "(PyTorch's\nDistributedDataParallel), %s a bucket. replicated: as PyTorch's DataParallel, "
      "parameters out\nand gradients in through rank 0 every step.\n",
      bytes_text(o.bucket_bytes).c_str());
}

void print_json(const bench::ScalingOptions& o, const bench::ScalingRow& r,
                const bench::Machine& machine) {
  bench::Row row{.bench = "scaling", .impl = "local", .dtype = "f32"};
  row.shape = str(r.ranks, " ranks ", shape_of(o));
  row.time = r.buckets;
  row.more = {{"ranks", r.ranks},
              {"processors", double(std::thread::hardware_concurrency())},
              {"compute_us", r.alone.median_us},
              {"of_compute", r.of_alone.median_us},
              {"of_compute_p10", r.of_alone.p10_us},
              {"of_compute_p90", r.of_alone.p90_us},
              {"efficiency", r.efficiency},
              {"latency_us", o.world.latency_us},
              {"link_gb_s", o.world.gb_s}};
  if (r.replicate.samples > 0) {
    row.more.push_back({"replicated_us", r.replicate.median_us});
    row.more.push_back({"replicated_efficiency", r.replicate_efficiency});
  }
  std::printf("%s\n", to_json(row, machine).c_str());
}

void show_scaling(const ScalingCommand& c) {
  const bench::Machine machine = bench::describe_machine(Device::cpu());
  if (!c.json) print_head(c.measure);
  bench::measure_scaling(c.measure, [&](const bench::ScalingRow& r) {
    c.json ? print_json(c.measure, r, machine) : print_row(r);
    flush_stdout();
  });
  if (!c.json) print_foot(c.measure);
  flush_stdout();
}

}  // namespace

void add_bench_scaling(Command bench, int& code) {
  const Command c =
      bench.add_subcommand("scaling",
                           "data parallelism over 1, 2, 4, 8 ranks that are threads, "
                           "each with as many samples: how much "
                           "of a step is left for computation, and what PyTorch's older "
                           "way, one process that copies the "
                           "model to all, would cost");
  auto o = std::make_shared<ScalingCommand>();
  bench::ScalingOptions& m = o->measure;
  c.add_option("--ranks", m.ranks, "several, with commas")
      .delimiter(',')
      .check(at_least(1))
      .show_default();
  add_link_options(c, m.world);
  add_perceptron_options(c, m);
  c.add_option("--turns", m.turns, "measured").check(at_least(1)).show_default();
  c.add_flag("--json", o->json, "one JSON object a line");
  c.callback([o, &code] {
    show_scaling(*o);
    code = 0;
  });
}

}  // namespace wt::tools
