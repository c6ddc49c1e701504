// The `wt` command: one file a subcommand; this one parses, dispatches and turns exceptions into
// exit codes. wt_main.cpp is its main.
#include "warptape/tools/wt/wt.h"
#include "warptape/tools/wt/run_command.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <exception>
#include <sstream>
#include <system_error>

#include "warptape/core/progress.h"
#include "warptape/core/std_descriptors.h"
#include "warptape/core/suggest.h"
#include "warptape/tools/wt/exit_codes.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/training/ranks.h"
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
  std::string command;  // "bench kernels "
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    command += at->get_name() + " ";
  }
  std::string text = e.what();
  for (const std::string& word : at->remaining(true)) {
    const std::string bare = word.substr(0, word.find('='));
    text = str("'", bare, "' is not known here", did_you_mean(bare, names_of(*at)));
    break;
  }
  std::fprintf(stderr, "wt: %s\n", printable_lines(text).c_str());
  std::fprintf(stderr, "wt %s--help lists what there is\n", command.c_str());
  return kExitUsage;
}

// Runs what the command line asks for.
void parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    std::ostringstream text;  // of --help, --version; std::cout would forget why it failed
    app.exit(e, text, text);
    std::fputs(text.str().c_str(), stdout);
  }
}

// The whole text as a number.
template <class T>
bool read_number(const std::string& text, T& out) {
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, out);
  return error == std::errc() && at == end;
}

template <class T, class F>
CLI::Validator number(const std::string& wanted, const char* kind, F allowed) {
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        T v{};
        if (read_number(text, v) && allowed(v)) return {};
        return "must be " + wanted + ", got " + text;
      },
      kind);
}

int failed(const std::exception& e, int code) {
  wt::end_progress_line();
  std::fprintf(stderr, "wt: %s%s\n", rank_prefix().c_str(), printable_lines(e.what()).c_str());
  return code;
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

CLI::Validator positive() {
  return number<double>("a finite number above 0", "ABOVE 0",
                        [](double v) { return std::isfinite(v) && v > 0; });
}
CLI::Validator not_negative() {
  return number<double>("a finite number of at least 0", "AT LEAST 0",
                        [](double v) { return std::isfinite(v) && v >= 0; });
}
CLI::Validator from_0_to(double most) {
  const std::string range = str("0 to ", most);
  return number<double>("a number from " + range, range.c_str(),
                        [=](double v) { return v >= 0 && v <= most; });
}
CLI::Validator at_least(long long least) {
  return number<long long>(str("an integer of at least ", least), str("AT LEAST ", least).c_str(),
                           [=](long long v) { return v >= least; });
}

DType float_named(const std::string& name) {
  for (const DType t : {DType::f32, DType::f16, DType::bf16, DType::f64})
    if (name == dtype_name(t)) return t;
  throw UsageError(str("'", name, "' is no floating dtype (f32, f16, bf16, f64)"));
}
CLI::Validator a_seed() {
  return number<u64>("an integer from 0 to 18446744073709551615", "", [](u64) { return true; });
}

int run_command(int argc, char** argv) {
  wt::hold_standard_descriptors();
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
  add_data(app, code);
  add_memory(app, code);
  add_tune(app, code);
  add_bench(app, code);
  try {
    parse(app, argc, argv);
    flush_stdout();
  } catch (const CLI::ParseError& e) {
    return usage_error(app, e);
  } catch (const std::system_error& e) {
    if (!std::ferror(stdout)) return failed(e, kExitBug);
    return failed(lost_output(e.code().value()), kExitOutput);  // fmt says so at once
  } catch (const std::exception& e) {
    return failed(e, exit_code_of(e));
  }
  return code;
}

}  // namespace wt::tools
