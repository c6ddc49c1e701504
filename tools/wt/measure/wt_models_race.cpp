// wt models race
#include <cstdio>
#include <optional>

#include "warptape/core/files/atomic_file.h"
#include "warptape/tools/wt/measure/models_race.h"
#include "warptape/tools/wt/recipes/picture_models.h"
#include "warptape/tools/wt/recipes/recipe_device.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/training/optimizers.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

struct RaceCommand {
  ModelsRaceOptions race{.batch = 0, .size = 0};
  std::vector<std::string> names;
  std::string device = "auto", out;
  int threads = 0;
  bool json = false;
};

void run(const RaceCommand& c) {
  ModelsRaceOptions o = c.race;
  if (!c.names.empty()) o.models = c.names;
  o.device = device_for(c.device);
  const bool article = o.device.kind == DeviceKind::cuda;  // elsewhere they take minutes
  if (o.batch == 0) o.batch = article ? 16 : 4;
  if (o.size == 0) o.size = article ? 224 : 64;
  if (c.threads > 0) set_num_threads(c.threads);
  std::optional<DirectoryLock> lock;
  if (!c.out.empty()) lock.emplace(c.out);
  const ModelsRace race = race_models(o, [&](const ModelsRace& so_far) {
    if (lock) write_models_race(c.out, so_far);
    if (!c.json) return;
    std::printf("%s\n", models_race_json(so_far, so_far.rows.back()).c_str());
    flush_stdout();
  });
  if (!c.json) std::fputs(models_race_table(race).c_str(), stdout);
  flush_stdout();
}

}  // namespace

void add_models_race(Command models, const std::shared_ptr<bool>& ran, int& code) {
  const Command c = models.add_subcommand(
      "race",
      "picture classifiers side by side: time of a forward and of a training step, memory "
      "predicted "
      "and measured, FLOPs, parameters; ResNet-18 beside ResNet-50, MobileNetV2, EfficientNet-B0");
  auto o = std::make_shared<RaceCommand>();
  c.add_option("names", o->names, "of picture classifiers").check(one_of(&picture_model_names));
  c.add_option("--batch", o->race.batch, "pictures; default: 16, on cpu and simt 4")
      .check(at_least(1));
  c.add_option("--size", o->race.size, "side of the pictures; default: 224, on cpu and simt 64")
      .check(at_least(1));
  c.add_option("--device", o->device, "auto, cpu, simt, cuda:N").show_default();
  c.add_option("--optimizer", o->race.optimizer, "of the step")
      .check(one_of(optimizer_names()))
      .show_default();
  c.add_option("--threads", o->threads, "default: OMP_NUM_THREADS, else one a processor")
      .check(at_least(1));
  c.add_option("--seconds", o->race.seconds, "of a measurement, which has five runs at least")
      .check(positive())
      .show_default();
  c.add_option("--out", o->out, "folder for models.jsonl, models.svg and report.html");
  c.add_flag("--json", o->json, "one JSON object a line");
  c.callback([o, ran, &code] {
    *ran = true;
    run(*o);
    code = 0;
  });
}

}  // namespace wt::tools
