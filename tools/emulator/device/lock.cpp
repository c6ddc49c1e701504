#include "device/lock.h"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "report.h"

namespace emu {
namespace {

struct State {
  std::mutex mutex;
  std::condition_variable changed;
  struct Job {
    std::function<void()> work, after;
  };
  std::deque<Job> jobs;
  bool started = false;  // the thread of host functions
};
State& state() {
  static State* s = new State;
  return *s;
}
thread_local int depth = 0;
thread_local bool in_function = false;
bool forked = false;

[[noreturn]] void host_thread() {
  in_function = true;
  for (;;) {
    State::Job job;
    {
      const Locked lock;
      while (state().jobs.empty()) wait_for_change();
      job = std::move(state().jobs.front());
      state().jobs.pop_front();
    }
    job.work();
    const Locked lock;
    job.after();
    tell_change();
  }
}

}  // namespace

Locked::Locked() {
  if (depth++ == 0) state().mutex.lock();
}
Locked::~Locked() {
  if (--depth == 0) state().mutex.unlock();
}

bool in_host_function() { return in_function; }

void run_on_host_thread(std::function<void()> work, std::function<void()> after) {
  State& s = state();
  s.jobs.push_back({std::move(work), std::move(after)});
  if (!s.started) {
    s.started = true;
    std::thread(host_thread).detach();
  }
  tell_change();
}

void wait_for_change() {
  std::unique_lock lock(state().mutex, std::adopt_lock);
  state().changed.wait(lock);
  lock.release();
}
void wait_for_change(int milliseconds) {
  std::unique_lock lock(state().mutex, std::adopt_lock);
  state().changed.wait_for(lock, std::chrono::milliseconds(milliseconds));
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
