#include "warptape/data/loader/loader_threads.h"

#include <unistd.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "warptape/core/error.h"
#include "warptape/core/mode.h"

namespace wt::data::detail {
namespace {
constinit thread_local int of_this_thread = -1;
}
int worker_number() { return of_this_thread; }

struct BatchPool::Shared {
  struct Slot {
    bool ready = false;
    Owned<AnyBatch> batch{};
    std::exception_ptr error{};
  };

  std::mutex mutex;
  std::condition_variable work, result;
  std::vector<Slot> slots;  // batch k waits in slot k % ahead
  std::shared_ptr<const std::function<Owned<AnyBatch>(i64)>> make;
  u64 job = 0;  // counts start() and cancel(): results of an older one are dropped
  i64 next = 0, taken = 0, end = 0;
  bool stop = false;
  std::vector<std::thread> threads;

  void run(const ModeCopy& of_caller, int number) {
    of_this_thread = number;
    of_caller.adopt();
    const NoGrad no_grad;
    // Batches made ahead may be for a training that an InferenceMode around the loader's
    // construction has nothing to do with.
    mode.slow &= ~u32(kSlowInference);
    std::unique_lock lock(mutex);
    for (;;) {
      work.wait(lock, [&] { return stop || (next < end && next - taken < i64(slots.size())); });
      if (stop) break;
      const i64 k = next++;
      const u64 of_job = job;
      auto call = make;
      lock.unlock();
      Slot made{.ready = true};
      try {
        made.batch = (*call)(k);
      } catch (...) {
        made.error = std::current_exception();
      }
      call.reset();
      lock.lock();
      if (of_job == job) {
        std::swap(slots[size_t(k) % slots.size()], made);
        result.notify_one();
      }
      lock.unlock();
      made = {};  // tensors are freed without the lock
      lock.lock();
    }
  }

  // Under the lock; what was there is given back, to be freed without it.
  std::vector<Slot> reset() {
    std::vector<Slot> old(slots.size());
    old.swap(slots);
    ++job;
    make.reset();
    next = taken = end = 0;
    return old;
  }
};

BatchPool::BatchPool(int workers, int ahead)
    : shared_(std::make_unique<Shared>()), owner_(::getpid()) {
  shared_->slots.resize(size_t(ahead));
  try {
    for (int i = 0; i < workers; ++i)
      shared_->threads.emplace_back([s = shared_.get(), copy = ModeCopy(), i] { s->run(copy, i); });
  } catch (...) {
    join();
    throw;
  }
}

BatchPool::~BatchPool() {
  if (::getpid() == owner_)
    join();
  else
    (void)shared_.release();  // its threads are not in this process, its mutex may be held for ever
}

void BatchPool::check_process() const {
  if (::getpid() != owner_)
    throw UsageError(
        "[Loader] it was made before fork(), and its workers are not in this process\n  Try to "
        "make the loader after fork()");
}

void BatchPool::join() noexcept {
  Shared& s = *shared_;
  {
    const std::lock_guard lock(s.mutex);
    s.stop = true;
  }
  s.work.notify_all();
  for (std::thread& t : s.threads) t.join();
  s.slots.clear();
}

void BatchPool::start(std::function<Owned<AnyBatch>(i64)> make, i64 first, i64 end) {
  check_process();
  auto shared_make = std::make_shared<const decltype(make)>(std::move(make));
  std::vector<Shared::Slot> old;
  {
    const std::lock_guard lock(shared_->mutex);
    old = shared_->reset();
    shared_->make = std::move(shared_make);
    shared_->next = shared_->taken = first;
    shared_->end = end;
  }
  shared_->work.notify_all();
}

void BatchPool::cancel() {
  check_process();
  std::vector<Shared::Slot> old;
  const std::lock_guard lock(shared_->mutex);
  old = shared_->reset();
}

bool BatchPool::running() const {
  check_process();
  const std::lock_guard lock(shared_->mutex);
  return shared_->taken < shared_->end;
}

Owned<AnyBatch> BatchPool::take() {
  check_process();
  Shared& s = *shared_;
  Shared::Slot slot;
  {
    std::unique_lock lock(s.mutex);
    WT_INTERNAL_ASSERT(s.taken < s.end);
    Shared::Slot& next = s.slots[size_t(s.taken) % s.slots.size()];
    s.result.wait(lock, [&] { return next.ready; });
    std::swap(slot, next);
    ++s.taken;
  }
  s.work.notify_one();
  if (slot.error) {
    cancel();
    std::rethrow_exception(slot.error);
  }
  return std::move(slot.batch);
}

}  // namespace wt::data::detail
