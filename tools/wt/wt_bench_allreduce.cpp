// wt bench allreduce
#include <cstdio>

#include "warptape/bench/allreduce.h"
#include "warptape/core/memory/out_of_memory.h"
#include "warptape/tools/wt/comm_options.h"
#include "warptape/tools/wt/exit_codes.h"
#include "warptape/tools/wt/measure/comm_paper.h"
#include "warptape/tools/wt/number_text.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

using Kind = dist::Call::Kind;

struct AllReduceCommand {
  bench::AllReduceOptions measure;
  std::string collective = "all_reduce", dtype = "f32";
  std::vector<std::string> algorithms{"automatic"};
  bool to_given = false, json = false, paper = false;
};

Kind collective_named(const std::string& name) {
  for (const Kind k : {Kind::reduce_scatter, Kind::all_gather, Kind::broadcast})
    if (name == to_string(k)) return k;
  return Kind::all_reduce;
}

// Half of what the host has free; more would be swapped or end the process.
i64 largest_that_fits(const AllReduceCommand& c) {
  i64 bytes = c.measure.to;
  const i64 room = detail::available_memory() / 2;
  while (bytes > c.measure.from && bench::allreduce_memory(bytes, c.measure.world.ranks) > room)
    bytes /= 2;
  return bytes;
}

void print_head(const AllReduceCommand& c, const bench::AllReduceRow& r,
                const bench::Machine& machine) {
  std::printf("%s of %s, %d ranks (%s), %s\nwires' model: %s\n", c.collective.c_str(),
              c.dtype.c_str(), r.ranks, r.backend.c_str(), machine.host.c_str(),
              bench::wires_text(c.measure.world).c_str());
  std::printf("busbw: bytes / time, times %.3g; memcpy, by all ranks at once: %.2f GB/s each\n\n",
              bench::bus_factor(c.measure.collective, r.ranks), r.memcpy_gb_s);
  std::printf("%-10s %12s %12s %11s %11s %11s %10s %10s %10s %7s\n", "algorithm", "bytes",
              "elements", "median us", "p10", "p90", "algbw GB/s", "busbw GB/s", "of memcpy",
              "errors");
}

void print_row(const AllReduceCommand& c, const bench::AllReduceRow& r) {
  const double bus = r.bus_gb_s(c.measure.collective);
  std::printf("%-10s %12lld %12lld %11.1f %11.1f %11.1f %10.3f %10.3f %10.2f %7lld\n",
              to_string(r.algorithm), static_cast<long long>(r.bytes),
              static_cast<long long>(r.elements), r.time.median_us, r.time.p10_us, r.time.p90_us,
              r.algorithm_gb_s(), bus, r.memcpy_gb_s > 0 ? bus / r.memcpy_gb_s : 0,
              static_cast<long long>(r.errors));
}

void print_json(const AllReduceCommand& c, const bench::AllReduceRow& r,
                const bench::Machine& machine) {
  bench::Row row{.bench = "allreduce", .impl = r.backend, .dtype = c.dtype};
  row.shape = str(c.collective, " ", r.bytes, " B, ", r.ranks, " ranks, ", to_string(r.algorithm));
  row.time = r.time, row.bytes = double(r.bytes);
  row.roof = r.memcpy_gb_s, row.bound = "memcpy";
  const double bus = r.bus_gb_s(c.measure.collective);
  if (row.roof > 0) row.ratio = bus / row.roof;
  row.check = r.errors ? str(r.errors, " of ", r.elements, " elements are wrong") : "ok";
  row.more = {{"ranks", r.ranks},
              {"algbw_gb_s", r.algorithm_gb_s()},
              {"busbw_gb_s", bus},
              {"bytes", double(r.bytes)},
              {"errors", double(r.errors)},
              {"latency_us", c.measure.world.latency_us},
              {"link_gb_s", c.measure.world.gb_s}};
  row.words = {{"algorithm", to_string(r.algorithm)}, {"collective", c.collective}};
  std::printf("%s\n", to_json(row, machine).c_str());
}

