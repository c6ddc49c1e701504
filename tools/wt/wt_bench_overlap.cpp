// wt bench overlap
#include <cstdio>

#include "warptape/bench/overlap.h"
#include "warptape/core/error.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/tools/wt/comm_options.h"
#include "warptape/tools/wt/number_text.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

struct OverlapCommand {
  bench::OverlapOptions measure;
  std::vector<std::string> files;
  std::string algorithm = "automatic";
  bool json = false;
};

bool is_svg(const std::string& path) { return path.ends_with(".svg"); }

void print_text(const OverlapCommand& c, const bench::OverlapResult& r) {
  const auto line = [](const char* what, const bench::Timing& t) {
    std::printf("%-30s %9.3f ms (p10 %.3f, p90 %.3f)\n", what, t.median_us * 1e-3, t.p10_us * 1e-3,
                t.p90_us * 1e-3);
  };
  std::printf("%s\nwires' model: %s; the slowest rank of %d steps\n\n", r.timeline.title.c_str(),
              r.timeline.wires.c_str(), r.step.samples);
  line("computation alone", r.alone);
  line("communication alone", r.communication);
  line("step", r.step);
  line("of it waits (exposed)", r.exposed);
  std::printf(
      "\n%.2f of the larger of the two, %.2f of what the order allows (the last bucket begins when "
      "the\nbackward has ended, the first one inside it), %.2f of the two together; %lld of %zu "
      "buckets begun\ninside the backward\n",
      r.against_floor, r.against_possible, r.against_serial, static_cast<long long>(r.early),
      r.buckets.size());
  for (const std::string& f : c.files) std::printf("wrote %s\n", f.c_str());
}

void print_json(const OverlapCommand& c, const bench::OverlapResult& r) {
  const bench::OverlapOptions& o = c.measure;
  bench::Row row{.bench = "overlap", .impl = "local", .dtype = "f32"};
  row.shape = str(o.world.ranks, " ranks 784-", o.width, "x", o.layers, "-10 b", o.batch);
  row.time = r.step;
  row.more = {{"ranks", o.world.ranks},
              {"compute_us", r.alone.median_us},
              {"communication_us", r.communication.median_us},
              {"exposed_us", r.exposed.median_us},
              {"against_floor", r.against_floor},
              {"against_possible", r.against_possible},
              {"against_serial", r.against_serial},
              {"buckets", double(r.buckets.size())},
              {"begun_early", double(r.early)},
              {"latency_us", o.world.latency_us},
              {"link_gb_s", o.world.gb_s}};
  row.words = {{"algorithm", c.algorithm}};
  std::printf("%s\n", to_json(row, bench::describe_machine(Device::cpu())).c_str());
}

void show(OverlapCommand& c) {
  c.measure.world.algorithm = algorithm_named(c.algorithm);
  for (const std::string& f : c.files)
    if (!is_svg(f) && !f.ends_with(".json"))
      throw UsageError(str("[wt bench overlap] --out ", f, ": neither .svg nor .json"));
  const bench::OverlapResult r = bench::measure_overlap(c.measure);
  for (const std::string& f : c.files)
    write_file_atomically(f, is_svg(f) ? overlap_svg(r.timeline) : overlap_trace(r.timeline));
  c.json ? print_json(c, r) : print_text(c, r);
  flush_stdout();
}

}  // namespace

void add_bench_overlap(Command bench, int& code) {
  const Command c = bench.add_subcommand(
      "overlap",
      "a training step over ranks that are threads, whose gradients are added up by buckets while "
      "backward goes on: what computation and communication take alone and together, and the step "
      "as a picture");
  auto o = std::make_shared<OverlapCommand>();
  bench::OverlapOptions& m = o->measure;
  add_world_options(c, m.world);
  c.add_option("--algorithm", o->algorithm).check(one_of(algorithm_names())).show_default();
  add_perceptron_options(c, m);
  c.add_option("--steps", m.steps, "measured").check(at_least(1)).show_default();
  c.add_option("--threads", m.threads, "of kernels").check(at_least(1)).show_default();
  c.add_option("--out", o->files,
               "FILE.svg for a browser, FILE.json for ui.perfetto.dev; may be repeated")
      .one_value_each_time();
  c.add_flag("--json", o->json, "one JSON object");
  c.callback([o, &code] {
    show(*o);
    code = 0;
  });
}

}  // namespace wt::tools
