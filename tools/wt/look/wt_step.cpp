// wt step
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "warptape/tools/wt/look/kernel_names.h"
#include "warptape/tools/wt/look/look_problem.h"
#include "warptape/tools/wt/look/source_lines.h"
#include "warptape/tools/wt/look/step_view.h"
#include "warptape/tools/wt/profile/instrumented.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

struct StepOptions {
  LookRequest at;
  i64 block = 0, launch = -1;
};

struct Stepped {
  bench::Problem problem;
  std::string variant{};
  SimtSteps steps{};  // without a kernel: there is no launch of that number
};
Stepped stepped(const StepOptions& o, const Wanted& w, i64 launch) {
  Stepped s{problem_of(o.at, w)};
  const bench::VariantRun& v = variant_of(s.problem, w.variant);
  s.variant = v.name;
  simt_start_steps(u64(launch), u64(o.block));
  try {
    v.launch(0);
  } catch (...) {
    (void)simt_stop_steps();
    throw;
  }
  s.steps = simt_stop_steps();
  return s;
}

// Of a function that was named its first launch, unless another is asked for.
Stepped steps_of(const StepOptions& o, const Wanted& w) {
  std::vector<std::string> titles;
  for (i64 launch = std::max<i64>(o.launch, 0);; ++launch) {
    Stepped s = stepped(o, w, launch);
    if (s.steps.kernel.empty()) {
      if (o.launch < 0) check_launched(w, s.problem, s.variant, titles);
      throw UsageError(str(s.problem.contract, ":", s.variant, " makes no launch of number ",
                           launch, "; the first is 0"));
    }
    titles.push_back(s.steps.kernel);
    if (o.launch < 0 && !w.function.empty() && function_of(titles.back()) != w.function) continue;
    const auto& grid = s.steps.grid;
    const u64 blocks = u64{grid[0]} * grid[1] * grid[2];
    if (u64(o.block) >= blocks)
      throw UsageError(str("--block ", o.block, ": the grid has blocks 0 to ", blocks - 1));
    return s;
  }
}

void step(const StepOptions& o) {
  const Wanted w = wanted_of(o.at.kernel);
  become_instrumented();
  Stepped s = steps_of(o, w);
  const bench::Problem& p = s.problem;
  StepView view(std::move(s.steps), p.dtype,
                [&](const std::string& file) { return source_lines(o.at.source, file); });
  const bool asks = ::isatty(STDIN_FILENO) != 0;
  std::printf("%s:%s, %s, %s\n%s\n%s", p.contract.c_str(), s.variant.c_str(), p.shape.c_str(),
              dtype_name(p.dtype), view.head().c_str(), view.text().c_str());
  for (std::string line, answer;;) {
    if (asks) std::printf("\n(h: help) > ");
    flush_stdout();
    if (!std::getline(std::cin, line) || !view.command(line, answer)) break;
    std::printf("\n%s", answer.c_str());
  }
  flush_stdout();
}

}  // namespace

void add_step(Command app, int& code) {
  const Command c = app.add_subcommand(
      "step",
      "walks through a block of a kernel in the terminal, forwards and backwards: source, lanes, "
      "addresses and values of each access, and where warps wait");
  auto o = std::make_shared<StepOptions>();
  add_look_options(c, o->at);
  c.add_option("--block", o->block, "its number in the grid").check(at_least(0)).show_default();
  c.add_option("--launch", o->launch,
               "of a variant that launches several kernels: which one; without it the first, or "
               "that of the function that was named")
      .check(at_least(0));
  c.footer(
      "Commands come from standard input, a line each; without a terminal they may be a file:\n" +
      StepView::help());
  c.callback([o, &code] {
    step(*o);
    code = 0;
  });
}

}  // namespace wt::tools
