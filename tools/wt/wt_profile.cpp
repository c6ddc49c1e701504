// wt profile RECIPE
#include <cstdio>

#include "warptape/tools/wt/measure/race.h"
#include "warptape/tools/wt/profile/instrumented.h"
#include "warptape/tools/wt/profile/ncu_command.h"
#include "warptape/tools/wt/recipes/recipes.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/training/train.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

constexpr i64 kSteps = 10, kWarmup = 2;

// What is about a run that is kept, and this one is not.
void check_profiled(const Command& c, const TrainOptions& o) {
  for (const char* name : {"--epochs", "--resume", "--save-every", "--eval-every", "--eval-batches",
                           "--log-every", "--on-write-error", "--patience", "--keep", "--sample",
                           "--exponents", "--curve", "--log-tensors"})
    if (c.given(name))
      throw UsageError(str(name, " is about a training that is kept, and a profile's is not",
                           "\n  Try wt train --profile STEPS"));
  if (is_race(o.recipe))
    throw UsageError(str("a profile is of one training, and ", o.recipe,
                         " is many\n  Try it on the recipe that races"));
}

// Of the recipe, if one was given, else of a program to be named.
void print_ncu(const std::string& op, const TrainOptions& o) {
  NcuOptions n;
  if (!o.recipe.empty()) {
    n.program = "wt train " + shell_word(o.recipe) + " --device cuda --steps 20";
    if (!o.data.empty()) n.program += " --data " + shell_word(o.data);
    for (const std::string& setting : o.set) n.program += " --set " + shell_word(setting);
    if (o.precision != TrainOptions().precision)
      n.program += " --precision " + shell_word(o.precision);
  }
  std::puts(ncu_command(op, n).c_str());
  flush_stdout();
}

}  // namespace

void add_profile(Command app, int& code) {
  const Command c = app.add_subcommand(
      "profile",
      "where the time of a recipe's training steps goes: by operator, module, kernel or line, with "
      "bytes, FLOPs and what bounds each (docs/profiling.md)");
  auto o = std::make_shared<TrainOptions>();
  c.footer_when_asked([] {
    return recipes_text() +
           "--steps are the profiled ones (10 if not given), after two that are not; --out is a\n"
           "folder for table.txt, profile.json, profile.csv, trace.json (Perfetto), timeline.html\n"
           "and roofline.html (docs/traces.md).\n";
  });
  add_train_options(c, o);
  ProfileRequest& p = o->profile;
  c.add_option("--sort-by", p.sort_by,
               "self_cpu_time_total, cpu_time_total, self_cuda_time_total, cuda_time_total, count, "
               "flops, bytes, name, ...; default: the time of the device, else of the host");
  c.add_option("--group-by", p.group_by)
      .check(one_of({"operator", "module", "kernel", "line"}))
      .show_default();
  c.add_option("--rows", p.rows, "default: all").check(at_least(1));
  c.add_flag("--shapes", p.shapes, "a row for each operator and its input shapes");
  c.add_flag("--nested", p.nested, "rows inside of each other: modules, operators, kernels");
  c.add_flag("--counters", p.counters,
             "on simt: sectors of device memory, bank conflicts and active lanes of each kernel "
             "(slow; times say nothing then)");
  auto op = std::make_shared<std::string>();
  c.add_option(
      "--ncu", *op,
      "an operator, its backward (\"softmax.backward\"), a contract or a variant: prints the "
      "command line of Nsight Compute for its kernels, trains nothing");
  c.callback([c, o, op, &code] {
    if (c.given("--ncu")) return print_ncu(*op, *o);
    if (o->recipe.empty()) throw UsageError("recipe is required\n  Try wt profile fashion");
    check_profiled(c, *o);
    check_given(c, *o);
    ProfileRequest& request = o->profile;
    if (request.counters) {
      if (o->device != "simt") throw UsageError("--counters counts on simt\n  Try --device simt");
      become_instrumented();
    }
    request.only = true;
    request.steps = o->steps ? o->steps : kSteps;
    request.out = std::move(o->out);
    o->out.clear();
    o->steps = request.steps + kWarmup;
    code = train(*o);
  });
}

}  // namespace wt::tools
