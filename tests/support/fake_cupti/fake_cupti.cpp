// A CUPTI without a GPU: a library that WT_CUPTI names. FAKE_CUPTI says what it pretends, words
// apart by spaces: "taken" (another tool has it), "denied" (profiling is for administrators), "old"
// (it knows no kernel records), "fast" (its clock runs at twice the speed), "late" (each reading of
// the clock takes longer than the one before). Records are what the test asks for through
// fake_cupti_call().
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "warptape/core/cupti/layout.h"
#include "warptape/tests/support/fake_cupti/fake_cupti.h"

using namespace wt;
using namespace wt::profiler::cupti;

namespace {

constexpr size_t kKernelBytes = 216;  // a record of CUDA 13, of which we read the front
constexpr u64 kClock = 1'700'000'000'000'000'000;

struct Buffer {
  u8* data;
  size_t size, used = 0;
};
std::mutex mutex;
int subscribers = 0, buffers_held = 0, most_held = 0;
std::set<u32> enabled;
BufferRequested requested = nullptr;
BufferCompleted completed = nullptr;
std::deque<Buffer> buffers;
size_t dropped = 0;
u32 correlations = 0;
u64 node_ns = 0;
thread_local std::map<u32, std::vector<u64>> stacks;

bool pretends(const char* word) {
  const char* const text = std::getenv("FAKE_CUPTI");
  return text && std::strstr(text, word);
}

u64 now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  const u64 ns = u64(t.tv_sec) * 1'000'000'000 + u64(t.tv_nsec);
  return kClock + (pretends("fast") ? 2 * ns : ns);
}

size_t bytes_of(u32 kind) {
  switch (kind) {
    case kKernel:
      return kKernelBytes;
    case kMemcpy:
      return 96;
    case kMemset:
      return 88;
    default:
      return 48;  // of calls and of external ids
  }
}

template <class R>
void put(const R& record) {
  if (!enabled.count(record.kind)) return;
  const size_t bytes = bytes_of(record.kind);
  if (buffers.empty() || buffers.back().used + bytes > buffers.back().size) {
    Buffer b{};
    size_t most = 0;
    requested(&b.data, &b.size, &most);
    if (!b.data) {
      ++dropped;
      return;
    }
    buffers.push_back(b);
    most_held = ++buffers_held > most_held ? buffers_held : most_held;
  }
  Buffer& b = buffers.back();
  std::memset(b.data + b.used, 0xAB, bytes);  // what is behind the front is nobody's
  std::memcpy(b.data + b.used, &record, sizeof record);
  b.used += bytes;
}

struct CallRecord {
  u32 kind, id;
};

void put_node(const FakeNode& node, u32 stream, u32 correlation) {
  const u64 begin = node_ns, end = node_ns += u64(node.ns);
  if (node.copy_kind > 0) {
    MemcpyRecord c{};
    c.kind = kMemcpy;
    c.copy_kind = u8(node.copy_kind), c.bytes = u64(node.bytes);
    c.start = begin, c.end = end, c.context = 1, c.stream = stream, c.correlation = correlation;
    return put(c);
  }
  if (!node.function) {
    MemsetRecord f{};
    f.kind = kMemset, f.bytes = u64(node.bytes);
    f.start = begin, f.end = end, f.context = 1, f.stream = stream, f.correlation = correlation;
    return put(f);
  }
  KernelRecord k{};
  k.kind = kKernel;
  k.start = begin, k.end = end, k.context = 1, k.stream = stream, k.correlation = correlation;
  k.name = node.function;
  put(k);
}

}  // namespace

