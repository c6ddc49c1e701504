#include "warptape/tools/wt/lab/table.h"

#include <algorithm>
#include <tuple>

#include "warptape/core/error.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/core/files/csv_field.h"
#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/tools/wt/confined/scratch.h"
#include "warptape/tools/wt/lab/check.h"
#include "warptape/tools/wt/lab/json_value.h"
#include "warptape/tools/wt/lab/report.h"

namespace wt::labs {
namespace {

std::string state_of(const ReadReport& r, const ClassKey& c) {
  const std::string& id = r.report.class_id;
  if (id.empty()) {
    if (!r.intact("")) return "EDITED";
    return c.key.empty() ? "as written" : "as written, without the class's key";
  }
  if (c.key.empty()) return "not known: --class has its key";
  if (id != c.id) return "of another class";
  return r.intact(c.key) ? "as written" : "EDITED";
}

// The points that the report's source gets here.
int points_again(const Report& r, const TableOptions& o) {
  const Lab lab = lab_named(all_labs(labs_folder()), r.outcome.name);
  const confined::Scratch scratch;
  const std::string file = scratch.path() + "/" + lab.file;
  write_file_atomically(file, r.source, {.durable = false});
  const u64 seed = o.of_class.key.empty() ? fresh_seed() : o.of_class.seed;
  return check_lab(lab, {.file = file, .seed = seed, .seconds = o.seconds}).points();
}

TableRow row_of_report(const std::string& path, const TableOptions& o) {
  TableRow row{.path = path};
  try {
    const ReadReport r = read_report(path);
    row.student = r.report.student, row.lab = r.report.outcome.name;
    row.number = r.report.outcome.lab, row.points = r.report.outcome.points();
    row.passed = r.report.outcome.passed(), row.challenge = r.report.outcome.challenge_met();
    for (const TakenHint& h : r.report.hints) row.hints += h.levels;
    row.state = state_of(r, o.of_class);
    if (!o.recheck) return row;
    row.rechecked = points_again(r.report, o);
  } catch (const DataError& e) {
    row.state = e.what();
  } catch (const UsageError& e) {  // of a lab that is not here
    row.state += str(", not rechecked: ", e.what());
  }
  return row;
}

// What a spreadsheet would take for a formula begins with an apostrophe.
std::string safe_csv_field(const std::string& text) {
  const bool formula = !text.empty() && std::string_view("=+-@\t\r").find(text[0]) != text.npos;
  return csv_field(formula ? "'" + text : text);
}

const char* yes(bool v) { return v ? "yes" : "no"; }

std::string csv_text(const std::vector<TableRow>& rows, bool recheck) {
  std::string out = str("student,lab,number,points,passed,challenge,hints,state",
                        recheck ? ",rechecked" : "", ",file\n");
  for (const TableRow& r : rows) {
    out +=
        str(safe_csv_field(r.student), ",", safe_csv_field(r.lab), ",", r.number, ",", r.points,
            ",", yes(r.passed), ",", yes(r.challenge), ",", r.hints, ",", safe_csv_field(r.state));
    if (recheck) out += r.rechecked < 0 ? "," : str(",", r.rechecked);
    out += "," + safe_csv_field(r.path) + "\n";
  }
  return out;
}

std::string rows_json(const std::vector<TableRow>& rows) {
  std::string out;
  for (const TableRow& r : rows) {
    JsonObject j;
    j.add("file", r.path).add("student", r.student).add("lab", r.lab).add("number", r.number);
    j.add("points", r.points).add("passed", r.passed).add("challenge", r.challenge);
    j.add("hints", r.hints).add("state", r.state);
    if (r.rechecked >= 0) j.add("rechecked", r.rechecked);
    out += j.str() + "\n";
  }
  return out;
}

size_t characters(const std::string& text) {
  return size_t(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}
std::string padded(std::string text, size_t width) {
  return text.append(width - characters(text), ' ');
}

std::string plain_table(const std::vector<TableRow>& rows, bool recheck) {
  std::vector<std::vector<std::string>> cells{{"student", "lab", "points", "passed", "challenge",
                                               "hints", recheck ? "again" : "", "state", "file"}};
  for (const TableRow& r : rows)
    cells.push_back({printable_lines(r.student), str(r.number, " ", printable(r.lab)),
                     std::to_string(r.points), yes(r.passed), r.challenge ? "met" : "-",
                     std::to_string(r.hints), r.rechecked < 0 ? "" : std::to_string(r.rechecked),
                     printable_lines(r.state), printable_path(r.path)});
  std::vector<size_t> width(cells[0].size());
  for (auto& line : cells)
    for (size_t i = 0; i < line.size(); ++i) {
      std::replace(line[i].begin(), line[i].end(), '\n', ' ');
      width[i] = std::max(width[i], characters(line[i]));
    }
  std::string out;
  for (const auto& line : cells) {
    std::string text;
    for (size_t i = 0; i < line.size(); ++i)
      if (width[i]) text += padded(line[i], width[i]) + (i + 1 < line.size() ? "  " : "");
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  }
  return out;
}

}  // namespace

std::vector<TableRow> table_rows(const TableOptions& o) {
  std::vector<TableRow> rows;
  for (const std::string& path : o.reports) rows.push_back(row_of_report(path, o));
  std::stable_sort(rows.begin(), rows.end(), [](const TableRow& a, const TableRow& b) {
    return std::tie(a.student, a.number) < std::tie(b.student, b.number);
  });
  return rows;
}

std::string table_text(const std::vector<TableRow>& rows, const TableOptions& o) {
  if (o.form == TableOptions::Form::csv) return csv_text(rows, o.recheck);
  if (o.form == TableOptions::Form::json) return rows_json(rows);
  return plain_table(rows, o.recheck);
}

}  // namespace wt::labs
