#include "warptape/core/memory/out_of_memory.h"

#include <algorithm>
#include <fstream>

#include "warptape/core/at_line.h"
#include "warptape/core/error.h"
#include "warptape/core/memory.h"
#include "warptape/core/memory_limit.h"
#include "warptape/core/storage.h"

namespace wt {

namespace {

thread_local memory::Failure newest_failure;

// A number of /proc/meminfo in bytes; `otherwise` where the system has none.
i64 meminfo(const char* name, i64 otherwise) {
  std::ifstream in("/proc/meminfo");
  for (std::string word; in >> word;) {
    i64 kib = 0;
    if (word == name && in >> kib) return kib * 1024;
  }
  return otherwise;
}

struct DeviceRoom {
  i64 total = 0, free = 0;  // bytes; total 0: unknown
};

// Of the machine, or of the card for all processes.
DeviceRoom room_of(Device d) {
  if (d.is_meta) return {};
  if (d.kind != DeviceKind::cuda) return {meminfo("MemTotal:", 0), meminfo("MemAvailable:", 0)};
  try {
    const cuda::Properties p = cuda::properties(d.index);
    return {p.memory_bytes, p.free_bytes};
  } catch (const Error&) {  // a driver that does not answer: the message is about memory
    return {};
  }
}

std::string by_category(const memory::Stats& s) {
  std::string text;
  for (int c = 0; c < kNumCategories; ++c)
    if (s.by_category[c])
      text += str(text.empty() ? " (" : ", ", category_name(Category(c)), " ",
                  memory::bytes_text(s.by_category[c]));
  return text.empty() ? text : text + ")";
}

// What is neither free nor ours: other processes, and the context of each.
std::string others_text(Device d, const DeviceRoom& there, i64 reserved) {
  const i64 others = there.total - there.free - reserved;
  if (d.kind != DeviceKind::cuda || others <= 0) return "";
  return str(" and ", memory::bytes_text(others), " are others' (processes, contexts, libraries)");
}

// The message is there without it too: no memory may be left for looking.
std::string kept_text(Device d, i64 held) noexcept {
  try {
    return detail::largest_kept(d, held);
  } catch (...) {
    return "";
  }
}

}  // namespace

i64 detail::available_memory() { return meminfo("MemAvailable:", kLargestBlock); }

void detail::out_of_memory(Device d, i64 bytes, const std::string& why, i64 room) {
  const memory::Stats s = memory::stats(d);
  const std::string module = module_path_of(mode.id);
  std::string text =
      str("[", module.empty() ? "" : module + ".", mode.op ? mode.op->name : "allocation",
          "] asked for ", memory::bytes_text(bytes), " on ", to_string(d), why,
          "\n  held: ", memory::bytes_text(s.live), by_category(s));
  if (room < 0) {
    const DeviceRoom there = room_of(d);
    room = std::min(there.free, bytes - 1);  // what failed is larger than any room that there is
    if (s.reserved > s.live)
      text += str("; kept in pools ", memory::bytes_text(s.reserved - s.live));
    if (there.total)
      text += str("\n  ", d.kind == DeviceKind::cuda ? "the device" : "the machine", " has ",
                  memory::bytes_text(there.total), ", of which ", memory::bytes_text(there.free),
                  " are free", others_text(d, there, s.reserved));
  }
  text += kept_text(d, s.live);
  newest_failure = {d, bytes, s.live, room};
  throw OutOfMemory(text + at_line() + "\n  Nothing was changed\n  Try a smaller batch");
}

memory::Failure memory::last_failure() { return newest_failure; }

std::string memory::bytes_text(i64 b) {
  if (b < 10 * 1024) return str(b, " bytes");
  if (b < (10 << 20)) return str(b / 1024, " KiB");
  if (b < (i64{10} << 30)) return str(b >> 20, " MiB");
  return b < i64{10} << 40 ? str(b >> 30, " GiB") : str(b >> 40, " TiB");
}

}  // namespace wt
