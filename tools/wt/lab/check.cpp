#include "warptape/tools/wt/lab/check.h"

#include <filesystem>
#include <random>

#include "warptape/core/error.h"
#include "warptape/core/input_file.h"
#include "warptape/tools/wt/grade/hints.h"
#include "warptape/tools/wt/lab/json_value.h"
#include "warptape/tools/wt/lab/lab_folder.h"

namespace wt::labs {
namespace {

// Of what is no mistake of the subject: lab.json may say more.
struct Common {
  const char* id;
  const char* text;
};
constexpr Common kCommon[] = {
    {"compile", "begin with the compiler's first error: those after it are often its echo"},
    {"threw", "the text of the exception names what was wrong, and often where"},
    {"crash",
     "a pointer or index that is none: compile it with -g -fsanitize=address and a main "
     "function of your own"},
    {"hang", "it does not come back: which loop has no end, which wait has no partner?"},
    {"memory", "it takes more memory than a case may: does something grow at every turn?"},
    {"exit", "do not end the process: throw, or return"},
    {"printed", "a case may print 1 MiB: print a few lines, outside of loops"},
    {"sandbox", "the task needs no files, sockets or processes"},
    {"header", "the interface is fixed: hidden cases are compiled with it as it was"},
};

// A header that was handed out and is another one now would be compiled into one half of the
// program only. What is to be done about it; "" if there is none.
std::string changed_header(const Lab& lab, const std::string& file) {
  const auto text = [](const std::string& path) {
    return without_carriage_returns(read_text(path));
  };
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  std::error_code error;
  for (const std::string& name : lab.also) {
    const std::string own = (folder / name).string();
    if (!std::filesystem::exists(own, error) || text(own) == text(lab.folder + "/" + name))
      continue;
    return str(name, " differs from what was handed out: remove it, and ",
               again_command(lab, folder.empty() ? "." : folder.string()), " restores it");
  }
  return "";
}

}  // namespace

OutcomeRow failed_row(const Lab& lab, const std::string& name, int points, std::string reason,
                      const std::string& hint_id) {
  OutcomeRow r{.name = name, .points = points, .reason = std::move(reason), .hint_id = hint_id};
  r.hint = lab.hint_text(hint_id, 0);
  for (const Common& c : kCommon)
    if (r.hint.empty() && hint_id == c.id) r.hint = c.text;
  return r;
}

OutcomeRow row_of_compiler(const Lab& lab, const grade::Compiled& c, const std::string& file) {
  const grade::Finding f = grade::of_compiler(c, file);
  const std::string name =
      std::filesystem::path(f.file.empty() ? file : f.file).filename().string();
  OutcomeRow r = failed_row(
      lab, "it compiles", 100,
      str(name, f.line ? str(":", f.line) : "", ": ", f.sentence.substr(0, f.sentence.find('\n'))),
      f.kind);
  if (r.hint.empty()) r.hint = f.hint;
  return r;
}

u64 fresh_seed() {
  std::random_device device;
  return device();
}

Outcome check_lab(const Lab& lab, const CheckOptions& o) {
  constexpr u64 kMostBytes = u64{4} << 20;
  if (InputFile(o.file).size() > kMostBytes) data_error(o.file, 0, "a file of more than 4 MiB");
  Outcome to{.lab = lab.number, .name = lab.name, .title = lab.title, .file = o.file};
  to.seed = o.seed, to.pass = lab.pass, to.challenge = lab.challenge;
  const std::string header = changed_header(lab, o.file);
  if (!header.empty())
    to.rows.push_back(failed_row(lab, "the interface", 100, header, "header"));
  else if (lab.kernel)
    check_kernels(lab, o, to);
  else
    check_cases(lab, o, to);
  return to;
}

}  // namespace wt::labs
