// The `wt` command: one file a subcommand; this one parses, dispatches and turns exceptions into
// exit codes. wt_main.cpp is its main.
#include "warptape/tools/wt/wt.h"
#include "warptape/tools/wt/run_command.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>

#include "warptape/core/files/decimal.h"
#include "warptape/core/progress.h"
#include "warptape/core/std_descriptors.h"
#include "warptape/core/suggest.h"
#include "warptape/tools/wt/exit_codes.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/training/ranks.h"
#include "warptape/version.h"

namespace wt::tools {
namespace {

// The whole text as a number.
template <class T>
bool read_number(const std::string& text, T& out) {
  const char* end = text.data() + text.size();
  const auto [at, error] = wt::detail::decimal_from_chars(text.data(), end, out);
  return error == std::errc() && at == end;
}

template <class T, class F>
Check number(const std::string& wanted, const std::string& kind, F allowed) {
  return {[=](const std::string& text) -> std::string {
            T v{};
            if (read_number(text, v) && allowed(v)) return {};
            return "must be " + wanted + ", got " + text;
          },
          kind};
}

int failed(const std::exception& e, int code) {
  wt::end_progress_line();
  std::fprintf(stderr, "wt: %s%s\n", rank_prefix().c_str(), printable_lines(e.what()).c_str());
  return code;
}

}  // namespace

Check one_of(std::vector<std::string> allowed) {
  std::string list;
  for (const std::string& a : allowed) list += (list.empty() ? "" : ",") + a;
  return {[allowed = std::move(allowed), list](const std::string& value) -> std::string {
            if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return {};
            return "'" + value + "' is not one of " + list + did_you_mean(value, allowed);
          },
          "{" + list + "}"};
}

Check one_of(std::vector<std::string> (*allowed)()) {
  return {[allowed](const std::string& value) { return one_of(allowed()).fault(value); }, ""};
}

Check positive() {
  return number<double>("a finite number above 0", "ABOVE 0",
                        [](double v) { return std::isfinite(v) && v > 0; });
}
Check not_negative() {
  return number<double>("a finite number of at least 0", "AT LEAST 0",
                        [](double v) { return std::isfinite(v) && v >= 0; });
}
Check from_to(double least, double most) {
  const std::string range = str(least, " to ", most);
  return number<double>("a number from " + range, range,
                        [=](double v) { return v >= least && v <= most; });
}
Check from_0_to(double most) { return from_to(0.0, most); }
Check at_least(long long least) {
  return number<long long>(str("an integer of at least ", least), str("AT LEAST ", least),
                           [=](long long v) { return v >= least; });
}
Check from_to(int least, int most) {
  const std::string range = str(least, " to ", most);
  return number<long long>("an integer from " + range, range,
                           [=](long long v) { return v >= least && v <= most; });
}

DType float_named(const std::string& name) {
  for (const DType t : {DType::f32, DType::f16, DType::bf16, DType::f64})
    if (name == dtype_name(t)) return t;
  throw UsageError(str("'", name, "' is no floating dtype (f32, f16, bf16, f64)"));
}
Check a_seed() {
  return number<u64>("an integer from 0 to 18446744073709551615", "", [](u64) { return true; });
}

// What they say of recipes they take from models, which launch kernels: what is wrong with
// WT_KERNEL is found here.
static void add_commands(Command app, int& code) {
  add_info(app, code);
  add_ops(app, code);
  add_models(app, code);
  add_train(app, code);
  add_eval(app, code);
  add_predict(app, code);
  add_generate(app, code);
  add_translate(app, code);
  add_data(app, code);
  add_memory(app, code);
  add_profile(app, code);
  add_doctor(app, code);
  add_look(app, code);
  add_step(app, code);
  add_tape(app, code);
  add_tune(app, code);
  add_bench(app, code);
  add_diff(app, code);
  add_grade(app, code);
  add_lab(app, code);
}

int run_command(int argc, char** argv) {
  wt::hold_standard_descriptors();
  const CommandLine line("warptape: train, inspect and measure", WARPTAPE_VERSION_STRING);
  const Command app = line.root();
  app.require_subcommand();
  app.footer(
      "Exit codes: 0 ok, 1 our bug, 2 usage, 3 data, 4 out of memory, 5 numeric failure, 6 "
      "device,\n"
      "7 peer, 8 output or checkpoint cannot be written, 9 runs differ (wt diff), 10 findings (wt "
      "doctor),\n11 a kernel or a lab does not pass (wt grade, wt lab), 130 interrupted, 143 "
      "terminated.");
  int code = 0;
  try {
    add_commands(app, code);
    if (!line.run(argc, argv)) return kExitUsage;
    flush_stdout();
  } catch (const std::exception& e) {
    return failed(e, exit_code_of(e));
  }
  return code;
}

}  // namespace wt::tools
