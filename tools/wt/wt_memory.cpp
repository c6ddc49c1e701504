// wt memory RECIPE
#include <algorithm>
#include <cstdio>
#include <optional>

#include "warptape/core/memory_fit.h"
#include "warptape/core/memory_limit.h"
#include "warptape/tools/wt/measure/memory_remedies.h"
#include "warptape/tools/wt/measure/memory_use.h"
#include "warptape/tools/wt/measure/memory_view.h"
#include "warptape/tools/wt/number_text.h"
#include "warptape/tools/wt/recipes/recipe_device.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/training/optimizers.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

struct MemoryCommand {
  TrainOptions train;
  std::string svg;
  i64 fit = 0;  // bytes; 0: not asked
  int rows = 10;
  bool json = false;
};

// The job that takes most; of a race the others are listed.
MemoryJob largest_job(const MemoryCommand& c) {
  std::vector<MemoryJob> jobs = memory_jobs(c.train, !c.train.data.empty());
  if (jobs.size() == 1) return std::move(jobs[0]);
  std::vector<i64> peaks;
  for (const MemoryJob& job : jobs) {
    peaks.push_back(predicted_peak(job));
    if (!c.json)
      std::printf("%-10s predicted peak %10.2f MiB\n", job.label.c_str(),
                  double(peaks.back()) / 0x1p20);
  }
  return std::move(jobs[size_t(std::max_element(peaks.begin(), peaks.end()) - peaks.begin())]);
}

// Puts the largest batch that fits into the job's options. OutOfMemory where none does.
void fit(MemoryJob& job, i64 bytes) {
  const memory::BatchFit f = memory::fit_batch_by(
      [&](i64 n) {
        job.options.batch = n;
        return predicted_peak(job);
      },
      bytes, i64{1} << 20);
  if (f.batch == 0)
    throw OutOfMemory(str("a batch of one sample is predicted to take ",
                          memory::bytes_text(f.bytes), ", more than the ",
                          memory::bytes_text(bytes), " of --fit"));
  job.options.batch = f.batch;
}

void print_report(const MemoryCommand& c, const MemoryJob& job, const MemoryUse& predicted,
                  const MemoryUse* measured) {
  std::printf(
      "%s%s%s on %s, %s, batch %lld%s\n\n", c.train.recipe.c_str(),
      job.label.empty() ? "" : " with ", job.label.c_str(),
      to_string(device_for(c.train.device)).c_str(), c.train.precision.c_str(),
      static_cast<long long>(predicted.batch),
      c.fit ? str(", the largest that is predicted to fit into ", memory::bytes_text(c.fit)).c_str()
            : "");
  const MemoryUse& shown = measured ? *measured : predicted;
  std::printf("%s\n%s\n%s\n%s", category_table(predicted, measured).c_str(),
              holder_tables(shown, c.rows).c_str(), spared_table(shown.spared).c_str(),
              draw_timeline(shown.timeline).c_str());
}

void show(const MemoryCommand& c) {
  MemoryJob job = largest_job(c);
  if (c.fit) fit(job, c.fit);
  const MemoryUse predicted = predicted_use(job);
  std::optional<MemoryUse> measured;
  // What is only asked whether it fits may be larger than this machine.
  if (!c.train.dry_run && !c.fit) {
    std::optional<memory::LimitScope> limit;
    if (c.train.memory_limit) limit.emplace(device_for(c.train.device), c.train.memory_limit);
    try {
      measured = measured_use(job);
    } catch (const OutOfMemory& e) {
      throw with_remedies(e, c.train);
    }
  }
  const MemoryUse* const m = measured ? &*measured : nullptr;
  if (!c.svg.empty())
    write_timeline(c.svg, str(c.train.recipe, ", three steps"), (m ? *m : predicted).timeline);
  if (c.json)
    std::printf("%s\n", memory_json(c.train, predicted, m).c_str());
  else
    print_report(c, job, predicted, m);
  flush_stdout();
}

void add_options(Command c, MemoryCommand& o) {
  TrainOptions& t = o.train;
  c.add_option("recipe", t.recipe, "as of wt train").required();
  c.add_option("--device", t.device, "auto, cpu, simt, cuda:N").show_default();
  c.add_option(
      "--data", t.data,
      "file or folder with the data, which then counts and is trained on; default: made-up "
      "batches");
  c.add_option("--set", t.set, "KEY=VALUE of the recipe's settings; may be repeated")
      .one_value_each_time();
  c.add_option("--batch", t.batch, "samples a step; default: the recipe's").check(at_least(1));
  c.add_option("--micro-batches", t.micro_batches, "parts of a batch, one after another")
      .check(at_least(1))
      .show_default();
  c.add_flag("--offload", t.offload,
             "keep in host memory what backward needs: less of the device's, copies to and fro");
  c.add_option("--precision", t.precision).check(one_of({"f32", "f16", "bf16"})).show_default();
  c.add_option("--optimizer", t.optimizer).check(one_of(optimizer_names())).show_default();
  c.add_option("--ema", t.ema, "decay of an average of the weights").check(from_0_to(0.999999));
  const auto bytes = [&c](const char* name, i64& to, const char* help) {
    return c.add_option_function(
        name, [name, &to](const std::string& text) { to = bytes_of_text(text, name); }, help);
  };
  bytes("--memory-limit", t.memory_limit, "of the device for tensors, as 16GiB or 500MB")
      .excludes(bytes("--fit", o.fit,
                      "BYTES: predict the largest batch that fits into so many, and its memory"));
  c.add_flag("--dry-run", t.dry_run, "predict only, train nothing");
  c.add_option("--rows", o.rows, "of the tables of activations").check(at_least(1)).show_default();
  c.add_option("--svg", o.svg, "file for the timeline as a picture");
  c.add_flag("--json", o.json, "one JSON object");
}

}  // namespace

void add_memory(Command app, int& code) {
  const Command c = app.add_subcommand(
      "memory",
      "what training a recipe takes: predicted before anything runs, measured over three steps, by "
      "category, operator and place, over time");
  auto o = std::make_shared<MemoryCommand>();
  add_options(c, *o);
  c.callback([o, &code] {
    if (o->train.dry_run && o->train.memory_limit)
      throw UsageError("--memory-limit is for a run, and --dry-run makes none\n  Try --fit");
    show(*o);
    code = 0;
  });
}

}  // namespace wt::tools
