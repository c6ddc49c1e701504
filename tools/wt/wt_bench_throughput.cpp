// wt bench throughput RECIPE
#include <cstdio>

#include "warptape/core/files/atomic_file.h"
#include "warptape/tools/wt/measure/throughput.h"
#include "warptape/tools/wt/number_text.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/training/optimizers.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

struct ThroughputCommand {
  ThroughputOptions measure;
  std::string html;
  bool json = false;
};

void show(const ThroughputCommand& c) {
  const Throughput t = measure_throughput(c.measure, [](const ThroughputPoint& p) {
    std::fprintf(stderr, "batch %lld: %s ms a step\n", static_cast<long long>(p.batch),
                 three_digits(1e3 * p.seconds).c_str());
  });
  if (!c.html.empty()) write_file_atomically(c.html, throughput_page(t));
  const std::string text = c.json ? throughput_json(t) + "\n" : throughput_text(t);
  std::fputs(text.c_str(), stdout);
  flush_stdout();
}

}  // namespace

void add_bench_throughput(Command bench, int& code) {
  const Command c = bench.add_subcommand(
      "throughput",
      "samples a second of a recipe's training steps for batches of 1, 2, 4, ... and the knee: the "
      "smallest batch that is about as fast as the fastest");
  auto o = std::make_shared<ThroughputCommand>();
  TrainOptions& t = o->measure.train;
  t.on_nan = "skip";  // made-up data need not converge
  c.add_option("recipe", t.recipe, "as of wt train").required();
  c.add_option("--device", t.device, "auto, cpu, simt, cuda:N").show_default();
  c.add_option("--set", t.set, "KEY=VALUE of the recipe's settings; may be repeated")
      .one_value_each_time();
  c.add_option("--precision", t.precision).check(one_of({"f32", "f16", "bf16"})).show_default();
  c.add_option("--optimizer", t.optimizer).check(one_of(optimizer_names())).show_default();
  c.add_option("--max-batch", o->measure.max_batch,
               "the last one; default: until memory ends or three doublings gain nothing")
      .check(at_least(1));
  c.add_option_function(
      "--memory-limit",
      [o](const std::string& text) {
        o->measure.train.memory_limit = bytes_of_text(text, "--memory-limit");
      },
      "of the device for tensors, as 16GiB or 500MB; default: what is free, of the host half");
  c.add_option("--seconds", o->measure.seconds, "of measurements a batch")
      .check(positive())
      .show_default();
  c.add_option("--share", o->measure.share, "of the best rate, from which on a batch is the knee")
      .check(from_to(0.01, 1.0))
      .show_default();
  c.add_option("--threads", t.threads, "default: OMP_NUM_THREADS, else one a processor")
      .check(at_least(1));
  c.add_option("--html", o->html, "file for a page with the curve");
  c.add_flag("--json", o->json, "one JSON object");
  c.callback([o, &code] {
    show(*o);
    code = 0;
  });
}

}  // namespace wt::tools
