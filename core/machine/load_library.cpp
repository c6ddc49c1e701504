#include "warptape/core/machine/load_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

namespace wt {

const LibraryLoader system_loader = {
    [](const char* file) { return dlopen(file, RTLD_NOW); },
    [](void* library, const char* name) { return dlsym(library, name); },
    [] {
      const char* text = dlerror();
      return std::string(text ? text : "");
    }};

namespace {

std::string folder(const char* variable) {
  const char* text = std::getenv(variable);
  return text ? text : "";
}

void add_folders(std::vector<std::string>& list, const LibrarySearch& search, const char* file) {
  for (const LibraryFolder& f : search.folders) {
    const std::string root = f.variable ? folder(f.variable) : "";
    if (f.variable && root.empty()) continue;
    list.push_back(str(root, f.variable ? "/" : "", f.folder, "/", file));
  }
}

void add_places(std::vector<std::string>& list, const LibrarySearch& search, const char* file) {
  list.push_back(file);
  for (const char* variable : search.roots)
    if (const std::string root = folder(variable); !root.empty())
      for (const char* lib : {"/lib/", "/lib64/"}) list.push_back(root + lib + file);
  add_folders(list, search, file);
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string root = folder(variable);
    if (root.empty()) continue;
    list.push_back(str(root, "/lib/", file));
    std::error_code error;
    for (std::filesystem::directory_iterator f(root + "/lib", error), end; !error && f != end;
         f.increment(error))
      if (f->path().filename().string().starts_with("python3"))
        list.push_back(str(f->path().string(), "/site-packages/", search.wheel, "/", file));
  }
}

std::vector<std::string> places(const LibrarySearch& search) {
  std::vector<std::string> list;
  add_places(list, search, search.file);
  for (const char* other : search.others) add_places(list, search, other);
  return list;
}

}  // namespace

LoadedLibrary load_library(const LibrarySearch& search, const LibraryLoader& loader) {
  LoadedLibrary found;
  const std::string asked = folder(search.variable);
  if (asked == "off") {
    found.why_not = str(search.variable, "=off");
    return found;
  }
  const auto words = [&] { return loader.error ? loader.error() : std::string(); };
  if (!asked.empty()) {
    found.handle = loader.open(asked.c_str());
    if (found.handle) {
      found.file = asked;
      return found;
    }
    const std::string error = words();
    found.why_not =
        str(search.variable, ": ", asked, " cannot be loaded", error.empty() ? "" : ": ", error);
    return found;
  }
  std::string broken;  // the first one that is there all the same
  for (const std::string& place : places(search)) {
    found.handle = loader.open(place.c_str());
    if (found.handle) {
      found.file = place;
      return found;
    }
    const std::string error = words();
    if (broken.empty() && !error.empty() &&
        !error.starts_with(place + ": cannot open shared object file: No such file"))
      broken = str(place, " cannot be loaded: ", error);
  }
  found.why_not = broken.empty() ? str("there is no ", search.file, " (", search.how, ", or ",
                                       search.variable, "=FILE)")
                                 : broken;
  return found;
}

}  // namespace wt
