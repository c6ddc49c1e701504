// wt grade
#include <algorithm>
#include <cstdio>
#include <random>

#include "warptape/tools/wt/confined/scratch.h"
#include "warptape/tools/wt/exit_codes.h"
#include "warptape/tools/wt/grade/grade.h"
#include "warptape/tools/wt/grade/ops.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

struct GradeCommand {
  grade::GradeOptions o;
  std::string seed;
  bool json = false, no_nvcc = false;
};

// One that nobody knows beforehand.
u64 drawn_seed() {
  std::random_device device;
  return device();
}

int grade_kernels(GradeCommand& c) {
  c.o.seed = c.seed.empty() ? drawn_seed() : std::stoull(c.seed);
  c.o.nvcc = !c.no_nvcc;
  const confined::CleanEnd clean;
  const auto say = [&](const grade::Verdict& v) {
    const std::string text = c.json ? grade::verdict_json(v) + "\n" : grade::verdict_text(v);
    std::fputs(text.c_str(), stdout);
    flush_stdout();
  };
  return grade::grade_file(c.o, say) ? kExitOk : kExitFailed;
}

std::string ops_text() {
  std::size_t widest = 0;
  for (const std::string& name : grade::graded_op_names()) widest = std::max(widest, name.size());
  std::string text = "Operators:\n";
  for (const grade::GradedOp& op : grade::graded_ops()) {
    text += str("  ", op.name, std::string(widest + 2 - op.name.size(), ' '), op.about);
    text += " (" + op.header + ")\n";
  }
  return text + "Exit codes: 0 every variant passed, 11 one did not; others as of wt.";
}

}  // namespace

void add_grade(Command app, int& code) {
  const Command c = app.add_subcommand(
      "grade",
      "compiles a kernel file against an operator's contract and judges its variants on simt: "
      "values, races, memory, streams, and what they ask of memory; where nvcc is, on the emulated "
      "device, too (docs/grading.md)");
  auto g = std::make_shared<GradeCommand>();
  c.add_option("kernel", g->o.file, "a .cu file with WT_VARIANTS of the operator's contract")
      .required();
  c.add_option("--op", g->o.op, "the operator, of those below")
      .required()
      .check(one_of(grade::graded_op_names));
  c.add_option("--variant", g->o.variants, "this one alone, and those of further --variant")
      .one_value_each_time();
  c.add_option("--seed", g->seed, "of all inputs; without it nobody knows it beforehand")
      .check(a_seed());
  c.add_option("--timeout", g->o.seconds, "seconds that the runs of a variant may take")
      .check(from_to(0.5, 600.0))
      .show_default();
  c.add_option("--keep", g->o.keep, "a folder for what is compiled; else it is removed");
  c.add_flag("--no-nvcc", g->no_nvcc, "on simt alone: seconds less");
  c.add_flag("--json", g->json, "one JSON object a variant");
  c.footer(ops_text());
  c.callback([g, &code] { code = grade_kernels(*g); });
}

}  // namespace wt::tools
