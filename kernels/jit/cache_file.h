// Compiled kernels in files, for the next process. A file is taken only for the very key that it
// was written for, which it holds, and only undamaged: anything else is compiled anew. Internal.
//
//   "wt-jit 1", u32 CRC-32C of all that follows, u32 0, u64 bytes of key, entry and code, and these
#pragma once
#include <optional>
#include <string>

#include "warptape/core/macros.h"
#include "warptape/kernels/jit/compile.h"

namespace wt::jit {

// What the code depends on: the source, the name, the options, what it is compiled for, NVRTC's
// version and how this library asks it.
std::string key_of(const KernelSource& source, const std::string& arch, const std::string& nvrtc);
// A source with #include "file", or with options that include one, depends on what no key holds.
bool can_be_kept(const KernelSource& source);

// $WT_KERNEL_CACHE, else kernels/ in the user's cache folder. Empty: nothing is kept
// (WT_KERNEL_CACHE=off, or there is no such folder).
std::string kernel_cache_folder();
std::string cache_path(const std::string& folder, const std::string& key);

// Throws DataError, with the byte, for a file that is none, is cut or damaged; nullopt where it is
// a sound one of another key, which happens where two keys have one hash.
WT_API std::optional<KernelCode> read_kernel_file(const std::string& path, const std::string& key);
// Makes the folder, for this user alone, and replaces what is there. Throws CheckpointError.
WT_API void write_kernel_file(const std::string& path, const std::string& key,
                              const KernelCode& code);

}  // namespace wt::jit
