#include "warptape/tests/support/fake_cuda.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "warptape/core/error.h"

namespace wt_test {

using namespace wt;

namespace {
FakeCuda* current = nullptr;  // one at a time
thread_local int own_device = 0, last_cuda_error = 0;
}  // namespace

// The table's functions. Each counts itself and fails if told to.
struct FakeCalls {
  static FakeCuda& f() { return *current; }
#define WT_FAKE_ENTER(name)                                     \
  const std::lock_guard<std::recursive_mutex> lock(f().mutex_); \
  if (const int code = f().enter(#name)) return code

  static int driver_version(int* v) {
    WT_FAKE_ENTER(driver_version);
    *v = f().driver_version;
    return 0;
  }
  static int runtime_version(int* v) {
    WT_FAKE_ENTER(runtime_version);
    *v = f().runtime_version;
    return 0;
  }
  static int device_count(int* n) {
    WT_FAKE_ENTER(device_count);
    *n = f().devices_;
    return 0;
  }
  static int properties(cuda::Properties* p, int) {
    WT_FAKE_ENTER(properties);
    p->name = "Fake";
    p->multiprocessors = 4;
    p->major = f().major;
    p->minor = f().minor;
    p->shared_bytes = f().shared_bytes;
    p->memory_bytes = i64(f().limit_);
    return 0;
  }
  static int memory_info(size_t* free, size_t* total) {
    WT_FAKE_ENTER(memory_info);
    *total = f().limit_;
    *free = f().limit_ - f().device_bytes_;
    return 0;
  }
  static int set_device(int i) {
    WT_FAKE_ENTER(set_device);
    own_device = i;
    return 0;
  }
  static int current_device(int* i) {
    *i = own_device;
    return 0;
  }
  static int device_synchronize() {
    WT_FAKE_ENTER(device_synchronize);
    f().run_all();
    return 0;
  }
  static int take_memory(void** p, size_t bytes) {
    WT_FAKE_ENTER(take_memory);
    if (f().device_bytes_ + bytes > f().limit_) return kCudaOutOfMemory;
    char* data = static_cast<char*>(std::aligned_alloc(512, (bytes + 511) / 512 * 512));
    std::memset(data, 0xCD, bytes);
    f().device_memory_[data] = bytes;
    f().device_bytes_ += bytes;
    *p = data;
    return 0;
  }
  static int release(std::map<const char*, size_t>& memory, void* p, const char* what) {
    const auto it = memory.find(static_cast<char*>(p));
    if (it == memory.end()) {
      f().complain(str(what, " of memory that is not live"));
      return 1;
    }
    const char *begin = it->first, *end = begin + it->second;
    for (const auto& [stream, s] : f().streams_)
      for (const FakeCuda::Work& w : s.work)
        for (const void* used : {w.from, w.to})
          if (used >= begin && used < end) f().complain(str(what, " of memory in use"));
    std::memset(p, 0xDD, it->second);
    std::free(p);
    memory.erase(it);
    return 0;
  }
  static int free_memory(void* p) {
    WT_FAKE_ENTER(free_memory);
    const auto it = f().device_memory_.find(static_cast<char*>(p));
    if (it != f().device_memory_.end()) f().device_bytes_ -= it->second;
    return release(f().device_memory_, p, "cudaFree");
  }
  static int take_host(void** p, size_t bytes) {
    WT_FAKE_ENTER(take_host);
    char* data = static_cast<char*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
    f().host_memory_[data] = bytes;
    *p = data;
    return 0;
  }
  static int free_host(void* p) {
    WT_FAKE_ENTER(free_host);
    return release(f().host_memory_, p, "cudaFreeHost");
  }
  static int copy(void* to, const void* from, size_t bytes, CudaCopy kind, void* stream) {
    WT_FAKE_ENTER(copy);
    FakeCuda& fake = f();
    const auto run = [&fake, to, from, bytes, kind] {
      if (kind != CudaCopy::to_device) fake.check_range(from, bytes, "copy from");
      if (kind != CudaCopy::to_host) fake.check_range(to, bytes, "copy to");
      std::memmove(to, from, bytes);
    };
    f().push(stream, {.run = run, .waits_for = nullptr, .from = from, .to = to, .bytes = bytes});
    return 0;
  }
  static int fill(void* to, int byte, size_t bytes, void* stream) {
    WT_FAKE_ENTER(fill);
    FakeCuda& fake = f();
    const auto run = [&fake, to, byte, bytes] {
      fake.check_range(to, bytes, "fill");
      std::memset(to, byte, bytes);
    };
    f().push(stream, {.run = run, .waits_for = nullptr, .to = to, .bytes = bytes});
    return 0;
  }
  static int make_stream(void** s) {
    WT_FAKE_ENTER(make_stream);
    *s = new char;
    f().made_streams_.insert(*s);
    f().name_of(*s);
    return 0;
  }
  static int free_stream(void*) { return 0; }
  static int query_stream(void* s) {
    WT_FAKE_ENTER(query_stream);
    if (f().works) f().run(s);
    return f().queued(s) ? int(kCudaNotReady) : 0;
  }
  // The host waits while other threads may give the device what it is stuck for.
  template <class Done>
  static int wait_until(const char* what, Done done) {
    for (int ms = 0; !done(); ++ms) {
      if (ms == 60000) {
        const std::lock_guard<std::recursive_mutex> lock(f().mutex_);
        f().complain(str(what, " for a minute"));
        return kCudaLaunchTimeout;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return 0;
  }
  static int wait_stream(void* s) {
    { WT_FAKE_ENTER(wait_stream); }
    return wait_until("a wait for a stream", [s] {
      const std::lock_guard<std::recursive_mutex> lock(f().mutex_);
      f().run(s);
      return f().queued(s) == 0;
    });
  }
  static int stream_after(void* s, void* e) {
    WT_FAKE_ENTER(stream_after);
    if (f().heard) f().heard(str(f().name_of(s), " after ", f().name_of(e)));
    const std::shared_ptr<FakeCuda::Mark> mark = f().events_.at(e)->mark;
    if (!mark) return 0;
    FakeCuda::Capture* c = mark->captured ? f().capture_of(mark->stream) : nullptr;
    if (mark->captured && !c) return f().spoil("a wait for an event of a capture that has ended");
    if (!mark->captured && f().capture_of(s)) return f().spoil("a wait for an event from outside");
    if (c && !c->holds(s)) c->joined[s] = true;
    if (c && c->joined.count(mark->stream)) c->joined[mark->stream] = true;
    f().push(s, {.run = [] {}, .waits_for = c ? nullptr : mark});
    return 0;
  }
  static int make_event(void** e, bool timing) {
    WT_FAKE_ENTER(make_event);
    auto made = std::make_unique<FakeCuda::FakeEvent>();
    made->timing = timing;
    *e = made.get();
    f().events_[*e] = std::move(made);
    return 0;
  }
  static int free_event(void* e) {
    WT_FAKE_ENTER(free_event);
    if (!f().events_.erase(e)) f().complain("cudaEventDestroy of an event that is not live");
    return 0;
  }
  static int record(void* e, void* s) {
    WT_FAKE_ENTER(record);
    if (f().heard) f().heard(str("record ", f().name_of(e), " ", f().name_of(s)));
    const auto it = f().events_.find(e);
    auto mark = std::make_shared<FakeCuda::Mark>(FakeCuda::Mark{f().queue_of(s)});
    mark->captured = f().capture_of(s) != nullptr;
    it->second->mark = mark;
    FakeCuda& fake = f();
    const auto run = [mark, e, &fake] {
      mark->passed = true;
      fake.clock_ms_ += 1.5;
      if (const auto at = fake.events_.find(e); at != fake.events_.end())
        at->second->ms = fake.clock_ms_;
    };
    f().push(s, {.run = run, .waits_for = nullptr});
    return 0;
  }
  static int query_event(void* e) {
    WT_FAKE_ENTER(query_event);
    const std::shared_ptr<FakeCuda::Mark> mark = f().events_.at(e)->mark;
    if (mark && mark->captured) return f().spoil("a question about an event of a capture");
    if (mark && !mark->passed && f().works) f().run(mark->stream);
    return mark && !mark->passed ? int(kCudaNotReady) : 0;
  }
  static int wait_event(void* e) {
    std::shared_ptr<FakeCuda::Mark> mark;
    {
      WT_FAKE_ENTER(wait_event);
      mark = f().events_.at(e)->mark;
      if (!mark || mark->passed) return 0;
      ++f().calls_["waited"];
    }
    return wait_until("a wait for an event", [&] {
      const std::lock_guard<std::recursive_mutex> lock(f().mutex_);
      f().run(mark->stream);
      return mark->passed;
    });
  }
  static int elapsed(float* ms, void* from, void* to) {
    WT_FAKE_ENTER(elapsed);
    if (query_event(from) || query_event(to)) return kCudaNotReady;
    *ms = float(f().events_.at(to)->ms - f().events_.at(from)->ms);
    return 0;
  }
  static int begin_capture(void* s) {
    WT_FAKE_ENTER(begin_capture);
    if (!s) return f().spoil("a capture of the default stream");
    if (f().own_capture()) return f().spoil("a capture inside a capture");
    f().captures_[std::this_thread::get_id()] =
        std::make_unique<FakeCuda::Capture>(FakeCuda::Capture{s, {}});
    return 0;
  }
  static int end_capture(void* s, void** graph) {
    const std::lock_guard<std::recursive_mutex> lock(f().mutex_);
    const int code = f().enter("end_capture");
    *graph = nullptr;
    const auto it = f().captures_.find(std::this_thread::get_id());
    const auto c = it == f().captures_.end() ? nullptr : std::move(it->second);
    if (c) f().captures_.erase(it);
    if (code) return code;
    if (!c || c->stream != s) return last_cuda_error = 1;
    for (const auto& [joined, waited_for] : c->joined)
      if (!waited_for) {
        f().complain(str("a capture ends before it waited for ", f().name_of(joined)));
        return last_cuda_error = kCudaCaptureInvalidated;
      }
    if (c->spoiled) return last_cuda_error = kCudaCaptureInvalidated;
    return new_graph({std::move(c->work)}, graph);
  }
  static int new_graph(FakeCuda::FakeGraph g, void** handle) {
    auto made = std::make_unique<FakeCuda::FakeGraph>(std::move(g));
    *handle = made.get();
    f().graphs_[*handle] = std::move(made);
    return 0;
  }
  static int instantiate(void** exec, void* graph) {
    WT_FAKE_ENTER(instantiate);
    return new_graph(*f().graphs_.at(graph), exec);
  }
  static int graph_size(void* graph, size_t* nodes) {
    const std::lock_guard<std::recursive_mutex> lock(f().mutex_);
    *nodes = f().graphs_.at(graph)->work.size();
    return 0;
  }
  static int capture_size(void*, size_t* nodes) {
    const std::lock_guard<std::recursive_mutex> lock(f().mutex_);
    const FakeCuda::Capture* c = f().own_capture();
    *nodes = c ? c->work.size() : 0;
    return c ? 0 : int(kCudaCaptureInvalidated);
  }
  static int launch_graph(void* exec, void* s) {
    WT_FAKE_ENTER(launch_graph);
    if (f().launching) f().launching(f().graphs_.at(exec)->work.size());
    for (const FakeCuda::Work& w : f().graphs_.at(exec)->work) f().push(s, w);
    return 0;
  }
  static int free_graph(void* graph) {
    WT_FAKE_ENTER(free_graph);
    if (!f().graphs_.erase(graph)) f().complain("cudaGraphDestroy of a graph that is not live");
    return 0;
  }
  static int free_exec(void* exec) {
    WT_FAKE_ENTER(free_exec);
    if (!f().graphs_.erase(exec)) f().complain("cudaGraphExecDestroy of none that is live");
    return 0;
  }
  static int allow_shared(const void*, int bytes) {
    WT_FAKE_ENTER(allow_shared);
    return bytes > f().shared_bytes ? last_cuda_error = 1 : 0;
  }
  static int load_code(void** library, const void* code) {
    WT_FAKE_ENTER(load_code);
    const std::string text = static_cast<const char*>(code);
    if (!f().refuses.empty() && text.starts_with(f().refuses))
      return last_cuda_error = kCudaInvalidPtx;
    *library = &f();
    return 0;
  }
  static int find_kernel(void** kernel, void*, const char* name) {
    WT_FAKE_ENTER(find_kernel);
    const auto at = f().kernels.find(name);
    if (at == f().kernels.end()) return last_cuda_error = 500;
    *kernel = &*at;
    return 0;
  }
  using NamedCode = std::pair<const std::string, FakeCuda::Code>;
  static int parameter(const void* kernel, size_t i, size_t* bytes) {
    const auto& code = static_cast<const NamedCode*>(kernel)->second;
    if (i >= code.parameters.size()) return last_cuda_error = 1;
    *bytes = code.parameters[i];
    return 0;
  }
  static int launch_kernel(const void* kernel, const unsigned (&b)[3], const unsigned (&t)[3],
                           void** arguments, size_t shared, void* stream) {
    WT_FAKE_ENTER(launch_kernel);
    const auto& [name, code] = *static_cast<const NamedCode*>(kernel);
    f().launched.push_back(str(name, " (", b[0], ",", b[1], ",", b[2], ") (", t[0], ",", t[1], ",",
                               t[2], ") ", shared, " ", f().name_of(stream)));
    std::vector<std::string> values;
    for (size_t i = 0; i < code.parameters.size(); ++i)
      values.emplace_back(static_cast<const char*>(arguments[i]), code.parameters[i]);
    const auto run = [values, run = code.run] {
      std::vector<const void*> pointers;
      for (const std::string& v : values) pointers.push_back(v.data());
      if (run) run(pointers);
    };
    f().push(stream, {.run = run, .waits_for = nullptr});
    return 0;
  }
  static void* driver_function(const char*) { return f().driver_function; }
  static int last_error() { return std::exchange(last_cuda_error, 0); }
  static const char* error_text(int code) {
    return code == kCudaIllegalAddress ? "an illegal memory access was encountered" : "fake error";
  }
#undef WT_FAKE_ENTER
};

static constexpr CudaApi kFake = {
    .driver_version = FakeCalls::driver_version,
    .runtime_version = FakeCalls::runtime_version,
    .device_count = FakeCalls::device_count,
    .properties = FakeCalls::properties,
    .memory_info = FakeCalls::memory_info,
    .set_device = FakeCalls::set_device,
    .current_device = FakeCalls::current_device,
    .device_synchronize = FakeCalls::device_synchronize,
    .take_memory = FakeCalls::take_memory,
    .free_memory = FakeCalls::free_memory,
    .take_host = FakeCalls::take_host,
    .free_host = FakeCalls::free_host,
    .copy = FakeCalls::copy,
    .fill = FakeCalls::fill,
    .make_stream = FakeCalls::make_stream,
    .free_stream = FakeCalls::free_stream,
    .query_stream = FakeCalls::query_stream,
    .wait_stream = FakeCalls::wait_stream,
    .stream_after = FakeCalls::stream_after,
    .make_event = FakeCalls::make_event,
    .free_event = FakeCalls::free_event,
    .record = FakeCalls::record,
    .query_event = FakeCalls::query_event,
    .wait_event = FakeCalls::wait_event,
    .elapsed = FakeCalls::elapsed,
    .begin_capture = FakeCalls::begin_capture,
    .end_capture = FakeCalls::end_capture,
    .instantiate = FakeCalls::instantiate,
    .graph_size = FakeCalls::graph_size,
    .capture_size = FakeCalls::capture_size,
    .free_graph = FakeCalls::free_graph,
    .launch_graph = FakeCalls::launch_graph,
    .free_exec = FakeCalls::free_exec,
    .allow_shared = FakeCalls::allow_shared,
    .load_code = FakeCalls::load_code,
    .find_kernel = FakeCalls::find_kernel,
    .parameter = FakeCalls::parameter,
    .launch_kernel = FakeCalls::launch_kernel,
    .driver_function = FakeCalls::driver_function,
    .last_error = FakeCalls::last_error,
    .error_text = FakeCalls::error_text,
};

FakeCuda::FakeCuda(int devices, size_t memory)
    : devices_(devices), defaults_(size_t(devices) + 1), limit_(memory) {
  current = this;
  own_device = last_cuda_error = 0;
  before_ = wt::detail::replace_cuda_state(&kFake);
}

FakeCuda::~FakeCuda() {
  failing_.clear();
  run_all();
  wt::detail::restore_cuda_state(static_cast<wt::detail::CudaState*>(before_));
  for (const auto& [p, bytes] : device_memory_) std::free(const_cast<char*>(p));
  for (const auto& [p, bytes] : host_memory_) std::free(const_cast<char*>(p));
  for (void* s : made_streams_) delete static_cast<char*>(s);
  current = nullptr;
}

const CudaApi& FakeCuda::api() const { return kFake; }
FakeCuda& FakeCuda::in_use() { return *current; }
int FakeCuda::device() const { return own_device; }

int FakeCuda::enter(const char* call) {
  ++calls_[call];
  const auto it = failing_.find(call);
  const int code = it == failing_.end() ? 0 : it->second;
  if (code) last_cuda_error = code;  // as CUDA's, until somebody reads it
  if (code || !own_capture()) return code;
  // What a capture forbids to its thread, and work on the legacy stream beside it.
  static const std::set<std::string> kForbidden = {
      "device_synchronize", "take_memory", "free_memory", "take_host",  "free_host", "query_stream",
      "wait_stream",        "query_event", "wait_event",  "make_event", "elapsed",   "make_stream"};
  return kForbidden.count(call) ? spoil(call) : 0;
}
int FakeCuda::spoil(const char* call) {
  complain(str(call, " while a stream is captured"));
  if (Capture* c = own_capture()) c->spoiled = true;
  return last_cuda_error = kCudaCaptureUnsupported;
}
FakeCuda::Capture* FakeCuda::own_capture() {
  const auto it = captures_.find(std::this_thread::get_id());
  return it == captures_.end() ? nullptr : it->second.get();
}
FakeCuda::Capture* FakeCuda::capture_of(void* stream) {
  for (const auto& [thread, c] : captures_)
    if (c->holds(stream)) return c.get();
  return nullptr;
}
int FakeCuda::calls(const std::string& call) const {
  const auto it = calls_.find(call);
  return it == calls_.end() ? 0 : it->second;
}

}  // namespace wt_test
