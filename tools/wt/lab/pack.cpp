#include "warptape/tools/wt/lab/pack.h"

#include <filesystem>

#include "warptape/core/error.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/core/input_file.h"
#include "warptape/tools/wt/confined/scratch.h"
#include "warptape/tools/wt/lab/json_value.h"

namespace wt::labs {
namespace {

namespace fs = std::filesystem;

void put(const std::string& folder, const std::string& name, const std::string& text) {
  write_file_atomically(folder + "/" + name, text);
}

void pack_lab(const Lab& lab, const std::string& folder) {
  std::vector<std::string> names{"lab.json", "page.md", lab.stub()};
  names.insert(names.end(), lab.also.begin(), lab.also.end());
  if (!lab.kernel) names.push_back("libcheck.a");
  std::error_code error;
  if (!fs::create_directory(folder, error))
    throw CheckpointError(str(printable_path(folder), ": ", error.message()));
  for (const std::string& name : names)
    put(folder, name, read_text(lab.folder + "/" + name, u64{256} << 20));
}

constexpr char kReadme[] =
    "Labs of warptape, as your teacher hands them out. With warptape installed:\n\n"
    "    export WT_LAB_DIR=/path/to/this/folder\n"
    "    wt lab list\n    wt lab start 1\n    wt lab check lab01_NAME\n"
    "    wt lab report lab01_NAME --name \"Your Name\"\n";

}  // namespace

void make_pack(const std::vector<Lab>& labs, const ClassKey& c, const std::string& out) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(out, error)))
    throw UsageError(str(printable_path(out), " is there already: nothing was changed"));
  confined::Scratch made(out);
  const std::string folder = made.path() + "/labs";
  if (!fs::create_directory(folder, error))
    throw CheckpointError(str(printable_path(folder), ": ", error.message()));
  for (const Lab& lab : labs) pack_lab(lab, folder + "/" + lab.id());
  put(folder, "pack.json", pack_json(c));
  put(folder, "README.txt", kReadme);
  put(made.path(), "teacher.json", class_json(c));
  fs::permissions(made.path() + "/teacher.json", fs::perms::owner_read | fs::perms::owner_write,
                  error);
  made.move_to(out);
}

}  // namespace wt::labs
