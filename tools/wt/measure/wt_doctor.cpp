// wt doctor RECIPE
#include <cstdio>

#include "warptape/core/files/atomic_file.h"
#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/core/plot.h"
#include "warptape/tools/wt/doctor/doctor_page.h"
#include "warptape/tools/wt/exit_codes.h"
#include "warptape/tools/wt/recipes/recipes.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

struct DoctorCommand {
  i64 examined = 20;
  std::string plot{}, html{};
  bool json = false;
};

// What is about a run that is kept or shared, which an examination is not.
void check_examined(const Command& c) {
  for (const char* name :
       {"--out",         "--init-from",      "--resume",       "--save-every",  "--eval-every",
        "--log-every",   "--on-write-error", "--patience",     "--keep",        "--sample",
        "--exponents",   "--curve",          "--eval-batches", "--log-tensors", "--dry-run",
        "--ranks",       "--zero",           "--deadline",     "--kernel",      "--kernel-from",
        "--memory-limit"})
    if (c.given(name))
      throw UsageError(str(name,
                           " is about a whole training, and the doctor sees a few steps of "
                           "one rank\n  Try without it"));
}

void print_exam(const DoctorCommand& d, const TrainOptions& o, const RecipeExam& exam) {
  if (d.json) {
    std::printf("%s\n", JsonObject()
                            .add("recipe", o.recipe)
                            .add("device", exam.device)
                            .add("batch", exam.batch)
                            .add_raw("report", exam.report.json())
                            .str()
                            .c_str());
    return;
  }
  std::printf("%s on %s, %s, batch %lld, %s\n\n%s", o.recipe.c_str(), exam.device.c_str(),
              o.precision.c_str(), static_cast<long long>(exam.batch),
              o.data.empty() ? "synthetic data" : printable_path(o.data).c_str(),
              printable_lines(exam.report.text()).c_str());
}

}  // namespace

void add_doctor(Command app, int& code) {
  const Command c = app.add_subcommand(
      "doctor",
      "runs some steps of a recipe and prints what is wrong or slow, ranked, with its cost and the "
      "line that mends it (docs/doctor.md)");
  auto o = std::make_shared<TrainOptions>();
  auto d = std::make_shared<DoctorCommand>();
  c.footer_when_asked([] {
    return recipes_text() +
           "--steps and --epochs are those of the training as it is planned; without --data it is\n"
           "synthetic. Exit code 10: there are findings.\n";
  });
  add_train_options(c, o).required();
  c.add_option("--examined", d->examined, "steps that are looked at, after three that are not")
      .check(from_to(2, 100000))
      .show_default();
  c.add_option("--plot", d->plot,
               "file for the loss by learning rate, an SVG picture, where the loss does not fall");
  c.add_option("--html", d->html, "file for a page: the findings with a search, and that picture");
  c.add_flag("--json", d->json, "one JSON object");
  c.callback([c, o, d, &code] {
    check_examined(c);
    const RecipeExam exam = examine_recipe(*o, {.steps = d->examined});
    if (!d->plot.empty() && !exam.report.rate_curve.empty())
      Plot({{"loss", exam.report.rate_curve}}, {.title = "Loss by learning rate",
                                                .x = "learning rate",
                                                .y = "loss",
                                                .markers = true,
                                                .log_x = true})
          .svg(d->plot);
    if (!d->html.empty()) write_file_atomically(d->html, doctor_page(*o, exam));
    print_exam(*d, *o, exam);
    flush_stdout();
    code = exam.report.healthy() ? kExitOk : kExitFound;
  });
}

}  // namespace wt::tools