extern "C" {

void fake_cupti_call(const FakeNode* nodes, int count, unsigned stream) {
  const std::lock_guard lock(mutex);
  const u32 correlation = ++correlations;
  for (const auto& [kind, ids] : stacks)
    if (!ids.empty() && (enabled.count(kRuntime) || enabled.count(kDriver)))
      put(ExternalRecord{kExternalCorrelation, kind, ids.back(), correlation, 0});
  put(CallRecord{kRuntime, 211});
  node_ns = node_ns > now() ? node_ns : now();
  for (int i = 0; i < count; ++i) put_node(nodes[i], stream, correlation);
}

long long fake_cupti_count(const char* what) {
  const std::lock_guard lock(mutex);
  if (!std::strcmp(what, "subscribers")) return subscribers;
  if (!std::strcmp(what, "enabled")) return (long long)enabled.size();
  if (!std::strcmp(what, "buffers")) return buffers_held;
  if (!std::strcmp(what, "most buffers")) return most_held;
  if (!std::strcmp(what, "calls")) return correlations;
  if (!std::strcmp(what, "ids")) {
    size_t open = 0;
    for (const auto& [kind, ids] : stacks) open += ids.size();
    return (long long)open;
  }
  return -1;
}

int cuptiSubscribe(void** subscriber, Callback, void*) {
  const std::lock_guard lock(mutex);
  if (subscribers || pretends("taken")) return 39;
  *subscriber = &subscribers;
  ++subscribers;
  node_ns = 0;
  return kSuccess;
}
int cuptiUnsubscribe(void* subscriber) {
  const std::lock_guard lock(mutex);
  if (subscriber != &subscribers || subscribers == 0) return 1;
  --subscribers;
  return kSuccess;
}
int cuptiActivityRegisterCallbacks(BufferRequested r, BufferCompleted c) {
  requested = r, completed = c;
  return kSuccess;
}
int cuptiActivityEnable(u32 kind) {
  const std::lock_guard lock(mutex);
  if (kind == kKernel && pretends("denied")) return 35;
  if (kind == kKernel && pretends("old")) return 21;
  enabled.insert(kind);
  return kSuccess;
}
int cuptiActivityDisable(u32 kind) {
  const std::lock_guard lock(mutex);
  enabled.erase(kind);
  return kSuccess;
}
int cuptiActivityFlushAll(u32) {
  std::deque<Buffer> all;
  {
    const std::lock_guard lock(mutex);
    all.swap(buffers);
    buffers_held -= int(all.size());
  }
  for (const Buffer& b : all) completed(nullptr, 0, b.data, b.size, b.used);
  return kSuccess;
}
int cuptiActivityGetNextRecord(u8* buffer, size_t valid, void** record) {
  // From the beginning where the last one is of another buffer.
  u8* next = static_cast<u8*>(*record);
  next = next >= buffer && next < buffer + valid
             ? next + bytes_of(*reinterpret_cast<const u32*>(next))
             : buffer;
  if (next >= buffer + valid) return kNoMoreRecords;
  *record = next;
  return kSuccess;
}
int cuptiActivityGetNumDroppedRecords(void*, u32, size_t* count) {
  const std::lock_guard lock(mutex);
  *count = dropped;
  dropped = 0;
  return kSuccess;
}
int cuptiGetTimestamp(u64* ns) {
  static u64 readings = 0;
  *ns = now();
  if (pretends("late"))
    for (const u64 until = *ns + 20'000 * ++readings; now() < until;) {}
  return kSuccess;
}
int cuptiActivityPushExternalCorrelationId(u32 kind, u64 id) {
  stacks[kind].push_back(id);
  return kSuccess;
}
int cuptiActivityPopExternalCorrelationId(u32 kind, u64* last) {
  std::vector<u64>& ids = stacks[kind];
  if (ids.empty()) return 18;
  if (last) *last = ids.back();
  ids.pop_back();
  return kSuccess;
}
int cuptiGetResultString(int code, const char** text) {
  *text = code == 39   ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
          : code == 35 ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
          : code == 21 ? "CUPTI_ERROR_INVALID_KIND"
                       : "CUPTI_ERROR_UNKNOWN";
  return kSuccess;
}

}  // extern "C"
