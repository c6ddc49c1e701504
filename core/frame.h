// The user's source lines. Operators capture the caller's file and line through default arguments;
// nodes and tensors keep an interned 32-bit id.
#pragma once
#include <string>

#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt {

struct Frame {
  const char* file = nullptr;
  u32 line = 0;
  // As a default argument this is the line of the caller (works on g++, clang and nvcc hosts).
  static constexpr Frame here(const char* file = __builtin_FILE(), u32 line = __builtin_LINE()) {
    return {file, line};
  }
  explicit constexpr operator bool() const { return file != nullptr; }
};

// 0 stands for "unknown". The id is the same for equal (file, line) in all threads.
using FrameId = u32;
namespace detail {
struct FrameCacheLine {
  const char* file;
  u32 line;
  FrameId id;
};
inline constexpr u32 kFrameCache = 256;
extern constinit thread_local FrameCacheLine frame_cache[kFrameCache];
WT_HOT u32 frame_slot(Frame f) {
  const u64 hash = (reinterpret_cast<u64>(f.file) >> 4) ^ (f.line * 0x9E3779B1u >> 8);
  return u32(hash) % kFrameCache;
}
FrameId intern_frame_slow(Frame f);
}  // namespace detail

// About 2 ns when this thread has seen the line lately.
WT_HOT FrameId intern_frame(Frame f) {
  if (!f.file) return 0;
  const detail::FrameCacheLine& c = detail::frame_cache[detail::frame_slot(f)];
  if (c.file == f.file && c.line == f.line) [[likely]]
    return c.id;
  return detail::intern_frame_slow(f);
}
// Lock-free.
Frame frame_of(FrameId id);
// Whether it is a line outside the library's own folders.
bool is_users(Frame f);
// "net.cpp:57" (file name only), or "an unknown line".
std::string describe(Frame f);
std::string describe_frame(FrameId id);

}  // namespace wt
