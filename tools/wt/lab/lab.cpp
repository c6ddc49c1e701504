#include "warptape/tools/wt/lab/lab.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "warptape/core/error.h"
#include "warptape/core/input_file.h"
#include "warptape/core/suggest.h"
#include "warptape/tools/wt/lab/json_value.h"

namespace wt::labs {
namespace {

namespace fs = std::filesystem;

bool has_labs(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (fs::exists(at->path() / "lab.json", error)) return true;
  return false;
}

std::vector<std::string> strings_of(const Json& j, std::string_view key) {
  std::vector<std::string> all;
  for (const Json& one : j.items(key))
    if (one.kind == Json::Kind::string) all.push_back(one.text);
  return all;
}

GradedRow row_of(const Json& j) {
  GradedRow r{.op = j.string("op"), .variant = j.string("variant")};
  r.points = int(j.whole("points"));
  r.score = int(j.whole("score"));
  r.challenge_score = int(j.whole("challenge_score"));
  r.deterministic = j.flag("deterministic");
  r.title = j.string("title", r.op + (r.variant.empty() ? "" : ", " + r.variant));
  if (r.score && !j.find("title")) r.title += str(": score of at least ", r.score);
  return r;
}

// Names of files that stay in their folder.
bool plain_name(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.find('/') == name.npos;
}

void require_whole(const Lab& lab, const std::string& path) {
  std::string wrong;
  if (lab.number < 1 || lab.number > 99) wrong = "number has to be 1 to 99";
  if (!plain_name(lab.name)) wrong = "it has no name";
  if (!plain_name(lab.file)) wrong = "it names no file for the student";
  for (const std::string& name : lab.also)
    if (!plain_name(name)) wrong = "\"also\" has a name that is none";
  if (lab.kernel && lab.graded.empty()) wrong = "a lab of kernels with nothing that is graded";
  if (!wrong.empty()) data_error(path, 0, wrong);
}

}  // namespace

std::string Lab::id() const {
  char text[8];
  std::snprintf(text, sizeof text, "%02d_", number);
  return text + name;
}

std::string Lab::stub() const { return "stub" + fs::path(file).extension().string(); }

std::string Lab::hint_of(const std::string& op, const std::string& kind,
                         const std::string& reason) const {
  for (const bool words : {true, false})
    for (const std::string& wanted : {op + "/" + kind, kind})
      for (const auto& [found, id] : findings)
        if (const size_t end = std::min(found.find(' '), found.size());
            found.compare(0, end, wanted) == 0 && words == (end < found.size()) &&
            (!words || reason.find(found.substr(end + 1)) != reason.npos))
          return id;
  return "";
}

size_t Lab::hint_levels(const std::string& wanted) const {
  for (const auto& [id, levels] : hints)
    if (id == wanted) return levels.size();
  return 0;
}

std::string Lab::hint_text(const std::string& wanted, size_t level) const {
  for (const auto& [id, levels] : hints)
    if (id == wanted && !levels.empty()) return levels[std::min(level, levels.size() - 1)];
  return "";
}

std::string labs_folder(const std::string& given) {
  const char* const named = given.empty() ? std::getenv("WT_LAB_DIR") : given.c_str();
  if (named && *named) {
    if (has_labs(named)) return named;
    throw NotAvailable(str("wt lab: there are no labs in ", printable_path(named)));
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  for (const char* const place : {"labs", "../share/warptape/labs"}) {
    const fs::path folder = (program.parent_path() / place).lexically_normal();
    if (has_labs(folder)) return folder.string();
  }
  throw NotAvailable(
      "wt lab: the labs lie in labs/ beside wt or in share/warptape/labs where it is installed, "
      "and they are in neither; WT_LAB_DIR names the folder. A build without simt has none");
}

Lab read_lab(const std::string& folder) {
  const std::string path = folder + "/lab.json";
  const Json j = read_json(read_text(path), path);
  Lab lab{.number = int(j.whole("number")), .name = j.string("name"), .title = j.string("title")};
  lab.minutes = int(j.whole("minutes"));
  lab.kernel = j.string("kind") == "kernel";
  lab.file = j.string("file"), lab.also = strings_of(j, "also");
  lab.misconception = j.string("misconception"), lab.challenge = j.string("challenge");
  lab.pass = int(j.whole("pass", 70));
  for (const Json& row : j.items("graded")) lab.graded.push_back(row_of(row));
  if (const Json* const hints = j.find("hints"))
    for (const auto& [id, levels] : hints->fields)
      lab.hints.emplace_back(id, strings_of(*hints, id));
  if (const Json* const findings = j.find("findings"))
    for (const auto& [kind, id] : findings->fields) lab.findings.emplace_back(kind, id.text);
  if (const Json* const real = j.find("real")) lab.real = real->string("command");
  lab.folder = folder;
  require_whole(lab, path);
  return lab;
}

std::vector<Lab> all_labs(const std::string& folder) {
  std::vector<Lab> labs;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (fs::exists(entry.path() / "lab.json", error)) labs.push_back(read_lab(entry.path()));
  std::sort(labs.begin(), labs.end(),
            [](const Lab& a, const Lab& b) { return a.number < b.number; });
  return labs;
}

Lab lab_named(const std::vector<Lab>& labs, const std::string& word) {
  const bool digits =
      !word.empty() && word.size() < 4 &&
      std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
  std::vector<std::string> names, shown;
  for (const Lab& lab : labs) {
    if (digits ? lab.number == std::atoi(word.c_str()) : lab.name == word || lab.id() == word)
      return lab;
    names.push_back(lab.name);
    shown.push_back(str(lab.number, " ", lab.name));
  }
  std::string list;
  for (const std::string& s : shown) list += (list.empty() ? "" : ", ") + s;
  throw UsageError(str("no lab is called '", printable(word), "'", did_you_mean(word, names),
                       " (there are ", list, ")"));
}

}  // namespace wt::labs
