#include "warptape/tools/wt/lab/lab_folder.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "warptape/core/error.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/tools/wt/confined/scratch.h"
#include "warptape/tools/wt/lab/json_value.h"

namespace wt::labs {
namespace {

namespace fs = std::filesystem;
constexpr const char* kState = ".wt_lab.json";

// What is handed out: the name there, and the file that it is of.
std::vector<std::pair<std::string, std::string>> handed_out(const Lab& lab) {
  std::vector<std::pair<std::string, std::string>> all{{"page.md", lab.folder + "/page.md"},
                                                       {lab.file, lab.folder + "/" + lab.stub()}};
  for (const std::string& name : lab.also) all.emplace_back(name, lab.folder + "/" + name);
  return all;
}

std::string state_json(const LabState& s) {
  JsonObject j, taken;
  j.add("lab", s.lab).add("labs", s.labs).add("hint", s.hint).add("said", s.said);
  j.add("reason", s.reason);
  for (const auto& [id, n] : s.taken) taken.add(id, n);
  return j.add_raw("taken", taken.str()).str() + "\n";
}

LabState read_state(const std::string& folder) {
  const std::string path = folder + "/" + kState;
  const Json j = read_json(read_text(path), path);
  LabState s{.lab = j.string("lab"), .labs = j.string("labs"), .hint = j.string("hint")};
  s.said = j.string("said"), s.reason = j.string("reason");
  if (const Json* const taken = j.find("taken"))
    for (const auto& [id, n] : taken->fields) s.taken.emplace_back(id, int(taken->whole(id)));
  return s;
}

bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

std::string names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    names.push_back(printable(entry.path().filename().string()));
  std::sort(names.begin(), names.end());
  std::string list;
  for (const std::string& n : names) list += (list.empty() ? "" : ", ") + n;
  return list.empty() ? "nothing" : list;
}

// WT_LAB_DIR says which labs are meant, wherever a folder was started from.
bool labs_are_named() {
  const char* const named = std::getenv("WT_LAB_DIR");
  return named && *named;
}

Lab lab_of_file(const std::vector<Lab>& labs, const fs::path& file) {
  std::string list;
  for (const Lab& lab : labs) {
    if (lab.file == file.filename()) return lab;
    list += (list.empty() ? "" : ", ") + lab.file;
  }
  throw UsageError(str("which lab is ", printable_path(file.string()),
                       " of? --lab says it; by their names these are known: ", list));
}

}  // namespace

int LabState::taken_of(const std::string& id) const {
  for (const auto& [name, n] : taken)
    if (name == id) return n;
  return 0;
}

void LabState::take(const std::string& id) {
  for (auto& [name, n] : taken)
    if (name == id) return void(++n);
  taken.emplace_back(id, 1);
}

void start_lab(const Lab& lab, const std::string& labs, const std::string& folder) {
  if (exists(folder))
    throw UsageError(str(printable_path(folder), " is there already, with ", names_in(folder),
                         ": nothing was changed. --again restores what is missing, --folder names "
                         "another one"));
  const fs::path parent = fs::path(folder).parent_path();
  std::error_code error;
  if (!parent.empty()) fs::create_directories(parent, error);
  confined::Scratch made(folder);
  for (const auto& [name, from] : handed_out(lab))
    write_file_atomically(made.path() + "/" + name, read_text(from));
  const LabState s{.lab = lab.id(), .labs = fs::absolute(labs).string()};
  write_file_atomically(made.path() + "/" + kState, state_json(s));
  made.move_to(folder);
}

std::vector<std::string> restore_lab(const Lab& lab, const std::string& labs,
                                     const std::string& folder) {
  Lab own = lab;
  if (exists(folder + "/" + kState)) {
    const LabState s = read_state(folder);
    if (s.lab != lab.id())
      throw UsageError(str(printable_path(folder), " is the folder of ", printable(s.lab),
                           ", not of ", lab.id()));
    if (!labs_are_named() && exists(s.labs)) own = lab_named(all_labs(s.labs), s.lab);
  }
  std::error_code error;
  if (!fs::is_directory(folder, error))
    throw UsageError(str("--again: there is no folder ", printable_path(folder)));
  std::vector<std::string> restored;
  for (const auto& [name, from] : handed_out(own)) {
    if (exists(folder + "/" + name)) continue;
    write_file_atomically(folder + "/" + name, read_text(from));
    restored.push_back(name);
  }
  if (!exists(folder + "/" + kState)) {
    const LabState s{.lab = lab.id(), .labs = fs::absolute(labs).string()};
    write_file_atomically(folder + "/" + kState, state_json(s));
  }
  return restored;
}

std::string again_command(const Lab& lab, const std::string& folder) {
  return str("`wt lab start ", lab.number, " --again --folder ", printable_path(folder), "`");
}

Work find_work(const std::string& given, const std::string& lab) {
  const std::string path = given.empty() ? "." : given;
  std::error_code error;
  if (!exists(path))
    throw DataError(str(printable_path(path), ": there is no such file or folder"));
  Work w;
  const bool folder = fs::is_directory(path, error);
  w.folder = folder ? path : fs::path(path).parent_path().string();
  if (w.folder.empty()) w.folder = ".";
  w.started = exists(w.folder + "/" + kState);
  if (w.started) w.state = read_state(w.folder);
  const bool remembered = w.started && !labs_are_named();
  w.gone = remembered && !exists(w.state.labs);
  w.labs = labs_folder(remembered && !w.gone ? w.state.labs : "");
  const std::vector<Lab> labs = all_labs(w.labs);
  if (!lab.empty())
    w.lab = lab_named(labs, lab);
  else if (w.started)
    w.lab = lab_named(labs, w.state.lab);
  else if (!folder)
    w.lab = lab_of_file(labs, path);
  else
    throw UsageError(str(printable_path(path),
                         " has no lab in it; `wt lab start N` makes a folder "
                         "of one"));
  if (w.started && w.state.lab != w.lab.id()) w.started = false;  // it is about another one
  w.file = folder ? (fs::path(w.folder) / w.lab.file).string() : path;
  if (!exists(w.file))
    throw DataError(str(printable_path(w.file), " is not there; ", again_command(w.lab, w.folder),
                        " restores the stub"));
  return w;
}

void write_state(const Work& w) {
  if (w.started) write_file_atomically(w.folder + "/" + kState, state_json(w.state));
}

}  // namespace wt::labs
