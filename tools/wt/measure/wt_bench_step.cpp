// wt bench step
#include <cstdio>

#include "warptape/bench/steps/steps.h"
#include "warptape/core/device.h"
#include "warptape/tools/wt/number_text.h"
#include "warptape/tools/wt/recipes/recipe_device.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

struct StepCommand {
  std::vector<std::string> models;
  std::string device = "cpu";
  bench::StepOptions step{.window_s = 1, .windows = 5};
  int threads = 0;  // 0: as many as there are
  bool json = false;
};

std::vector<std::string> step_names() {
  std::vector<std::string> names = bench::step_bench_models();
  for (std::string& name : bench::named_step_models()) names.push_back(std::move(name));
  return names;
}

void print_row(const bench::Row& r) {
  const double ms = r.time.median_us * 1e-3;
  std::printf("%-22s %-26s %-5s %10s %10s %10s %10s %11.6f\n", r.bench.c_str(), r.shape.c_str(),
              r.dtype.c_str(), three_digits(ms).c_str(), three_digits(r.time.min_us * 1e-3).c_str(),
              three_digits(r.flops / r.time.median_us * 1e-3).c_str(),
              bytes_text(r.peak_bytes).c_str(), r.more[0].second);
}

void show(const StepCommand& c) {
  bench::StepOptions o = c.step;
  o.device = device_for(c.device);
  if (c.threads > 0) set_num_threads(c.threads);
  const bench::Machine machine = bench::describe_machine(o.device);
  if (!c.json)
    std::printf("%-22s %-26s %-5s %10s %10s %10s %10s %11s\n", "model", "input", "", "ms", "least",
                "GFLOP/s", "peak", "check loss");
  for (const std::string& model : c.models) {
    o.model = model;
    bench::Row r = bench::training_step(o);
    r.more.push_back({"threads", double(num_threads())});
    if (c.json)
      std::printf("%s\n", to_json(r, machine).c_str());
    else
      print_row(r);
    flush_stdout();
  }
}

}  // namespace

void add_bench_step(Command bench, int& code) {
  const Command c = bench.add_subcommand(
      "step",
      "whole training steps of models by name, without dropout: time, rate of the products, memory "
      "and a loss to compare; bench/peers/model_steps.py sets PyTorch beside them");
  auto o = std::make_shared<StepCommand>();
  c.add_option("--model", o->models,
               "one of `wt models`, gpt2_block, or one of wt_gpu_bench's; "
               "and further --model")
      .check(one_of(&step_names))
      .one_value_each_time()
      .required();
  c.add_option("--batch", o->step.batch, "samples a step; default: the model's usual number")
      .check(at_least(1));
  c.add_option("--image", o->step.image, "side of the pictures; default: the model's usual one")
      .check(at_least(1));
  c.add_flag("--channels-last", o->step.channels_last,
             "pictures with their channels side by side in memory");
  c.add_flag("--recompute", o->step.recompute,
             "backward makes again what is cheap, norms and activations, instead of keeping it");
  c.add_option("--precision", o->step.precision)
      .check(one_of({"f32", "tf32", "f16", "bf16"}))
      .show_default();
  c.add_option("--device", o->device, "cpu, simt, cuda:N").show_default();
  c.add_flag("--graph", o->step.captured, "each step as one graph, on devices that launch");
  c.add_option("--threads", o->threads, "default: OMP_NUM_THREADS, else one a processor")
      .check(at_least(1));
  c.add_option("--seconds", o->step.window_s, "of a window").check(positive()).show_default();
  c.add_option("--windows", o->step.windows).check(at_least(1)).show_default();
  c.add_flag("--json", o->json, "one JSON object a line");
  c.callback([o, &code] {
    show(*o);
    code = 0;
  });
}

}  // namespace wt::tools
