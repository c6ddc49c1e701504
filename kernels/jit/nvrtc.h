// NVRTC, the compiler of CUDA C++ that is a library, found when the program runs: neither building
// nor running needs it. Internal.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/machine/load_library.h"
#include "warptape/core/types.h"

namespace wt::jit {

// nvrtcResult, as far as it is told apart.
enum NvrtcCode : int { kNvrtcSuccess = 0, kNvrtcInvalidOption = 5, kNvrtcCompilation = 6 };

struct Nvrtc {
  int (*version)(int* major, int* minor);
  int (*arch_count)(int* count);
  int (*archs)(int* list);  // 75, 80, ...: without letters
  int (*create)(void** program, const char* source, const char* name, int headers,
                const char* const* texts, const char* const* names);
  int (*destroy)(void** program);
  int (*compile)(void* program, int count, const char* const* options);
  int (*log_size)(void* program, size_t* bytes);
  int (*log)(void* program, char* text);
  int (*ptx_size)(void* program, size_t* bytes);
  int (*ptx)(void* program, char* text);
  int (*cubin_size)(void* program, size_t* bytes);
  int (*cubin)(void* program, char* code);
  int (*add_name)(void* program, const char* expression);
  int (*lowered_name)(void* program, const char* expression, const char** name);
  const char* (*error_text)(int code);

  std::string file;          // where it was found
  std::string version_text;  // "13.0"
  std::vector<int> targets;  // what it compiles for, ascending
};

// What WT_NVRTC names ("off": none); else libnvrtc.so.13 or .12 as the system finds it, in
// $CUDA_HOME and $CUDA_PATH, /usr/local/cuda, and in wheels. Null: why_not says why. Lives as long
// as the process.
struct NvrtcFound {
  const Nvrtc* api = nullptr;
  std::string why_not;
};
NvrtcFound find_nvrtc(const LibraryLoader& loader);

// The process's one, looked for at the first use.
const NvrtcFound& nvrtc();
// For tests: another answer; null: the process's again. The old one must outlive its readers.
void replace_nvrtc(const NvrtcFound* found);

}  // namespace wt::jit
