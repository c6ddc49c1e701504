#include "warptape/dist/nccl/nccl_watch.h"

#include <algorithm>

namespace wt::dist {
namespace {
constexpr std::chrono::milliseconds kLook{10};  // between two looks
}

NcclWatch::NcclWatch(NcclComm& comm, Communicator& control, std::shared_ptr<NcclFailure> failure)
    : comm_(comm), control_(control), failure_(std::move(failure)), thread_([this] { run(); }) {}

NcclWatch::~NcclWatch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void NcclWatch::add(NcclLaunched l) {
  const std::lock_guard lock(mutex_);
  launched_.push_back(std::move(l));
}

std::optional<NcclLaunched> NcclWatch::scan() {
  const std::lock_guard lock(mutex_);
  while (!launched_.empty()) {
    NcclLaunched& l = launched_.front();
    const auto now = std::chrono::steady_clock::now();
    if (!l.since) {
      const auto passed = [](const auto& e) { return e->done(); };
      if (!std::all_of(l.begins.begin(), l.begins.end(), passed)) return {};
      l.since = now;
    }
    if (!l.end->done()) {
      if (now - *l.since < l.deadline) return {};
      return l;
    }
    launched_.pop_front();
    changed_.notify_all();
  }
  return {};
}

bool NcclWatch::idle() {
  scan();  // one that is too late is told by the thread
  const std::lock_guard lock(mutex_);
  return launched_.empty();
}

bool NcclWatch::wait_idle(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [&] { return launched_.empty() || failure_->seen(); });
  return launched_.empty();
}

void NcclWatch::fail(const char* operation, const std::string& reason, FrameId where) {
  std::optional<PeerFailure> failure;
  try {
    check_control(control_);
  } catch (const PeerFailure& e) {  // it knows who
    failure = e;
  } catch (const std::exception&) {}
  if (!failure) {
    control_.abort(reason);
    failure = PeerFailure(str("[", operation, "] rank ", control_.rank(), ": ", reason,
                              where ? "\n  at " + describe_frame(where) : ""),
                          -1, "", -1, reason);
  }
  failure_->set(*failure);
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void NcclWatch::look() {
  check_control(control_);
  if (comm_.mutex().try_lock()) {  // else a call is under way, which looks itself
    const int result = comm_.async_error();
    const bool failed = result != kNcclSuccess && result != kNcclInProgress;
    const std::string text = failed ? comm_.describe("ncclCommGetAsyncError", result) : "";
    comm_.mutex().unlock();
    if (failed) return fail("nccl", text, 0);
  }
  const std::optional<NcclLaunched> late = scan();
  if (!late) return;
  const NcclCallNote& n = late->first;
  if (late->calls == 0)
    return fail("replay",
                str("a graph's replay has not finished within ", seconds_text(late->deadline),
                    ": another rank is late, hangs or replays something else"),
                n.frame);
  fail(to_string(n.kind),
       str("call ", n.number, ", ", to_string(n),
           late->calls > 1 ? str(" and ", late->calls - 1, " more of its group") : "",
           ", has not finished within ", seconds_text(late->deadline),
           ": another rank is late, hangs or called something else"),
       n.frame);
}

void NcclWatch::run() {
  bool aborted = false;
  for (;;) {
    if (!failure_->seen()) {
      try {
        look();
      } catch (const PeerFailure& e) {
        failure_->set(e);
      } catch (const std::exception& e) {  // the device
        fail("nccl", e.what(), 0);
      }
    }
    if (failure_->seen() && !aborted) {
      aborted = true;
      comm_.abort();
      const std::lock_guard lock(mutex_);
      changed_.notify_all();
    }
    std::unique_lock lock(mutex_);
    const auto woken = [&] { return stop_ || (failure_->seen() && !aborted); };
    if (aborted)
      changed_.wait(lock, woken);
    else
      changed_.wait_for(lock, kLook, woken);
    if (stop_ && (aborted || !failure_->seen())) return;
  }
}

}  // namespace wt::dist
