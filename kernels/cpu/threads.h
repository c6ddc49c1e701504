// Threads for the cpu's large kernels.
#pragma once
#include <type_traits>

namespace wt {

namespace detail {
void run_in_pool(int threads, int tasks, void (*call)(void*, int, int), void* context);
}

// Calls f(task, worker) for every task in [0, tasks) and returns when all are done. Up to `threads`
// workers, 0 <= worker < threads, take the next task whenever they are free; the caller is worker 0
// and waits only for tasks that somebody has begun, so a helper that the system does not run costs
// nothing. Helpers are kept; they spin for a moment after each call, then sleep. f must not throw.
// While another thread uses the pool, or inside f, the caller does everything.
template <class F>
void parallel(int threads, int tasks, F&& f) {
  if (threads <= 1 || tasks <= 1) {
    for (int i = 0; i < tasks; ++i) f(i, 0);
    return;
  }
  using Function = std::remove_reference_t<F>;
  detail::run_in_pool(
      threads, tasks,
      [](void* p, int task, int worker) { (*static_cast<Function*>(p))(task, worker); },
      const_cast<void*>(static_cast<const void*>(&f)));
}

}  // namespace wt
