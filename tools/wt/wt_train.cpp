// wt train RECIPE
#include "warptape/core/factories.h"
#include "warptape/tools/wt/measure/race.h"
#include "warptape/tools/wt/number_text.h"
#include "warptape/tools/wt/recipes/recipe_device.h"
#include "warptape/tools/wt/recipes/recipes.h"
#include "warptape/tools/wt/training/optimizers.h"
#include "warptape/tools/wt/training/train.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {

// Options that would have no effect as they are given.
void check_given(Command c, const TrainOptions& o) {
  const auto given = [&](const char* name) { return c.given(name); };
  for (const auto& [name, value] : {std::pair("--out", &o.out), {"--init-from", &o.init_from}})
    if (given(name) && value->empty())
      throw UsageError(str(name, " is empty\n  Try ", name, " FOLDER"));
  for (const char* name : {"--resume", "--save-every", "--on-write-error", "--log-tensors"})
    if (given(name) && o.out.empty())
      throw UsageError(
          str(name, " is about the run's folder, and there is none\n  Try --out FOLDER"));
  if (o.zero > 0 && o.exponents > 0)
    throw UsageError(
        "--exponents looks at whole gradients, and with --zero each rank has the sums of a part");
  if (given("--kernel-from") && o.kernels.empty())
    throw UsageError("--kernel-from says when --kernel begins, and there is no --kernel");
  if (o.recipe == kOptimizerRace) return;  // it has its own optimizers and steps
  if (given("--momentum") && !find_optimizer(o.optimizer).momentum)
    throw UsageError(
        str("--momentum: ", o.optimizer, " has none\n  Try --optimizer sgd, rmsprop or muon"));
  if (o.steps > 0 && o.warmup > o.steps)
    throw UsageError(str("--warmup ", o.warmup, " is more than --steps ", o.steps));
}

std::string recipes_text() {
  std::string text = "Recipes:\n";
  for (const RecipeInfo& r : recipes()) {
    const DefaultDevice nothing(Device::meta());
    text += str("  ", r.name, "  ", r.summary, "\n      --set ", r.make(Settings({}))->settings(),
                "\n");
  }
  text +=
      str("  ", kOptimizerRace, "  the optimizers over equal seeds: a table, race.csv, race.svg\n",
          "      --set recipe=", "synthetic seeds=3 held_out=2000 lr_sgd=...",
          " and what the recipe has\n  ", kPrecisionRace,
          "  f32, f16 and bf16 over equal seeds, and how far they end from f32\n",
          "      --set recipe=", "synthetic seeds=3 held_out=2000 and what the recipe has\n");
  return text;
}

