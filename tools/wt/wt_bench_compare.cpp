// wt bench compare
#include <cmath>
#include <cstdio>

#include "warptape/bench/variants.h"
#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/tools/wt/measure/comparison.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

struct CompareCommand {
  std::string a, b, contract, device = "cpu", dtype = "f32", scale = "host", of = "median";
  int rounds = 7;
  bool json = false;
  CompareOptions compare;
};

TimedFile timings_in(const std::string& path, const std::string& of) {
  const TimedFile f = timings_of(read_bench_file(path), of + "_us");
  if (f.rows.empty())
    throw DataError(str(path, ": no line has ", of, "_us: what was not timed cannot be compared"));
  return f;
}

std::string percent(double ratio) {
  if (!std::isfinite(ratio)) return "?";
  char text[32];
  std::snprintf(text, sizeof text, "%+.1f %%", (ratio - 1) * 100);
  return text;
}

void print_comparison(const Comparison& c, bool json) {
  if (json) {
    JsonObject j;
    j.add("bench", c.name).add("a", c.variant_a).add("b", c.variant_b).add("pairs", c.pairs);
    j.add("ratio", c.ratio).add("low", c.low).add("high", c.high);
    j.add("least", c.least).add("most", c.most).add("verdict", verdict_text(c.verdict));
    std::printf("%s\n", j.str().c_str());
    return;
  }
  const bool other = c.variant_a != c.variant_b;
  std::printf("%-52s %5d %8.4f  %9s to %9s  %s%s\n", c.name.c_str(), c.pairs, c.ratio,
              c.low > 0 ? percent(c.low).c_str() : "?", percent(c.high).c_str(),
              verdict_text(c.verdict),
              other ? str(" (", c.variant_a, ", ", c.variant_b, ")").c_str() : "");
}

void print_comparisons(const std::vector<Comparison>& all, const CompareCommand& c) {
  if (!c.json) {
    std::printf(
        "time of B by time of A; below 1 B is faster. The interval holds for all rows together "
        "with %.0f %%;\nwithin %.1f %% nothing is called a difference, nor from fewer than %d "
        "pairs of runs\n\n",
        c.compare.confidence * 100, c.compare.margin * 100, kLeastPairs);
    std::printf("%-52s %5s %8s  %22s\n", "", "pairs", "ratio", "interval");
  }
  int counts[5] = {};
  for (const Comparison& one : all) {
    print_comparison(one, c.json);
    ++counts[int(one.verdict)];
  }
  if (c.json) return;
  std::printf("\n");
  for (const Verdict v :
       {Verdict::faster, Verdict::slower, Verdict::same, Verdict::undecided, Verdict::too_few})
    if (counts[int(v)]) std::printf("%s: %d of %zu\n", verdict_text(v), counts[int(v)], all.size());
}

void compare_two_files(const CompareCommand& c) {
  const TimedFile a = timings_in(c.a, c.of), b = timings_in(c.b, c.of);
  if (a.machine != b.machine)
    std::fprintf(stderr, "measured on different machines: %s; %s\n",
                 printable_lines(a.machine).c_str(), printable_lines(b.machine).c_str());
  std::vector<std::string> alone;
  const std::vector<Comparison> all = compare_files(a, b, c.compare, &alone);
  if (all.empty()) throw DataError(str(c.a, " and ", c.b, " have no row in common"));
  print_comparisons(all, c);
  if (!alone.empty())
    std::fprintf(stderr, "%zu row%s in one file only, the first: %s\n", alone.size(),
                 alone.size() == 1 ? " is" : "s are", printable_lines(alone[0]).c_str());
}

void compare_two_variants(const CompareCommand& c) {
  const Device d = Device::parse(c.device.c_str());
  if (d.kind == DeviceKind::simt)
    throw UsageError(
        "--device: times on simt say nothing of a GPU; wt bench counters compares there");
  require_available(d);
  bench::PairOptions o{.contract = c.contract, .a = c.a, .b = c.b, .device = d};
  o.dtype = float_named(c.dtype);
  o.scale = c.scale == "small" ? bench::Scale::small : bench::Scale::host;
  o.rounds = c.rounds;
  const std::vector<bench::PairedTimes> times = bench::time_in_pairs(o);
  std::vector<Comparison> all;
  for (const bench::PairedTimes& t : times) {
    const std::string name = str(c.contract, " ", t.shape, " ", c.dtype, " ", to_string(d));
    all.push_back(
        compare_runs({name, c.a, t.a_us}, {name, c.b, t.b_us}, c.compare, int(times.size())));
  }
  print_comparisons(all, c);
}

}  // namespace

void add_bench_compare(Command bench, int& code) {
  const Command c = bench.add_subcommand(
      "compare",
      "ratios of two sets of measurements with a confidence interval, and whether they differ: "
      "two files of `wt bench ... --json`, or two variants of a kernel, timed in turns");
  auto o = std::make_shared<CompareCommand>();
  c.add_option("A", o->a, "file, or with --kernel a variant").required();
  c.add_option("B", o->b, "file, or with --kernel a variant").required();
  c.add_option("--of", o->of, "of each run's times the median or the min (files)")
      .check(one_of({"median", "min"}))
      .show_default();
  c.add_option("--margin", o->compare.margin, "differences up to this part are none")
      .check(not_negative())
      .show_default();
  c.add_option("--confidence", o->compare.confidence).check(from_0_to(0.9999)).show_default();
  const Option kernel =
      c.add_option("--kernel", o->contract, "A and B are variants of this contract")
          .check(one_of(benched_contracts));
  c.add_option("--device", o->device, "cpu, on one thread, or cuda:N").needs(kernel).show_default();
  c.add_option("--dtype", o->dtype)
      .needs(kernel)
      .check(one_of({"f32", "f16", "bf16", "f64"}))
      .show_default();
  c.add_option("--scale", o->scale, "small: odd sizes; host: 64 MiB an operand")
      .needs(kernel)
      .check(one_of({"small", "host"}))
      .show_default();
  c.add_option("--rounds", o->rounds, "of A B B A, a pair each")
      .needs(kernel)
      .check(at_least(1))
      .show_default();
  c.add_flag("--json", o->json, "one JSON object a line");
  c.callback([o, &code] {
    if (o->contract.empty())
      compare_two_files(*o);
    else
      compare_two_variants(*o);
    flush_stdout();
    code = 0;
  });
}

}  // namespace wt::tools
