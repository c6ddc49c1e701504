#include "warptape/core/nvtx.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>

#include "warptape/core/profiler.h"
#include "warptape/core/warning.h"

namespace wt::nvtx {
namespace {

// A category and a colour for each profiler::Kind: those of the timeline page in light.
struct Look {
  const char* category;
  u32 argb;
};
constexpr Look kLooks[] = {{"operator", 0xFF1F6FEB},
                           {"backward", 0xFF0E7490},
                           {"kernel", 0xFFB45309},
                           {"range", 0xFF7C3AED}};
constexpr u32 kUser = u32(profiler::Kind::user);

std::mutex& looking() {
  static std::mutex m;
  return m;
}
std::atomic<const detail::Api*> tests_api{nullptr};

// The domain is made once: after that a tool neither comes nor goes.
struct Domain {
  const detail::Api* api = nullptr;
  void* handle = nullptr;
  bool looked = false;
};
Domain& made_domain() {
  static Domain d;
  return d;
}

// Null: nobody listens.
const Domain* domain() {
  const std::lock_guard lock(looking());
  Domain& d = made_domain();
  if (!d.looked) {
    d.looked = true;
    d.api = tests_api.load(std::memory_order_relaxed);
    if (!d.api) d.api = detail::header_api();
    d.handle = d.api ? d.api->domain("warptape") : nullptr;
    if (d.handle)
      for (u32 i = 0; i < std::size(kLooks); ++i)
        d.api->name_category(d.handle, i + 1, kLooks[i].category);
  }
  return d.handle ? &d : nullptr;
}

void push(const Domain& d, const char* text, u32 kind) {
  d.api->push(d.handle, text, kind + 1, kLooks[kind].argb);
}

// Of this thread: what the scope's observer has pushed, and what was pushed by hand.
thread_local int pushed_by_scope = 0, pushed_by_hand = 0;

class Watch : public profiler::Observer {
 public:
  explicit Watch(const Domain& d) : domain_(d), scope_(*this) {}
  // What is open on this thread is told to nobody any more.
  ~Watch() override {
    for (; pushed_by_scope > 0; --pushed_by_scope) domain_.api->pop(domain_.handle);
  }
  void begin(const profiler::Range& r) noexcept override {
    ++pushed_by_scope;
    push(domain_, r.title().c_str(), u32(r.kind));
  }
  void end(const profiler::Range&) noexcept override {
    if (pushed_by_scope == 0) return;
    --pushed_by_scope;
    domain_.api->pop(domain_.handle);
  }

 private:
  const Domain& domain_;
  profiler::ObserverScope scope_;
};

struct Watching {
  std::mutex mutex;
  int scopes = 0;
  std::optional<Watch> watch;
};
Watching& watching() {
  static auto* w = new Watching;  // a scope may live as long as the program
  return *w;
}

}  // namespace

bool listening() { return domain() != nullptr; }

std::string why_not() {
  if (detail::header_api()) return "";
  return "this build has no NVTX: it comes with a CUDA toolkit (-DWARPTAPE_WITH_CUDA=ON)";
}

void range_push(std::string_view name) {
  const Domain* d = domain();
  if (!d) return;
  ++pushed_by_hand;
  push(*d, std::string(name).c_str(), kUser);
}

void range_pop() {
  const Domain* d = domain();
  if (!d || pushed_by_hand == 0) return;
  --pushed_by_hand;
  d->api->pop(d->handle);
}

Scope::Scope() {
  Watching& w = watching();
  const std::lock_guard lock(w.mutex);
  if (w.scopes == 0)
    if (const Domain* d = domain()) w.watch.emplace(*d);
  ++w.scopes;
}

Scope::~Scope() {
  Watching& w = watching();
  const std::lock_guard lock(w.mutex);
  if (--w.scopes == 0) w.watch.reset();
}

void follow_environment() {
  const char* text = std::getenv("WT_NVTX");
  if (!text || !*text || std::strcmp(text, "0") == 0) return;
  if (const std::string why = why_not(); !why.empty())
    return warn_once("WT_NVTX", "WT_NVTX: " + why);
  static const auto* const scope = new Scope;
  (void)scope;
}

namespace detail {
void use_api(const Api* api) {
  const std::lock_guard lock(looking());
  tests_api.store(api, std::memory_order_relaxed);
  made_domain() = {};
}
}  // namespace detail

}  // namespace wt::nvtx
