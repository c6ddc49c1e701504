#include "warptape/core/profile.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "warptape/core/error.h"
#include "warptape/core/profile/data.h"
#include "warptape/core/profile/recorder.h"
#include "warptape/core/thread_object.h"

namespace wt::profiler {
namespace {

// Names of users' ranges outlive the profiles and traces that have them.
const char* interned(std::string_view name) {
  static std::mutex* const mutex = new std::mutex;
  static std::set<std::string, std::less<>>* const names = new std::set<std::string, std::less<>>;
  const std::lock_guard lock(*mutex);
  auto at = names->find(name);
  if (at == names->end()) at = names->emplace(name).first;
  return at->c_str();
}

// How many profiles this line has made.
i64 count_profile(Frame at) {
  static std::mutex* const mutex = new std::mutex;
  static std::map<FrameId, i64>* const counts = new std::map<FrameId, i64>;
  const std::lock_guard lock(*mutex);
  return at ? (*counts)[intern_frame(at)]++ : 0;
}

// What this thread's range_push() has begun, whether anybody watched or not.
struct Pushed {
  std::vector<u64> numbers{};
};
std::vector<u64>& pushed() { return thread_object<Pushed>().numbers; }

bool anybody_watches() { return process_slow.load(std::memory_order_relaxed) & kSlowObserved; }

}  // namespace

Profile::Profile() : data_(std::make_shared<const Data>()) {}
Profile::Profile(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
const std::vector<Event>& Profile::events() const { return data_->events; }
const std::vector<std::string>& Profile::shapes() const { return data_->shapes; }
const std::vector<std::string>& Profile::threads() const { return data_->threads; }
const std::vector<Transfer>& Profile::transfers() const { return data_->transfers; }
const std::vector<Accesses>& Profile::accesses() const { return data_->accesses; }
double Profile::seconds() const { return double(data_->length_ns) * 1e-9; }
i64 Profile::begin_ns() const { return data_->begin_ns; }
i64 Profile::steps() const { return data_->steps; }
i64 Profile::dropped() const { return data_->dropped + data_->lost_records; }
std::string Profile::device_times_from() const {
  for (const Event& e : data_->events)
    if (e.device_ns() > 0) return data_->times_from;
  return "";
}
const ProfileOptions& Profile::options() const { return data_->options; }
const std::vector<std::string>& Profile::notes() const { return data_->notes; }

const Event* Profile::forward_of(const Event& e) const {
  const std::vector<Event>& all = data_->events;
  const auto at = std::lower_bound(all.begin(), all.end(), e.id,
                                   [](const Event& a, u32 id) { return a.id < id; });
  if (at == all.end() || at->id != e.id) return nullptr;
  const u32 forward = data_->forwards[size_t(at - all.begin())];
  return forward == Data::kNone ? nullptr : &all[forward];
}

// --- Scope ---
struct Scope::Recording {
  Recorder* recorder;
  i64 earlier;  // profiles of the same line
  Frame at;
};

Scope::Scope(ProfileOptions o, Frame at) {
  Recorder& r = Recorder::take(o);
  recording_ = std::make_unique<Recording>(Recording{&r, 0, at});
  try {
    watch_ = std::make_unique<ObserverScope>(r);
  } catch (...) {
    r.drop();
    throw;
  }
  recording_->earlier = count_profile(at);
}

Scope::~Scope() {
  if (!recording_) return;
  watch_.reset();
  recording_->recorder->drop();
}

static void check_running(bool running, const char* what) {
  if (!running)
    throw UsageError(str("[profiler::Scope] ", what, " after stop(): the profile has ended"));
}

void Scope::step() {
  check_running(recording_ != nullptr, "step()");
  recording_->recorder->step();
}

Profile Scope::stop() {
  check_running(recording_ != nullptr, "stop()");
  auto data = std::make_shared<Profile::Data>(recording_->recorder->finish(watch_));
  const std::unique_ptr<Recording> ended = std::move(recording_);
  advise(*data, ended->earlier, ended->at);
  const std::exception_ptr failed = data->failed;
  Profile p(std::move(data));
  if (!failed) return p;
  if (p.options().on_throw) p.options().on_throw(p);
  std::rethrow_exception(failed);
}

Profile profile(const std::function<void()>& f, ProfileOptions o, Frame at) {
  Scope scope(std::move(o), at);
  try {
    f();
  } catch (...) {
    scope.leave();
    throw;
  }
  return scope.stop();
}

void Scope::leave() noexcept {
  const std::function<void(const Profile&)> on_throw = recording_->recorder->options().on_throw;
  if (!on_throw) return;
  try {
    on_throw(stop());
  } catch (...) {  // what the program has thrown goes on, and nothing else
  }
}

// --- Schedule ---
ScheduleRun::ScheduleRun(const Schedule& s) : schedule_(s) {
  if (s.wait < 0 || s.warmup < 0 || s.active < 1 || s.repeat < 0)
    throw UsageError(str("[profiler::Schedule] wait ", s.wait, ", warmup ", s.warmup, ", active ",
                         s.active, ", repeat ", s.repeat,
                         ": active is at least 1, the others at least 0"));
  enter();
}
ScheduleRun::~ScheduleRun() = default;

bool ScheduleRun::active() const { return scope_ && at_step_ >= schedule_.wait + schedule_.warmup; }

// The step at_step_ of a cycle begins.
void ScheduleRun::enter() {
  const bool over = schedule_.repeat > 0 && cycles >= schedule_.repeat;
  if (over || at_step_ < schedule_.wait) return;
  const i64 first_kept = schedule_.wait + schedule_.warmup;
  if (at_step_ == first_kept) scope_.reset();  // the warm-up's
  if (!scope_)
    // Schedules that leave no step out are counted, as one line's.
    scope_ = std::make_unique<Scope>(schedule_.options, first_kept ? Frame{} : Frame::here());
  else if (at_step_ > first_kept)
    scope_->step();
}

void ScheduleRun::end_cycle(Scope& scope) {
  ++cycles;
  const Profile p = scope.stop();
  if (schedule_.done) schedule_.done(p);
}

void ScheduleRun::step() {
  if (schedule_.repeat > 0 && cycles >= schedule_.repeat) return;
  if (++at_step_ == schedule_.wait + schedule_.warmup + schedule_.active) {
    const std::unique_ptr<Scope> scope = std::move(scope_);
    at_step_ = 0;
    try {
      if (scope) end_cycle(*scope);  // none: it could not begin
    } catch (...) {
      enter();
      throw;
    }
  }
  enter();
}

// --- users' ranges ---
UserRange::UserRange(std::string_view name, Frame at)
    : number_(anybody_watches() ? begin_user(interned(name), intern_frame(at)) : 0) {}

void range_push(std::string_view name, Frame at) {
  pushed().push_back(anybody_watches() ? begin_user(interned(name), intern_frame(at)) : 0);
}

void range_pop(Frame at) {
  if (pushed().empty())
    throw UsageError(
        str("[profiler] range_pop() without a range_push() on this thread\n  at ", describe(at)));
  end_user(pushed().back());
  pushed().pop_back();
}

}  // namespace wt::profiler
