// One lock around the runtime: calls of the program's threads take turns, and whoever waits for
// something runs it. Host functions of streams run outside it, since they may wait for a thread
// that is in a call.
#pragma once

namespace emu {

class Locked {
 public:
  Locked();
  ~Locked();
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
};

// Gives up the lock, however often this thread holds it, and is in a host function meanwhile.
class HostFunction {
 public:
  HostFunction();
  ~HostFunction();
  HostFunction(const HostFunction&) = delete;
  HostFunction& operator=(const HostFunction&) = delete;

 private:
  int depth_;
};
bool in_host_function();

// Waits until another thread has finished an operation.
void wait_for_change();
void tell_change();

// The parent of this process used the runtime: its state here is torn, every call fails.
bool is_forked_child();
void watch_forks();

}  // namespace emu
