#include "warptape/data/sets/folder_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "warptape/core/input_file.h"
#include "warptape/core/str.h"
#include "warptape/data/image_parts.h"

namespace wt::data::detail {
namespace {

namespace fs = std::filesystem;
using StatResult = struct stat;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw DataError(printable_path(path) + ": " + why);
}

struct Entry {
  std::string name, path;
  StatResult is{};
};

// What a folder has, links followed, hidden names left out, in the order of the names' bytes.
std::vector<Entry> entries_of(const std::string& folder) {
  std::error_code why;
  std::vector<Entry> all;
  fs::directory_iterator at(folder, why);
  for (; !why && at != fs::directory_iterator(); at.increment(why)) {
    Entry e{.name = at->path().filename().string(), .path = at->path().string()};
    if (e.name.starts_with('.')) continue;
    if (::stat(e.path.c_str(), &e.is) != 0)
      refuse(e.path,
             str("cannot be looked at: ", std::strerror(errno),
                 fs::is_symlink(at->symlink_status(why)) ? " (where the link leads to)" : ""));
    all.push_back(std::move(e));
  }
  if (why) refuse(folder, "the folder cannot be read: " + why.message());
  std::sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return all;
}

// Also formats that are not read: a set that lost its BMP files without a word would be no set.
bool named_as_image(const std::string& name) {
  const size_t dot = name.rfind('.');
  if (dot == name.npos) return false;
  std::string end = name.substr(dot + 1);
  for (char& c : end) c = c >= 'A' && c <= 'Z' ? char(c + 32) : c;
  static constexpr std::array<std::string_view, 12> ends{
      "jpg", "jpeg", "jpe", "png", "webp", "ppm", "pgm", "pnm", "bmp", "gif", "tif", "tiff"};
  return std::find(ends.begin(), ends.end(), end) != ends.end();
}

bool begins_as_image(const Entry& e) {
  const InputFile file(e.path);
  std::string head(size_t(std::min<u64>(file.size(), 16)), '\0');
  file.read(0, head.data(), head.size(), "the magic number");
  return image_format(head).has_value();
}

class Lister {
 public:
  explicit Lister(FolderFiles& to) : to_(to) {}

  void list(const Entry& folder, i64 label) {
    for (const StatResult& above : above_)
      if (above.st_dev == folder.is.st_dev && above.st_ino == folder.is.st_ino)
        refuse(folder.path, "a link that leads back to a folder it lies in");
    constexpr size_t kMostFolders = 64;
    if (above_.size() >= kMostFolders)
      refuse(folder.path, str("more than ", kMostFolders, " folders lie in one another"));
    above_.push_back(folder.is);
    for (const Entry& e : entries_of(folder.path)) {
      if (S_ISDIR(e.is.st_mode))
        list(e, label);
      else if (S_ISREG(e.is.st_mode) && (named_as_image(e.name) || begins_as_image(e)))
        to_.files.push_back({.path = e.path,
                             .label = label,
                             .bytes = u64(e.is.st_size),
                             .seconds = i64(e.is.st_mtim.tv_sec),
                             .nanoseconds = i64(e.is.st_mtim.tv_nsec)});
      else
        ++to_.left_out;
    }
    above_.pop_back();
  }

 private:
  FolderFiles& to_;
  std::vector<StatResult> above_;
};

// Folder by folder, as torchvision sorts: the files of a folder come before those of its folders.
bool before(const FolderFile& a, const FolderFile& b) {
  const size_t end_a = a.path.rfind('/'), end_b = b.path.rfind('/');
  const int folders = a.path.compare(0, end_a, b.path, 0, end_b);
  return folders != 0 ? folders < 0 : a.path.compare(end_a, a.path.npos, b.path, end_b) < 0;
}

}  // namespace

FolderFiles list_image_folder(const std::string& root, bool allow_empty) {
  StatResult is{};
  if (::stat(root.c_str(), &is) != 0 || !S_ISDIR(is.st_mode))
    refuse(root, "there is no such folder");
  FolderFiles found;
  i64 files = 0;
  for (const Entry& e : entries_of(root)) {
    if (!S_ISDIR(e.is.st_mode)) {
      ++files;
      continue;
    }
    const size_t first = found.files.size();
    Lister(found).list(e, i64(found.classes.size()));
    found.classes.push_back(e.name);
    if (found.files.size() == first && !allow_empty)
      refuse(e.path, "a class without images\n  Try .allow_empty = true, or remove the folder");
    std::sort(found.files.begin() + i64(first), found.files.end(), before);
  }
  if (found.classes.empty())
    refuse(root, str("no folders are in it, each of which would be a class; ", files,
                     " files are\n  Try ROOT/CLASS/IMAGE.jpg, and ROOT as the path"));
  if (found.files.empty()) refuse(root, "none of its classes has an image");
  return found;
}

void check_unchanged(const FolderFile& f) {
  StatResult is{};
  if (::stat(f.path.c_str(), &is) != 0)
    refuse(f.path,
           str("was there when its folder was listed, and is not now: ", std::strerror(errno)));
  if (!S_ISREG(is.st_mode) || u64(is.st_size) != f.bytes || i64(is.st_mtim.tv_sec) != f.seconds ||
      i64(is.st_mtim.tv_nsec) != f.nanoseconds)
    refuse(f.path, str("has changed since its folder was listed (", f.bytes, " bytes then, ",
                       is.st_size, " now)\n  Try to make the ImageFolder again"));
}

}  // namespace wt::data::detail