Option add_train_options(const Command& c, const std::shared_ptr<TrainOptions>& o) {
  const Option recipe = c.add_option("recipe", o->recipe, "what to train");
  c.add_option("--device", o->device, "auto, cpu, simt, cuda:N").show_default();
  c.add_option("--data", o->data,
               "file or folder with the data; synthetic: made up, of the same shapes");
  c.add_option("--out", o->out,
               "run folder: metrics.jsonl, TensorBoard events, checkpoints, report.html");
  c.add_option("--init-from", o->init_from,
               "weights to begin with: a run's folder, a checkpoint or a safetensors file");
  c.add_option("--set", o->set, "KEY=VALUE of the recipe's settings; may be repeated")
      .one_value_each_time();
  const Option epochs = c.add_option("--epochs", o->epochs, "default: the recipe's epochs or steps")
                            .check(at_least(1));
  c.add_option("--steps", o->steps, "default: the recipe's epochs or steps")
      .check(at_least(1))
      .excludes(epochs);
  c.add_option("--batch", o->batch, "samples a step; default: the recipe's").check(at_least(1));
  c.add_option("--micro-batches", o->micro_batches, "parts of a batch, one after another")
      .check(at_least(1))
      .show_default();
  c.add_option(
       "--precision", o->precision,
       "f16 (with loss scaling) or bf16: products in 16 bits, weights in f32; O0 is f32, O1 to "
       "O3 are f16")
      .check(one_of({"f32", "f16", "bf16", "O0", "O1", "O2", "O3"}))
      .show_default();
  c.add_option("--optimizer", o->optimizer).check(one_of(optimizer_names())).show_default();
  c.add_option("--lr", o->lr,
               "default: the recipe's for adamw; sgd 30, adagrad 10, muon 20, lion 0.2 times")
      .check(positive());
  c.add_option("--schedule", o->schedule,
               "of the rate, over all steps; default: the recipe's, cosine")
      .check(one_of({"cosine", "linear", "constant", "one-cycle", "triangle", "plateau"}));
  c.add_option("--warmup", o->warmup, "steps; default: the recipe's, at most half of all")
      .check(at_least(0));
  c.add_option("--momentum", o->momentum, "of sgd, rmsprop and muon")
      .check(from_0_to(0.9999))
      .show_default();
  c.add_option("--weight-decay", o->weight_decay, "default: the recipe's").check(not_negative());
  c.add_option("--clip-norm", o->clip, "0: no clipping; default: the recipe's")
      .check(not_negative());
  c.add_option("--ema", o->ema, "decay of an average of the weights, which evaluations use")
      .check(from_0_to(0.999999));
  c.add_option("--on-nan", o->on_nan, "a loss or gradient that is not finite")
      .check(one_of({"stop", "skip", "ignore"}))
      .show_default();
  c.add_option("--on-write-error", o->on_write_error,
               "metrics or a checkpoint that cannot be written before the end")
      .check(one_of({"stop", "warn"}))
      .show_default();
  c.add_option("--monitor", o->monitor,
               "what best, patience and plateau look at; bleu: of translate")
      .check(one_of({"loss", "accuracy", "bleu"}))
      .show_default();
  c.add_option("--patience", o->patience, "stop after so many evaluations without a better one")
      .check(at_least(1));
  c.add_option("--eval-every", o->eval_every, "steps; default: ten evaluations a run")
      .check(at_least(1));
  c.add_option("--eval-batches", o->eval_batches,
               "batches of the held-out data that an evaluation takes, the same each time; 0: all "
               "of it; default: all where evaluations are then at most a fifth of the run, else "
               "a sample with which they are")
      .check(at_least(0));
  c.add_option("--save-every", o->save_every, "steps; default: a tenth of the run")
      .check(at_least(1));
  c.add_option("--log-every", o->log_every, "steps; default: a 500th of the run")
      .check(at_least(1));
  c.add_option("--exponents", o->exponents,
               "every so many steps, and of skipped ones: what 16 bits keep of each parameter's "
               "gradient, in the terminal and the report")
      .check(at_least(1));
  c.add_option("--log-tensors", o->log_tensors,
               "every so many steps: hash, shape, mean, largest magnitude and a sketch of every "
               "operator's result and gradient, for wt diff")
      .check(at_least(1));
  c.add_option("--sample", o->sample, "bytes of text in the report of a text model")
      .check(at_least(0))
      .show_default();
  c.add_option("--keep", o->keep, "checkpoints kept beside the best, at least 2")
      .check(from_to(2, 1000))
      .show_default();
  c.add_option("--threads", o->threads, "default: OMP_NUM_THREADS, else one a processor")
      .check(at_least(1));
  c.add_option("--ranks", o->ranks,
               "threads that share every batch, each with a copy of the model; processes of them, "
               "on one machine or many: mpirun -n N wt train ..., torchrun (docs/distributed.md)")
      .check(from_to(1, 1024));
  c.add_option("--zero", o->zero,
               "1: each rank keeps the optimizer's state for its part of the parameters alone; 2: "
               "their gradients too; 0: all of both")
      .check(from_to(0, 2))
      .show_default();
  c.add_option("--deadline", o->deadline,
               "seconds that a rank waits for the others, which then end with exit code 7")
      .check(positive())
      .show_default();
  c.add_option("--workers", o->workers, "threads that make batches ahead")
      .check(from_to(0, 256))
      .show_default();
  c.add_option("--resident", o->resident,
               "the training data on the device, from where no step copies any of it: auto does so "
               "on simt and cuda, where it is at most a tenth of the free memory")
      .check(one_of({"auto", "on", "off"}))
      .show_default();
  c.add_option_function(
      "--memory-limit",
      [o](const std::string& text) { o->memory_limit = bytes_of_text(text, "--memory-limit"); },
      "of the device for tensors, as 16GiB or 500MB; more is out of memory, with advice");
  c.add_option("--seed", o->seed).check(a_seed()).show_default();
  c.add_option("--kernel", o->kernels, "CONTRACT:VARIANT for the run (* names every contract)");
  c.add_option("--kernel-from", o->kernels_from, "first step that uses --kernel")
      .check(at_least(0));
  c.add_option_function(
       "--resume", [o](const std::string&) { o->resume = true; },
       "auto: go on from the newest valid checkpoint in --out, if there is one")
      .check(one_of({"auto"}));
  c.add_flag("--offload", o->offload,
             "keep in host memory what backward needs: less of the device's, copies to and fro");
  c.add_flag("--graph", o->graph, "capture the step as one graph and replay it; eager on the cpu");
  const Option quiet = c.add_flag("--quiet", o->quiet);
  c.add_flag("--curve", o->curve, "draw the loss above the progress line, on a terminal")
      .excludes(quiet);
  c.add_flag("--dry-run", o->dry_run, "print shapes and predicted memory, train nothing");
  return recipe;
}

void add_train(Command app, int& code) {
  const Command c = app.add_subcommand("train", "train a recipe; the last line on stdout is JSON");
  auto o = std::make_shared<TrainOptions>();
  c.footer_when_asked(recipes_text);
  add_train_options(c, o).required();
  c.add_option("--profile", o->profile.steps,
               "so many steps, from the third on: a table by operator before the last line, also "
               "in --out (docs/profiling.md)")
      .check(at_least(1));
  c.callback([c, o, &code] {
    check_given(c, *o);
    if (o->profile.steps > 0 && is_race(o->recipe))
      throw UsageError(str("--profile is of one training, and ", o->recipe,
                           " is many\n  Try it on the recipe that races"));
    o->profile.out = o->out;
    take_cheap_kernels_on_simt();
    code = is_race(o->recipe) ? run_race(*o) : train(*o);
  });
}

}  // namespace wt::tools
