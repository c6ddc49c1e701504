// Libraries of NVIDIA's that are used where they are and that neither building nor running needs:
// where a versioned .so is looked for, and what is said where it is not there. Internal.
#pragma once
#include <span>
#include <string>

#include "warptape/core/str.h"

namespace wt {

// How a library is opened and its functions are found: the system's way, or a test's.
struct LibraryLoader {
  void* (*open)(const char* file);  // null: it cannot be
  void* (*symbol)(void* library, const char* name);
  std::string (*error)() = nullptr;  // why the last open failed; null: nobody knows
};
extern const LibraryLoader system_loader;  // dlopen, dlsym, dlerror

// "extras/CUPTI/lib64" of the folder that a variable names; without a variable a path of its own.
struct LibraryFolder {
  const char* variable;  // may be null
  const char* folder;
};

struct LibrarySearch {
  const char* file;                    // "libcudnn.so.9"
  const char* variable;                // of the environment: a file, or "off"
  std::span<const char* const> roots;  // variables: folders whose lib/ and lib64/ may have it
  const char* wheel;                   // its folder in Python's site-packages: "nvidia/cudnn/lib"
  const char* how;                     // to get it: "pip install nvidia-cudnn-cu13"
  // Names of other versions, which are looked for everywhere where `file` is not anywhere.
  std::span<const char* const> others = {};
  std::span<const LibraryFolder> folders = {};  // tried behind the roots
};
// A library lives as long as the process.
struct LoadedLibrary {
  void* handle = nullptr;     // null: why_not says why
  std::string file, why_not;  // where it was found
};
// What the variable names and nothing else; if it names nothing: the file as the system finds it
// (its own, or one that the process has loaded), in the roots, in the folders, and in the wheels of
// $VIRTUAL_ENV and $CONDA_PREFIX. One that is there and cannot be loaded is told with the loader's
// words.
LoadedLibrary load_library(const LibrarySearch& search, const LibraryLoader& loader);

// Fills a table of functions in; the first one that is not there is `missing`.
class LibraryFunctions {
 public:
  LibraryFunctions(const LoadedLibrary& from, const LibraryLoader& loader)
      : from_(from), loader_(loader) {}
  template <class F>
  bool take(F& function, const char* name) {
    function = reinterpret_cast<F>(loader_.symbol(from_.handle, name));
    if (!function && !missing) missing = name;
    return function != nullptr;
  }
  const char* missing = nullptr;

 private:
  const LoadedLibrary& from_;
  const LibraryLoader& loader_;
};

}  // namespace wt
