// wt bench ladder
#include <cstdio>

#include "warptape/bench/step_ladder.h"
#include "warptape/bench/variants.h"
#include "warptape/core/input_file.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

struct LadderCommand {
  std::vector<std::string> ops;
  std::string device = "cpu", dtype = "f32", scale = "host", model;
  int windows = 5;
  bool json = false;
};

void print_ladder(const bench::Ladder& l) {
  std::printf("%s %s\n", l.contract.c_str(), l.shape.c_str());
  double plainest = 0, before = 0;
  for (const bench::Rung& r : l.rungs) {
    if (!r.why_not.empty()) {
      std::printf("  %-16s %10s  %s\n", r.variant.c_str(), "-", printable_lines(r.why_not).c_str());
      continue;
    }
    const double us = r.time.median_us;
    if (plainest == 0) plainest = before = us;
    std::printf(
        "  %-16s %10.1f %8.2f GB/s %9.2f GFLOP/s  %7.2f x the plainest  %6.2f x the one above%s\n",
        r.variant.c_str(), us, l.bytes / us * 1e-3, l.flops / us * 1e-3, plainest / us, before / us,
        r.chosen ? "  <- chosen" : "");
    before = us;
  }
}

void print_steps(const bench::StepLadders& all, const LadderCommand& c, Device d) {
  std::printf("%s, %s: us a step in the median of %d, the plainest rung first; f32, %s%s\n",
              c.model.c_str(), all.shape.c_str(), c.windows, to_string(d).c_str(),
              d.kind == DeviceKind::cpu ? ", one thread" : "");
  for (const bench::StepLadder& l : all.ladders) {
    if (l.launches == 0) {
      std::printf("\n%s: no launch in a step of %s\n", l.contract.c_str(), c.model.c_str());
      continue;
    }
    std::printf("\n%s, %d launches a step, chosen: %s (%.1f)\n", l.contract.c_str(), l.launches,
                joined(l.chosen).c_str(), l.step.median_us);
    for (const bench::StepRung& r : l.rungs) {
      if (!r.why_not.empty())
        std::printf("  %-16s %12s  %s\n", r.variant.c_str(), "-",
                    printable_lines(r.why_not).c_str());
      else
        std::printf("  %-16s %12.1f  %6.2f of the step as chosen\n", r.variant.c_str(),
                    r.time.median_us, r.time.median_us / l.step.median_us);
    }
  }
}

void print_steps_json(const bench::StepLadders& all, const LadderCommand& c, Device d) {
  const bench::Machine machine = bench::describe_machine(d);
  const auto print = [&](const std::string& variant, const bench::Timing& time, int launches) {
    bench::Row row{.bench = c.model, .impl = variant, .shape = all.shape, .dtype = "f32"};
    row.time = time;
    row.more = {{"launches", launches}};
    std::printf("%s\n", to_json(row, machine).c_str());
  };
  for (const bench::StepLadder& l : all.ladders) {
    if (l.launches > 0) print(l.contract + ":chosen", l.step, l.launches);
    for (const bench::StepRung& r : l.rungs)
      if (r.why_not.empty()) print(l.contract + ":" + r.variant, r.time, l.launches);
  }
}

int climb_in_steps(const LadderCommand& c, const std::vector<std::string>& contracts, Device d) {
  if (d.kind == DeviceKind::simt)
    throw UsageError("--model: simt's time says nothing; cpu and cuda have steps to time");
  require_available(d);
  const bench::StepLadders all = bench::time_step_ladders({c.model, contracts, d, c.windows});
  if (c.json)
    print_steps_json(all, c, d);
  else
    print_steps(all, c, d);
  flush_stdout();
  return 0;
}

int climb(const LadderCommand& c) {
  const std::vector<std::string> contracts = contracts_of(c.ops);
  const Device d = Device::parse(c.device.c_str());
  if (!c.model.empty()) return climb_in_steps(c, contracts, d);
  if (d.kind == DeviceKind::simt && c.json)
    throw UsageError("--json: wt bench counters --json has the figures of simt");
  if (d.kind == DeviceKind::simt) return print_counters(contracts, c.dtype);
  require_available(d);
  const DType t = float_named(c.dtype);
  const bench::Scale scale = c.scale == "small"  ? bench::Scale::small
                             : c.scale == "host" ? bench::Scale::host
                                                 : bench::Scale::real;
  const std::vector<bench::Ladder> all = bench::time_ladders(contracts, d, t, scale, c.windows);
  if (all.empty())
    throw UsageError(str("nothing to time: no size of ", c.dtype, " is known for ", contracts[0]));
  const bench::Machine machine = bench::describe_machine(d);
  if (!c.json)
    std::printf("us in the median of %d, the plainest rung first; %s, %s%s\n\n", c.windows,
                c.dtype.c_str(), to_string(d).c_str(),
                d.kind == DeviceKind::cpu ? ", one thread's processor time" : "");
  for (const bench::Ladder& l : all) {
    if (c.json)
      bench::print_json_lines(l, c.dtype, machine);
    else
      print_ladder(l);
    flush_stdout();
  }
  return 0;
}

}  // namespace

void add_bench_ladder(Command bench, int& code) {
  const Command c = bench.add_subcommand("ladder",
                                         "the variants of a kernel beside each other, from the "
                                         "plainest to the best: their times on cpu "
                                         "and cuda, what they ask of memory on simt");
  auto o = std::make_shared<LadderCommand>();
  c.add_option("--op", o->ops, "this kernel or operator, and those of further --op").required();
  c.add_option("--device", o->device, "cpu, on one thread, cuda:N or simt").show_default();
  const Option model = c.add_option(
      "--model", o->model,
      "whole training steps (f32) of this model of wt bench overhead, in which each variant takes "
      "every launch of its kernel");
  model.check(one_of(bench::step_models()));
  c.add_option("--dtype", o->dtype)
      .check(one_of({"f32", "f16", "bf16", "f64"}))
      .excludes(model)
      .show_default();
  c.add_option(
       "--scale", o->scale,
       "small: odd sizes, and what simt counts at; host: 64 MiB an operand; real: fills a GPU")
      .check(one_of({"small", "host", "real"}))
      .excludes(model)
      .show_default();
  c.add_option("--windows", o->windows, "times of each; one of what takes over a second")
      .check(at_least(1))
      .show_default();
  c.add_flag("--json", o->json, "one JSON object a line");
  c.callback([o, &code] { code = climb(*o); });
}

}  // namespace wt::tools
