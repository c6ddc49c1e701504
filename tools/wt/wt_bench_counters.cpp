// wt bench counters
#include <cstdio>

#include "warptape/bench/counters.h"
#include "warptape/bench/gpu/measure.h"
#include "warptape/tools/wt/look/source_lines.h"
#include "warptape/tools/wt/look/text_listing.h"
#include "warptape/tools/wt/profile/instrumented.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

struct CountersCommand {
  bench::CounterOptions count;
  std::string dtype = "f32", scale = "small", source = ".";
  bool json = false;
};

double per(double a, double b) { return b > 0 ? a / b : 0; }

void print_head() {
  std::printf(
      "counted on simt, not timed: a GPU's caches, its own merging of accesses and its clock are "
      "not "
      "in these numbers\n"
      "lanes: active of 32 in an access; sectors (32 bytes) and passes over shared memory's banks: "
      "a "
      "warp's access, \"of\" the fewest possible\n"
      "asked, touched: bytes of all sectors, and of different ones, by the bytes that the contract "
      "has to move\n\n");
  std::printf("%-24s %-14s %-26s %5s %15s %15s %15s %9s %6s %7s\n", "contract", "variant", "shape",
              "lanes", "load sectors", "store sectors", "shared passes", "barriers", "asked",
              "touched");
}

std::string figure(const bench::AccessSums& s) {
  if (s.requests == 0) return "-";
  char text[48];
  std::snprintf(text, sizeof text, "%.2f of %.2f", s.units / s.requests, s.least / s.requests);
  return text;
}

void print_row(const bench::CounterRow& r) {
  const double requests = r.loads.requests + r.stores.requests + r.shared.requests;
  std::printf("%-24s %-14s %-26s %5.1f %15s %15s %15s %9.0f %6.2f %7.2f\n", r.contract.c_str(),
              r.variant.c_str(), r.shape.c_str(),
              per(r.loads.lanes + r.stores.lanes + r.shared.lanes, requests),
              figure(r.loads).c_str(), figure(r.stores).c_str(), figure(r.shared).c_str(),
              r.barriers, per(r.asked(), r.bytes), per(r.read + r.written, r.bytes));
}

void print_json(const bench::CounterRow& r) {
  bench::Row row{.bench = r.contract, .impl = r.variant, .shape = r.shape, .dtype = r.dtype};
  const auto add = [&](const std::string& name, const bench::AccessSums& s) {
    row.more.push_back({name + "_requests", s.requests});
    row.more.push_back({name + "_lanes", s.lanes});
    row.more.push_back({name + "_units", s.units});
    row.more.push_back({name + "_least", s.least});
  };
  add("load", r.loads), add("store", r.stores), add("shared", r.shared);
  row.more.push_back({"contract_bytes", r.bytes});
  row.more.push_back({"contract_flops", r.flops});
  row.more.push_back({"asked_bytes", r.asked()});
  row.more.push_back({"read_bytes", r.read});
  row.more.push_back({"written_bytes", r.written});
  row.more.push_back({"barriers", r.barriers});
  row.more.push_back({"threads", r.threads});
  std::string kernels;
  for (const SimtKernelCounts& k : r.kernels) kernels += (kernels.empty() ? "" : "; ") + k.kernel;
  row.words.push_back({"kernels", kernels});
  std::printf("%s\n", to_json(row, bench::describe_machine(Device::simt())).c_str());
}

int count(const CountersCommand& c) {
  become_instrumented();
  int rows = 0;
  if (!c.json) print_head();
  bench::count_kernels(c.count, [&](const bench::CounterRow& r) {
    ++rows;
    if (c.json) return print_json(r), flush_stdout();
    print_row(r);
    if (c.count.lines)
      for (const SimtKernelCounts& k : r.kernels)
        std::printf("%s\n", text_listing(k, [&](const std::string& path) {
                              return source_lines(c.source, path);
                            }).c_str());
    flush_stdout();
  });
  if (rows == 0)
    throw UsageError(str("nothing to count: no variant on simt takes this (", c.dtype,
                         c.count.variant.empty() ? "" : ", --variant " + c.count.variant, ")"));
  return 0;
}

}  // namespace

int print_counters(const std::vector<std::string>& contracts, const std::string& dtype) {
  CountersCommand c;
  c.count.only = contracts, c.dtype = dtype;
  c.count.dtype = float_named(dtype);
  return count(c);
}

void add_bench_counters(Command bench, int& code) {
  const Command c =
      bench.add_subcommand("counters",
                           "no time: sectors and active lanes of each access to device memory, "
                           "bank conflicts, and bytes "
                           "beside what the contract has to move, of every variant on simt");
  auto o = std::make_shared<CountersCommand>();
  c.add_option("--only", o->count.only, "this contract, and those of further --only")
      .check(one_of(benched_contracts));
  c.add_option("--variant", o->count.variant, "this one alone");
  c.add_flag("--defaults", o->count.defaults,
             "only the variants that an operator takes by default");
  c.add_option("--dtype", o->dtype).check(one_of({"f32", "f16", "bf16", "f64"})).show_default();
  c.add_option("--scale", o->scale,
               "small: odd sizes, seconds; host: 64 MiB an operand, minutes a variant")
      .check(one_of({"small", "host"}))
      .show_default();
  c.add_option("--shape", o->count.shape, "the n-th shape alone, from 0").check(at_least(0));
  c.add_flag("--lines", o->count.lines,
             "the accesses beside the lines of the source that make them");
  c.add_option("--source", o->source, "folder of warptape's sources, for --lines").show_default();
  c.add_flag("--json", o->json, "one JSON object a line");
  c.callback([o, &code] {
    o->count.dtype = float_named(o->dtype);
    o->count.scale = o->scale == "small" ? bench::Scale::small : bench::Scale::host;
    code = count(*o);
  });
}

}  // namespace wt::tools