// What only threads have a choice of.
void refuse_for_processes(const AllReduceCommand& c) {
  const bench::WorldOptions& w = c.measure.world;
  const bool chosen = c.algorithms.size() != 1 || c.algorithms[0] != "automatic";
  if (bench::ranks_are_processes() && (chosen || w.latency_us > 0 || w.gb_s > 0))
    throw UsageError(
        "[wt bench allreduce] --algorithm, --latency and --bandwidth are of ranks that are "
        "threads, these are processes");
}

int measure(AllReduceCommand& c) {
  refuse_for_processes(c);
  c.measure.collective = collective_named(c.collective);
  c.measure.dtype = dtype_named(c.dtype);
  c.measure.algorithms.clear();
  for (const std::string& name : c.algorithms)
    c.measure.algorithms.push_back(algorithm_named(name));
  const i64 fits = largest_that_fits(c), wanted = c.measure.to;
  if (fits < wanted && c.to_given)
    throw UsageError(str("[wt bench allreduce] --to ", bytes_text(wanted), " on ",
                         c.measure.world.ranks, " ranks takes ",
                         bytes_text(bench::allreduce_memory(wanted, c.measure.world.ranks)),
                         ", half of what is free is ", bytes_text(detail::available_memory() / 2)));
  c.measure.to = fits;
  const bench::Machine machine = bench::describe_machine(Device::cpu());
  bool begun = false;
  const i64 errors = bench::measure_allreduce(c.measure, [&](const bench::AllReduceRow& r) {
    if (!begun && !c.json) print_head(c, r, machine);
    begun = true;
    c.json ? print_json(c, r, machine) : print_row(c, r);
    flush_stdout();
  });
  return errors ? kExitBug : kExitOk;
}

int show_paper(bool json) {
  std::fputs((json ? paper_json() : paper_text()).c_str(), stdout);
  flush_stdout();
  return kExitOk;
}

}  // namespace

void add_bench_allreduce(Command bench, int& code) {
  const Command c = bench.add_subcommand(
      "allreduce",
      "collectives over sizes as nccl-tests counts them: each result checked, then the slowest "
      "rank's time, bytes / time and the rate of a link, beside memcpy; exit code 1 if a result "
      "is wrong. Ranks are threads, or the processes of mpirun");
  auto o = std::make_shared<AllReduceCommand>();
  const Option paper =
      c.add_flag("--paper", o->paper,
                 "measure nothing: a model of 8, 64 and 1,024 GPUs (docs/distributed_model.md)");
  add_world_options(c, o->measure.world, paper);
  const auto size = [&](const char* name, i64& bytes, const char* what) {
    c.add_option_function(
         name, [name, &bytes](const std::string& t) { bytes = bytes_of_text(t, name); }, what)
        .excludes(paper);
  };
  size("--from", o->measure.from, "the smallest size, as 1KiB; default: 1 KiB");
  c.add_option_function(
       "--to",
       [o](const std::string& t) { o->measure.to = bytes_of_text(t, "--to"), o->to_given = true; },
       "the largest size, as 1GiB; default: 64 MiB, or less where memory is short")
      .excludes(paper);
  c.add_option("--factor", o->measure.factor, "from one size to the next")
      .check(at_least(2))
      .excludes(paper)
      .show_default();
  c.add_option("--dtype", o->dtype)
      .check(one_of({"f32", "f64", "f16", "bf16", "i64", "i32", "u8"}))
      .excludes(paper)
      .show_default();
  c.add_option("--collective", o->collective)
      .check(one_of({"all_reduce", "reduce_scatter", "all_gather", "broadcast"}))
      .excludes(paper)
      .show_default();
  c.add_option("--algorithm", o->algorithms, "of threads; several, with commas, are compared")
      .delimiter(',')
      .check(one_of(algorithm_names()))
      .excludes(paper)
      .show_default();
  c.add_option("--samples", o->measure.samples, "measurements a size")
      .check(at_least(1))
      .excludes(paper)
      .show_default();
  c.add_flag("--plant-error", o->measure.plant_error).hidden();  // for a test of the check
  c.add_flag("--json", o->json, "one JSON object a line");
  c.callback([o, &code] { code = o->paper ? show_paper(o->json) : measure(*o); });
}

}  // namespace wt::tools
