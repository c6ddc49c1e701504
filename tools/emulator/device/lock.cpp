#include "device/lock.h"

#include <pthread.h>

#include <condition_variable>
#include <mutex>

#include "report.h"

namespace emu {
namespace {

struct State {
  std::mutex mutex;
  std::condition_variable changed;
};
State& state() {
  static State* s = new State;
  return *s;
}
thread_local int depth = 0;
thread_local bool in_function = false;
bool forked = false;

}  // namespace

Locked::Locked() {
  if (depth++ == 0) state().mutex.lock();
}
Locked::~Locked() {
  if (--depth == 0) state().mutex.unlock();
}

HostFunction::HostFunction() : depth_(depth) {
  depth = 0;
  in_function = true;
  state().mutex.unlock();
}
HostFunction::~HostFunction() {
  state().mutex.lock();
  in_function = false;
  depth = depth_;
}
bool in_host_function() { return in_function; }

void wait_for_change() {
  std::unique_lock lock(state().mutex, std::adopt_lock);
  state().changed.wait(lock);
  lock.release();
}
void tell_change() { state().changed.notify_all(); }

bool is_forked_child() { return forked; }
void watch_forks() {
  static const bool once = [] {
    pthread_atfork(nullptr, nullptr, [] {
      forked = true;
      forget_findings();
    });
    return true;
  }();
  (void)once;
}

}  // namespace emu
