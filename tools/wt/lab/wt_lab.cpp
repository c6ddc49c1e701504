// wt lab
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

#include "warptape/core/files/atomic_file.h"
#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/tools/wt/confined/scratch.h"
#include "warptape/tools/wt/exit_codes.h"
#include "warptape/tools/wt/lab/check.h"
#include "warptape/tools/wt/lab/json_value.h"
#include "warptape/tools/wt/lab/lab_folder.h"
#include "warptape/tools/wt/lab/pack.h"
#include "warptape/tools/wt/lab/report.h"
#include "warptape/tools/wt/lab/table.h"
#include "warptape/tools/wt/lab/train.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

using namespace labs;
namespace fs = std::filesystem;

struct LabCommand {
  std::string path{}, lab{}, folder{}, out{}, seed{}, name{}, class_file{}, chosen{};
  std::vector<std::string> reports{};
  double seconds = 20;
  bool json = false, csv = false, again = false, train = false, recheck = false, no_nvcc = false;

  u64 seed_or_fresh() const { return seed.empty() ? fresh_seed() : std::stoull(seed); }
};
using Shared = std::shared_ptr<LabCommand>;

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  flush_stdout();
}

// "class/" is "class": what is made beside it would lie in it.
std::string without_end_slash(std::string folder) {
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  return folder;
}

// --- list, start ---

void list_labs(const LabCommand& c) {
  std::string text;
  for (const Lab& lab : all_labs(labs_folder())) {
    if (c.json) {
      JsonObject j;
      j.add("number", lab.number).add("name", lab.name).add("title", lab.title);
      j.add("minutes", lab.minutes).add("kind", lab.kernel ? "kernel" : "host");
      j.add("file", lab.file).add("misconception", lab.misconception).add("pass", lab.pass);
      text += j.add("challenge", lab.challenge).str() + "\n";
    } else {
      char line[64];
      std::snprintf(line, sizeof line, "%2d  %-16s %4d min  ", lab.number, lab.name.c_str(),
                    lab.minutes);
      text += str(line, lab.title, "\n");
    }
  }
  if (!c.json) text += "wt lab start N begins one (docs/labs.md)\n";
  print(text);
}

void start(const LabCommand& c) {
  const std::string labs = labs_folder();
  const Lab lab = lab_named(all_labs(labs), c.lab);
  const std::string folder = c.folder.empty() ? "lab" + lab.id() : without_end_slash(c.folder);
  const confined::CleanEnd clean;
  if (c.again) {
    std::string names;
    for (const std::string& n : restore_lab(lab, labs, folder))
      names += (names.empty() ? "" : ", ") + n;
    return print(str(printable_path(folder), ": ",
                     names.empty() ? "nothing was missing" : "restored " + names, "\n"));
  }
  start_lab(lab, labs, folder);
  print(str("lab ", lab.number, ", ", lab.title, ", about ", lab.minutes,
            " minutes: ", printable_path(folder), "\n  read page.md, write ", lab.file,
            ", then: wt lab check ", printable_path(folder), "\n"));
}

// --- check, hint ---

Outcome checked(const LabCommand& c, Work& w) {
  Outcome o = check_lab(
      w.lab, {.file = w.file, .seed = c.seed_or_fresh(), .seconds = c.seconds, .nvcc = !c.no_nvcc});
  std::error_code error;
  if (w.started && !fs::exists(w.folder + "/page.md", error))
    o.notes.push_back(
        str("page.md is not there; ", again_command(w.lab, w.folder), " restores it"));
  if (w.gone)
    o.notes.push_back(str("the labs that this was started from are not in ",
                          printable_path(w.state.labs), " any more: those in ",
                          printable_path(w.labs), " judge it; WT_LAB_DIR names others"));
  const OutcomeRow* const failed = o.first_failed();
  w.state.hint = failed ? failed->hint_id : "";
  w.state.said = failed ? failed->hint : "";
  w.state.reason = failed ? failed->name + ": " + failed->reason : "";
  return o;
}

int check(const LabCommand& c) {
  const confined::CleanEnd clean;
  Work w = find_work(c.path, c.lab);
  if (c.train && w.lab.real.empty())
    throw UsageError(
        str("--train: lab ", w.lab.number, " names no program that its kernels run in"));
  const Outcome o = checked(c, w);
  print(c.json ? outcome_json(o) + "\n" : outcome_text(o));
  write_state(w);
  if (!o.passed()) return kExitFailed;
  return c.train ? train_with(w.lab, o) : int(kExitOk);
}

