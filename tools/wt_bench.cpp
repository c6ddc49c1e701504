// wt bench WHAT
#include <cstdio>

#include "warptape/bench/overhead.h"
#include "warptape/core/build_info.h"
#include "warptape/core/json.h"
#include "warptape/tools/wt.h"

namespace wt::tools {
namespace {

std::string machine_name() {
  std::FILE* f = std::fopen("/proc/cpuinfo", "r");
  if (!f) return "unknown";
  char line[256];
  std::string name = "unknown";
  while (std::fgets(line, sizeof line, f)) {
    const std::string text(line);
    if (!text.starts_with("model name")) continue;
    name = text.substr(text.find(':') + 2);
    name.erase(name.find_last_not_of(" \n") + 1);
    break;
  }
  std::fclose(f);
  return name;
}

void print_overhead(const bench::OverheadOptions& o, bool json) {
  const std::vector<bench::OverheadRow> rows = bench::overhead(o);
  if (!json)
    std::printf("%-10s %-22s %8s %10s %10s %10s %10s %9s\n", "bench", "shape", "threads",
                "median us", "p10", "p90", "min", "mallocs");
  for (const bench::OverheadRow& r : rows) {
    if (!json) {
      std::printf("%-10s %-22s %8d %10.3f %10.3f %10.3f %10.3f %9.3g\n", r.bench.c_str(),
                  r.shape.c_str(), o.threads, r.median_us, r.p10_us, r.p90_us, r.min_us, r.mallocs);
      continue;
    }
    JsonObject j;
    j.add("bench", r.bench).add("impl", "warptape").add("device", "cpu").add("shape", r.shape);
    j.add("dtype", "f32").add("median_us", r.median_us).add("p10_us", r.p10_us);
    j.add("p90_us", r.p90_us).add("min_us", r.min_us).add_null("gb_s").add_null("tflop_s");
    j.add_null("roof").add_null("ratio").add("peak_bytes", r.peak_bytes);
    j.add("commit", build_info().commit).add("machine", machine_name()).add_null("driver");
    j.add("threads", o.threads).add("mallocs", r.mallocs).add("windows", o.windows);
    j.add("calls", r.calls);
    std::printf("%s\n", j.str().c_str());
  }
}

}  // namespace

void add_bench(CLI::App& app, int& code) {
  CLI::App* c = app.add_subcommand("bench", "measure");
  c->require_subcommand(1);
  CLI::App* overhead = c->add_subcommand("overhead",
                                         "cost of the framework itself: tape_add (us an operator), "
                                         "mlp_tiny and mlp_small (us a step)");
  auto o = std::make_shared<bench::OverheadOptions>();
  auto json = std::make_shared<bool>(false);
  overhead->add_flag("--json", *json, "one JSON object a line");
  overhead->add_option("--threads", o->threads)->check(CLI::PositiveNumber)->capture_default_str();
  overhead->add_option("--windows", o->windows)->check(CLI::PositiveNumber)->capture_default_str();
  overhead->add_option("--window-s", o->window_s)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  overhead->add_option("--calls", o->fixed_calls, "one window of exactly this many calls");
  overhead->add_option("--only", o->only, "this row, and those of further --only")
      ->check(CLI::IsMember({"tape_add", "mlp_tiny", "mlp_small"}));
  overhead->callback([o, json, &code] {
    print_overhead(*o, *json);
    code = 0;
  });
}

}  // namespace wt::tools
