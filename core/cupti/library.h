// CUPTI, found when the program runs. Internal.
#pragma once
#include <memory>
#include <string>

#include "warptape/core/cupti/layout.h"
#include "warptape/core/machine/load_library.h"

namespace wt::profiler::cupti {

struct Api {
  int (*subscribe)(void** subscriber, Callback, void* data) = nullptr;
  int (*unsubscribe)(void* subscriber) = nullptr;
  int (*register_callbacks)(BufferRequested, BufferCompleted) = nullptr;
  int (*enable)(u32 activity) = nullptr;
  int (*disable)(u32 activity) = nullptr;
  int (*flush)(u32 flags) = nullptr;
  int (*next_record)(u8* buffer, size_t valid, void** record) = nullptr;
  int (*dropped)(void* context, u32 stream, size_t* count) = nullptr;
  int (*timestamp)(u64* ns) = nullptr;
  int (*push)(u32 external_kind, u64 id) = nullptr;
  int (*pop)(u32 external_kind, u64* last) = nullptr;
  int (*result_text)(int code, const char** text) = nullptr;  // may be null

  std::string file;  // where it was found
  std::string words(const char* call, int code) const;
};

// What WT_CUPTI names ("off": none); else libcupti.so.13, .12 or .so as the system finds it, in
// $CUDA_HOME and $CUDA_PATH, /usr/local/cuda, and in wheels. Null: why_not says why. Lives as long
// as the process.
struct Loaded {
  const Api* api = nullptr;
  std::string why_not;
  bool broken = false;  // it is there, and cannot be used
};
Loaded load(const LibraryLoader& loader);

}  // namespace wt::profiler::cupti
