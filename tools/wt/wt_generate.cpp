// wt generate CKPT: text from a trained model.
#include <unistd.h>

#include <cstdio>

#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/tools/wt/model_options.h"
#include "warptape/tools/wt/recipes/generate.h"
#include "warptape/tools/wt/recipes/recipe_device.h"
#include "warptape/tools/wt/reports/terminal_text.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/training/run_signals.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

struct WriteOptions : ModelOptions {
  GenerateOptions generate{.tokens = 1000};
};

int run(const WriteOptions& o) {
  const TrainedModel t = load_model(o);
  if (t.recipe->context() == 0)
    throw UsageError(str(printable_path(t.path), " is a model of ", t.name, ", not of text"));
  const RunSignals signals;
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  TerminalText shown;
  if (!o.json) std::fputs(o.generate.prompt.c_str(), stdout);
  const std::string text = generate(*t.recipe, o.generate, [&](char byte) {
    if (!o.json) {
      if (terminal)
        std::fputs(shown.take(byte).c_str(), stdout);
      else
        std::putchar(byte);
      flush_stdout();  // as it comes
    }
    return !signals.stop_requested();
  });
  if (o.json) {
    JsonObject j;
    j.add("checkpoint", t.path).add("prompt", o.generate.prompt).add("text", text);
    std::printf("%s\n", j.str().c_str());
  } else {
    std::printf("%s\n", shown.rest().c_str());
  }
  return signals.exit_code();
}

}  // namespace

void add_generate(Command app, int& code) {
  const Command c = app.add_subcommand("generate", "write text with a trained model of text");
  auto o = std::make_shared<WriteOptions>();
  add_model_options(c, *o, "one JSON line with the text");
  c.add_option("--prompt", o->generate.prompt, "what the text begins with; default: a new line");
  c.add_option("--tokens,--bytes", o->generate.tokens,
               "how many to write; the tokens of charlm are bytes")
      .check(at_least(0))
      .show_default();
  c.add_option("--temperature", o->generate.temperature, "0: always the likeliest token")
      .check(not_negative())
      .show_default();
  c.add_option("--top-k", o->generate.top_k, "draw among the k likeliest tokens; 0: among all")
      .check(at_least(0))
      .show_default();
  c.add_option("--top-p", o->generate.top_p, "draw among the likeliest whose odds make up this")
      .check(from_0_to(1))
      .show_default();
  c.add_option("--repetition-penalty", o->generate.repetition_penalty,
               "above 1: tokens that were there become less likely")
      .check(positive())
      .show_default();
  c.add_option("--seed", o->generate.seed).check(a_seed()).show_default();
  c.callback([o, &code] {
    take_cheap_kernels_on_simt();
    code = run(*o);
  });
}

}  // namespace wt::tools
