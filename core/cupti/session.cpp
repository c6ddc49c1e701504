#include "warptape/core/cupti/session.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include "warptape/core/cupti/function_name.h"
#include "warptape/core/cupti/library.h"
#include "warptape/core/machine/steady_ns.h"

namespace wt::profiler::cupti {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr int kMostBuffers = 64;  // that CUPTI holds; what there is no room for is dropped
constexpr size_t kMostIdle = 8;
constexpr size_t kAlignment = 8;  // ACTIVITY_RECORD_ALIGNMENT
// Kinds of API calls, because external ids come with their records alone.
constexpr Activity kActivities[] = {kExternalCorrelation, kRuntime, kDriver, kMemcpy,
                                    kMemcpyPeer,          kMemset,  kKernel};
constexpr size_t kMostSinks = std::size(kExternalKinds);

// Never deleted: threads of CUPTI's may call while static objects end.
struct Session {
  std::mutex turning{};                       // on and off; held through calls of CUPTI
  std::map<std::string, Loaded> libraries{};  // by WT_CUPTI: looked for once
  std::atomic<const Api*> api{nullptr};       // while it is on
  void* subscriber = nullptr;
  long process = 0;

  std::mutex hearing{};       // all below; held by CUPTI's callbacks
  const Api* last = nullptr;  // that was on
  std::array<Sink*, kMostSinks> sinks{};
  std::vector<u8*> idle{};
  int out = 0;  // buffers that CUPTI holds
};
Session& session() {
  static Session* const s = new Session;
  return *s;
}

// --- buffers, on threads of CUPTI's ---
void requested(u8** buffer, size_t* size, size_t* most_records) {
  Session& s = session();
  *buffer = nullptr, *size = 0, *most_records = 0;
  const std::lock_guard lock(s.hearing);
  if (s.out >= kMostBuffers) return;
  if (!s.idle.empty()) {
    *buffer = s.idle.back();
    s.idle.pop_back();
  } else {
    *buffer = static_cast<u8*>(std::aligned_alloc(kAlignment, kBufferBytes));
  }
  if (!*buffer) return;
  *size = kBufferBytes;
  ++s.out;
}

template <class F>
void tell(Session& s, const F& f) {
  for (Sink* sink : s.sinks)
    if (sink) f(*sink);
}

template <class From>
Record record_of(Record::What what, const From& from) {
  Record r;
  r.what = what;
  r.device = from.device, r.context = from.context, r.stream = from.stream;
  r.correlation = from.correlation;
  r.begin = from.start, r.end = from.end;
  return r;
}

void read_record(Session& s, const void* record) {
  Record r;
  switch (*static_cast<const u32*>(record)) {
    case kKernel: {
      const auto& k = *static_cast<const KernelRecord*>(record);
      r = record_of(Record::What::kernel, k);
      r.name = interned_function(k.name);
      break;
    }
    case kMemcpy: {
      const auto& c = *static_cast<const MemcpyRecord*>(record);
      r = record_of(Record::What::copy, c);
      r.copy_kind = c.copy_kind, r.bytes = i64(c.bytes);
      break;
    }
    case kMemcpyPeer: {
      const auto& c = *static_cast<const MemcpyPeerRecord*>(record);
      r = record_of(Record::What::copy, c);
      r.copy_kind = c.copy_kind, r.bytes = i64(c.bytes);
      break;
    }
    case kMemset: {
      const auto& f = *static_cast<const MemsetRecord*>(record);
      r = record_of(Record::What::fill, f);
      r.bytes = i64(f.bytes);
      break;
    }
    case kExternalCorrelation: {
      const auto& e = *static_cast<const ExternalRecord*>(record);
      return tell(s, [&](Sink& sink) { sink.called(e.external_kind, e.id, e.correlation); });
    }
    default:
      return;  // of a call
  }
  tell(s, [&](Sink& sink) { sink.did(r); });
}

void completed(void* context, u32 stream, u8* buffer, size_t, size_t valid) {
  Session& s = session();
  const std::lock_guard lock(s.hearing);
  void* record = nullptr;
  while (valid > 0 && s.last->next_record(buffer, valid, &record) == kSuccess)
    read_record(s, record);
  size_t dropped = 0;
  if (s.last->dropped(context, stream, &dropped) == kSuccess && dropped > 0)
    tell(s, [&](Sink& sink) { sink.lost(i64(dropped)); });
  --s.out;
  if (s.idle.size() < kMostIdle)
    s.idle.push_back(buffer);
  else
    std::free(buffer);
}

// --- on and off ---
const Loaded& library(Session& s) {
  const char* text = std::getenv("WT_CUPTI");
  const auto [at, fresh] = s.libraries.try_emplace(text ? text : "");
  if (fresh) at->second = load(system_loader);
  return at->second;
}

// What there is still comes before the last one is gone, or the next profile would hear of it.
void turn_off(Session& s, const Api& api, size_t enabled) {
  const bool was_on = enabled == std::size(kActivities);
  while (enabled-- > 0) api.disable(kActivities[enabled]);
  if (was_on) api.flush(kFlushForced);
  api.unsubscribe(s.subscriber);
  s.subscriber = nullptr;
}

// Empty: it is on. CUPTI has one subscriber, so that another tool's shows before anything is lost.
std::string turn_on(Session& s, const Api& api) {
  {
    const std::lock_guard lock(s.hearing);
    s.last = &api;
  }
  const auto nothing = [](void*, int, u32, const void*) {};
  if (const int code = api.subscribe(&s.subscriber, nothing, nullptr))
    return api.words("cuptiSubscribe", code);
  const auto failed = [&](const char* call, int code, size_t enabled) {
    turn_off(s, api, enabled);
    return api.words(call, code);
  };
  if (const int code = api.register_callbacks(requested, completed))
    return failed("cuptiActivityRegisterCallbacks", code, 0);
  for (size_t i = 0; i < std::size(kActivities); ++i)
    if (const int code = api.enable(kActivities[i])) return failed("cuptiActivityEnable", code, i);
  u64 now = 0;
  if (const int code = api.timestamp(&now))
    return failed("cuptiGetTimestamp", code, std::size(kActivities));
  return "";
}

}  // namespace

