// wt diff A B
#include <sys/stat.h>

#include <cstdio>

#include "warptape/core/files/atomic_file.h"
#include "warptape/tools/wt/exit_codes.h"
#include "warptape/tools/wt/reports/run_diff_output.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

struct DiffCommand {
  std::string a, b, html;
  int rank = 0;
  i64 rows = 20;
  bool json = false;
  RunDiffOptions options;
};

// Of a run's folder its recording; anything else is the file.
std::string recording_in(const std::string& path, int rank) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return path;
  const std::string file = path + (rank == 0 ? "/tensors.wtd" : str("/tensors.rank", rank, ".wtd"));
  if (::stat(file.c_str(), &info) != 0)
    throw DataError(str(printable_path(path), " has no recording of rank ", rank,
                        "\n  Try wt train ... --log-tensors 10 --out FOLDER"));
  return file;
}

int run_diff_command(const DiffCommand& c) {
  record::RecordingFile a(recording_in(c.a, c.rank)), b(recording_in(c.b, c.rank));
  const RunDiff d = diff_runs(a, b, c.options);
  const DiffNames names{c.a, c.b, a.header().label, b.header().label, c.rank};
  const std::string text =
      c.json ? diff_json(d, names) + "\n" : diff_text(d, names, std::size_t(c.rows));
  std::fwrite(text.data(), 1, text.size(), stdout);
  flush_stdout();
  if (!c.html.empty()) write_file_atomically(c.html, diff_page(d, names));
  return d.first_beyond || !d.related || d.steps.empty() ? kExitDiffer : kExitOk;
}

}  // namespace

void add_diff(Command app, int& code) {
  const Command c = app.add_subcommand(
      "diff",
      "two runs of `wt train --log-tensors N` beside each other: the first result or gradient that "
      "differs, and how the difference grows");
  auto o = std::make_shared<DiffCommand>();
  c.add_option("A", o->a, "run folder or recording").required();
  c.add_option("B", o->b, "run folder or recording").required();
  c.add_option("--bound", o->options.bound,
               "times the bound of the dtype: 1e-12 of f64, 1e-5 of f32, 0.01 of f16, 0.08 of bf16")
      .check(not_negative())
      .show_default();
  c.add_option("--rank", o->rank, "whose recordings of the folders")
      .check(from_to(0, 1023))
      .show_default();
  c.add_option("--rows", o->rows, "of each table").check(at_least(2)).show_default();
  c.add_option("--html", o->html, "a page with curves, too");
  c.add_flag("--json", o->json, "one JSON object");
  c.footer(str("Exit code ", int(kExitDiffer),
               ": a difference beyond a bound, runs of different models, or no step in both."));
  c.callback([o, &code] { code = run_diff_command(*o); });
}

}  // namespace wt::tools
