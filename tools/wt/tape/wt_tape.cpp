// wt tape RECIPE
#include <cstdio>

#include "warptape/core/files/atomic_file.h"
#include "warptape/tools/wt/measure/race.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/tape/tape_view.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

struct TapeCommand {
  TrainOptions train;
  std::string html;
  bool json = false;
};

void show(const TapeCommand& c) {
  if (is_race(c.train.recipe))
    throw UsageError(str("a tape is of one training, and ", c.train.recipe,
                         " is many\n  Try it on the recipe that races"));
  const TapeView v = tape_of(memory_jobs(c.train, false).front());
  if (!c.html.empty()) write_file_atomically(c.html, tape_page(v));
  const std::string text = c.json           ? tape_json(v)
                           : c.html.empty() ? tape_table(v)
                                            : str(c.html, "\n");
  std::fputs(text.c_str(), stdout);
  flush_stdout();
}

}  // namespace

void add_tape(Command app, int& code) {
  const Command c = app.add_subcommand(
      "tape",
      "the tape of a recipe's forward: each node with operator, line, the bytes that it keeps and "
      "the kernels that its backward launches");
  auto o = std::make_shared<TapeCommand>();
  TrainOptions& t = o->train;
  c.add_option("recipe", t.recipe, "as of wt train").required();
  c.add_option("--device", t.device, "auto, cpu, simt, cuda:N").show_default();
  c.add_option("--set", t.set, "KEY=VALUE of the recipe's settings; may be repeated")
      .one_value_each_time();
  c.add_option("--batch", t.batch, "samples; default: the recipe's").check(at_least(1));
  c.add_option("--precision", t.precision).check(one_of({"f32", "f16", "bf16"})).show_default();
  c.add_option("--html", o->html, "file for a page with the tape drawn");
  c.add_flag("--json", o->json, "one JSON object");
  c.callback([o, &code] {
    show(*o);
    code = 0;
  });
}

}  // namespace wt::tools