void hint(const LabCommand& c) {
  const confined::CleanEnd clean;
  Work w = find_work(c.path, c.lab);
  if (!w.started)
    throw UsageError(str(printable_path(w.folder),
                         " remembers nothing: `wt lab start` makes a "
                         "folder that does"));
  const std::string id = w.state.hint;  // a row may have failed and have none
  if (w.state.reason.empty()) {
    if (c.json) return print("{\"hint\":\"\"}\n");
    return print("nothing failed last; `wt lab check` looks again\n");
  }
  const size_t levels = w.lab.hint_levels(id);
  const auto level = size_t(w.state.taken_of(id));
  std::string text = levels ? w.lab.hint_text(id, level) : w.state.said;
  if (text.empty()) text = "the lab has no hint for this; the sentence of the check says it best";
  if (c.json) {
    JsonObject j;
    j.add("hint", id).add("level", i64(std::min(level + 1, std::max<size_t>(levels, 1))));
    j.add("levels", i64(levels)).add("text", text).add("of", w.state.reason);
    print(j.str() + "\n");
  } else {
    print(str("what failed last: ", printable_lines(w.state.reason), "\n",
              levels ? str("hint ", std::min(level + 1, levels), " of ", levels, ": ") : "hint: ",
              printable_lines(text), "\n"));
  }
  if (level < levels) {
    w.state.take(id);
    write_state(w);
  }
}

// --- report, table, pack ---

// Whatever else is there might be the only copy of it.
void check_overwrites_reports_only(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return;
  try {
    (void)read_report(path);
  } catch (const DataError&) {
    throw UsageError(
        str("--out: ", printable_path(path), " is there and is no report: another name"));
  }
}

int report(const LabCommand& c) {
  const confined::CleanEnd clean;
  Work w = find_work(c.path, c.lab);
  const std::string path =
      c.out.empty() ? (fs::path(w.folder) / ("report_" + w.lab.id() + ".html")).string() : c.out;
  check_overwrites_reports_only(path);
  const ClassKey key = key_of_labs(w.labs);
  Report r;
  r.source = read_text(w.file);
  r.outcome = checked(c, w);
  if (read_text(w.file) != r.source)
    throw UsageError(str(printable_path(w.file), " was changed while it was checked"));
  const char* const user = std::getenv("USER");
  r.student = !c.name.empty() ? c.name : user ? user : "";
  r.made = utc_now(), r.version = version_text(), r.class_id = key.id;
  for (const auto& [id, n] : w.state.taken) r.hints.push_back({id, n, w.lab.hint_text(id, 0)});
  write_file_atomically(path, report_page(r, key.key));
  write_state(w);
  if (c.json)
    print(outcome_json(r.outcome) + "\n");
  else
    print(str(outcome_text(r.outcome), printable_path(path), "\n"));
  return r.outcome.passed() ? kExitOk : kExitFailed;
}

void table(const LabCommand& c) {
  const confined::CleanEnd clean;
  TableOptions o{.reports = c.reports, .recheck = c.recheck, .seconds = c.seconds};
  if (!c.class_file.empty()) o.of_class = read_class(c.class_file);
  if (c.json) o.form = TableOptions::Form::json;
  if (c.csv) o.form = TableOptions::Form::csv;
  print(table_text(table_rows(o), o));
}

void pack(const LabCommand& c) {
  const confined::CleanEnd clean;
  std::vector<Lab> chosen = all_labs(labs_folder());
  std::set<int> numbers;
  std::istringstream words(c.chosen);
  for (std::string word; std::getline(words, word, ',');)
    numbers.insert(lab_named(chosen, word).number);
  if (!numbers.empty())
    std::erase_if(chosen, [&](const Lab& lab) { return !numbers.contains(lab.number); });
  ClassKey key;
  if (c.class_file.empty()) {
    key = new_class(c.seed_or_fresh());
  } else {
    key = read_class(c.class_file);
    if (!c.seed.empty()) key.seed = std::stoull(c.seed);
  }
  const std::string out = without_end_slash(c.out), shown = printable_path(out);
  make_pack(chosen, key, out);
  print(str(chosen.size(), " labs for class ", key.id, ": hand out ", shown, "/labs, keep ", shown,
            "/teacher.json to yourself\n"));
}

