// One lock around the runtime: calls of the program's threads take turns, and whoever waits for
// something runs it. Host functions of streams run on a thread of their own, as the driver's do.
#pragma once
#include <functional>

namespace emu {

class Locked {
 public:
  Locked();
  ~Locked();
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
};

// Waits until another thread has finished an operation, or until the time is over. The lock is free
// meanwhile.
void wait_for_change();
void wait_for_change(int milliseconds);
void tell_change();

// Runs `work` on the thread of host functions, outside the lock, and `after` under it. One at a
// time, in the order they came. No other thread would do: whatever it goes on to do may be what the
// function waits for.
void run_on_host_thread(std::function<void()> work, std::function<void()> after);
bool in_host_function();

// The parent of this process used the runtime: its state here is torn, every call fails.
bool is_forked_child();
void watch_forks();

}  // namespace emu
