// The `wt` command: one file a subcommand; this one parses, dispatches and turns exceptions into
// exit codes.
#include "warptape/tools/wt.h"

#include <algorithm>
#include <cstdio>
#include <exception>

#include "warptape/core/progress.h"
#include "warptape/core/suggest.h"
#include "warptape/tools/exit_codes.h"
#include "warptape/version.h"

namespace wt::tools {
namespace {

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* o : app.get_options())
    for (const std::string& n : o->get_lnames()) names.push_back("--" + n);
  for (const CLI::App* sub : app.get_subcommands({})) names.push_back(sub->get_name());
  return names;
}

// What CLI11 could not use, with the near name.
int usage_error(const CLI::App& app, const CLI::ParseError& e) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  std::string text = e.what();
  for (const std::string& word : at->remaining(true)) {
    const std::string bare = word.substr(0, word.find('='));
    text = str("'", bare, "' is not known here", did_you_mean(bare, names_of(*at)));
    break;
  }
  std::fprintf(stderr, "wt: %s\n", text.c_str());
  std::fprintf(stderr, "wt %s--help lists what there is\n",
               at == &app ? "" : (at->get_name() + " ").c_str());
  return kExitUsage;
}

}  // namespace

CLI::Validator one_of(std::vector<std::string> allowed) {
  std::string list;
  for (const std::string& a : allowed) list += (list.empty() ? "" : ",") + a;
  return CLI::Validator(
      [allowed = std::move(allowed), list](std::string& value) -> std::string {
        if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return {};
        return "'" + value + "' is not one of " + list + did_you_mean(value, allowed);
      },
      "{" + list + "}");
}

}  // namespace wt::tools

int main(int argc, char** argv) {
  using namespace wt::tools;
  CLI::App app{"warptape: train, inspect and measure"};
  app.set_version_flag("--version", WARPTAPE_VERSION_STRING);
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 ok, 1 our bug, 2 usage, 3 data, 4 out of memory, 5 numeric failure, 6 "
      "device,\n"
      "7 peer, 8 output or checkpoint cannot be written, 130 interrupted, 143 terminated.");
  int code = 0;
  add_info(app, code);
  add_ops(app, code);
  add_train(app, code);
  add_eval(app, code);
  add_predict(app, code);
  add_generate(app, code);
  add_bench(app, code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);  // --help, --version
  } catch (const CLI::ParseError& e) {
    return usage_error(app, e);
  } catch (const std::exception& e) {
    wt::end_progress_line();
    std::fprintf(stderr, "wt: %s\n", e.what());
    return exit_code_of(e);
  }
  return code;
}