// --- options ---

void add_work(const Command& c, const Shared& o) {
  c.add_option("folder", o->path, "the lab's folder, or the student's file; without it .");
  c.add_option("--lab", o->lab, "its number or name, where a file does not say which it is of");
}
void add_seed(const Command& c, const Shared& o, const char* help) {
  c.add_option("--seed", o->seed, help).check(a_seed());
}

void add_timeout(const Command& c, const Shared& o) {
  c.add_option("--timeout", o->seconds, "seconds that a case, or the runs of a variant, may take")
      .check(from_to(0.5, 600.0))
      .show_default();
}

void add_check_commands(Command lab, int& code) {
  const auto o = std::make_shared<LabCommand>();
  const Command c = lab.add_subcommand("check", "compiles and judges: points, reasons, hints");
  add_work(c, o);
  add_seed(c, o, "of the inputs of an earlier check; without it nobody knows it beforehand");
  add_timeout(c, o);
  c.add_flag("--no-nvcc", o->no_nvcc, "kernels on simt alone: seconds less where nvcc is");
  c.add_flag("--train", o->train, "then runs what passed inside of the program that the lab names");
  c.add_flag("--json", o->json, "one JSON object");
  c.callback([o, &code] { code = check(*o); });

  const auto h = std::make_shared<LabCommand>();
  const Command hints =
      lab.add_subcommand("hint",
                         "the next hint for what failed last: a question, then where to "
                         "look, then nearly the answer");
  add_work(hints, h);
  hints.add_flag("--json", h->json, "one JSON object");
  hints.callback([h] { hint(*h); });

  const auto r = std::make_shared<LabCommand>();
  const Command reports =
      lab.add_subcommand("report", "checks, and writes one HTML file for the teacher");
  add_work(reports, r);
  reports.add_option("--name", r->name, "the student's name; without it that of the login");
  reports.add_option("--out", r->out, "the file; without it report_NN_NAME.html in the folder");
  add_seed(reports, r, "of the inputs");
  add_timeout(reports, r);
  reports.add_flag("--json", r->json, "what was found as one JSON object");
  reports.callback([r, &code] { code = report(*r); });
}

void add_teacher_commands(Command lab) {
  const auto t = std::make_shared<LabCommand>();
  const Command tables = lab.add_subcommand("table", "a table of many reports");
  tables.add_option("reports", t->reports, "HTML files of wt lab report").required();
  tables.add_option("--class", t->class_file, "the pack's teacher.json: tells edited reports");
  tables.add_flag("--recheck", t->recheck, "grades their sources again, with the class's seed");
  add_timeout(tables, t);
  const Option json = tables.add_flag("--json", t->json, "a JSON object a report");
  tables.add_flag("--csv", t->csv, "for a spreadsheet").excludes(json);
  tables.callback([t] { table(*t); });

  const auto p = std::make_shared<LabCommand>();
  const Command packs = lab.add_subcommand("pack", "what a teacher hands out, without solutions");
  packs.add_option("--out", p->out, "a new folder").required();
  packs.add_option("--labs", p->chosen, "numbers or names, with commas; without it all");
  packs.add_option("--class", p->class_file, "the teacher.json of an earlier pack of this class");
  add_seed(packs, p, "of what --recheck grades with; without it a drawn one");
  packs.callback([p] { pack(*p); });
}

}  // namespace

void add_lab(Command app, int& code) {
  const Command lab = app.add_subcommand(
      "lab",
      "exercises inside of the working framework: list, start, check, hint, report; for "
      "teachers pack and table (docs/labs.md)");
  lab.require_subcommand();
  const auto l = std::make_shared<LabCommand>();
  const Command list = lab.add_subcommand("list", "the labs");
  list.add_flag("--json", l->json, "a JSON object a lab");
  list.callback([l] { list_labs(*l); });

  const auto s = std::make_shared<LabCommand>();
  const Command begin = lab.add_subcommand("start", "page, stub and headers in a new folder");
  begin.add_option("lab", s->lab, "its number or name").required();
  begin.add_option("--folder", s->folder, "without it labNN_NAME here");
  begin.add_flag("--again", s->again, "restores what is missing, and overwrites nothing");
  begin.callback([s] { start(*s); });
  add_check_commands(lab, code);
  add_teacher_commands(lab);
}

}  // namespace wt::tools