Started start(Sink& sink) {
  Session& s = session();
  Started result;
  // A lock that another thread held at a fork is never given back, and CUDA does not survive one.
  if (s.process && s.process != getpid()) {
    result.why_not = "this process was forked";
    return result;
  }
  const std::lock_guard turning(s.turning);
  s.process = getpid();
  const bool first = !s.api.load(std::memory_order_relaxed);
  if (first) {
    const Loaded& found = library(s);
    result.why_not = found.why_not;
    result.broken = found.broken;
    if (!found.api) return result;
    result.why_not = turn_on(s, *found.api);
    result.broken = !result.why_not.empty();
    if (result.broken) return result;
    s.api.store(found.api, std::memory_order_release);
  }
  const std::lock_guard hearing(s.hearing);
  const auto place = std::find(s.sinks.begin(), s.sinks.end(), nullptr);
  if (place == s.sinks.end()) {
    result.why_not = str("CUPTI has ", kMostSinks, " profiles at a time");
    return result;
  }
  *place = &sink;
  result.external_kind = kExternalKinds[place - s.sinks.begin()];
  result.on = true;
  return result;
}

void stop(Sink& sink) noexcept {
  Session& s = session();
  if (s.process != getpid()) return;
  const std::lock_guard turning(s.turning);
  bool any = false;
  {
    const std::lock_guard hearing(s.hearing);
    for (Sink*& place : s.sinks) {
      if (place == &sink) place = nullptr;
      any |= place != nullptr;
    }
  }
  const Api* const api = s.api.load(std::memory_order_relaxed);
  if (any || !api) return;
  turn_off(s, *api, std::size(kActivities));
  s.api.store(nullptr, std::memory_order_release);
  const std::lock_guard hearing(s.hearing);
  for (u8* buffer : s.idle) std::free(buffer);
  s.idle.clear();
}

void flush() noexcept {
  if (const Api* const api = session().api.load(std::memory_order_acquire))
    api->flush(kFlushForced);
}

void push(u32 external_kind, u64 id) noexcept {
  if (const Api* const api = session().api.load(std::memory_order_acquire))
    api->push(external_kind, id);
}
void pop(u32 external_kind) noexcept {
  u64 last = 0;
  if (const Api* const api = session().api.load(std::memory_order_acquire))
    api->pop(external_kind, &last);
}

// Of some tries the one that took least.
Moment moment() noexcept {
  Moment best;
  const Api* const api = session().api.load(std::memory_order_acquire);
  i64 least = std::numeric_limits<i64>::max();
  for (int i = 0; api && i < 5; ++i) {
    u64 ns = 0;
    const i64 before = wt::detail::steady_ns();
    if (api->timestamp(&ns) != kSuccess) continue;
    const i64 after = wt::detail::steady_ns();
    if (after - before >= least) continue;
    least = after - before;
    best = {i64(ns), before + least / 2, least - least / 2};
  }
  return best;
}

}  // namespace wt::profiler::cupti
