#include "warptape/data/loader.h"

#include <unistd.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "warptape/core/mode.h"
#include "warptape/core/permutation.h"

namespace wt::data {

std::vector<i64> epoch_order(i64 n, bool shuffle, u64 seed, i64 epoch) {
  std::vector<i64> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  if (!shuffle) return order;
  const PermutationKey key = permutation_key(seed, u64(epoch));
  for (i64& place : order) place = i64(permute(key, u64(place), u64(n)));
  return order;
}

namespace detail {

void check_loader_options(const LoaderOptions& o) {
  if (o.batch < 1) throw UsageError(str("[Loader] the batch must be at least 1, got ", o.batch));
  if (o.workers < 0 || o.workers > 1024 || o.prefetch < 1 || o.prefetch > 1024)
    throw UsageError(str("[Loader] workers must be 0 to 1024 and prefetch 1 to 1024, got ",
                         o.workers, " and ", o.prefetch));
  if (o.sampler && o.shuffle)
    throw UsageError(
        "[Loader] a sampler says the order itself, shuffle has no effect beside it\n  Try one of "
        "the two");
}

namespace {

std::vector<i64> sampled_order(const LoaderOptions& o, i64 n, i64 epoch) {
  std::vector<i64> order = o.sampler(epoch);
  for (size_t i = 0; i < order.size(); ++i)
    if (order[i] < 0 || order[i] >= n)
      throw IndexError(str("[Loader] the sampler gives sample ", order[i], " at place ", i,
                           " of epoch ", epoch, ", outside [0, ", n, ")"));
  return order;
}

}  // namespace

std::vector<i64> loader_order(const LoaderOptions& o, i64 n, i64 sampled, i64 epoch) {
  if (n < 0) throw UsageError(str("[Loader] the dataset says it has ", n, " samples"));
  if (n == 0) throw UsageError("[Loader] the dataset is empty");
  std::vector<i64> order =
      o.sampler ? sampled_order(o, n, epoch) : epoch_order(n, o.shuffle, o.seed, epoch);
  const i64 samples = i64(order.size());
  if (sampled >= 0 && samples != sampled)
    throw UsageError(str("[Loader] the sampler gives ", samples, " samples for epoch ", epoch,
                         ", it gave ", sampled, " for epoch 0: all epochs need equal lengths"));
  if (samples < 1) throw UsageError("[Loader] the sampler gives no samples");
  if (o.drop_last && o.batch > samples)
    throw UsageError(str("[Loader] a batch of ", o.batch, " is larger than the data (", samples,
                         " samples) and drop_last leaves nothing"));
  return order;
}

i64 batches_of(const LoaderOptions& o, i64 samples) {
  return samples / o.batch + (!o.drop_last && samples % o.batch != 0);
}

void bad_loader_state(const LoaderState& s, i64 batches) {
  throw UsageError(str("[Loader] there is no batch ", s.batch, " in epoch ", s.epoch, " (", batches,
                       " batches an epoch)"));
}

void size_changed(const LoaderState& s, i64 samples) {
  throw UsageError(str(
      "[Loader] the dataset has ", samples, " samples, it had ", s.samples, " when epoch ", s.epoch,
      " began: its size may change between epochs only\n  Try set_state({.epoch = ", s.epoch + 1,
      "}), which begins the next one"));
}

void version_changed(const LoaderState& s) {
  throw UsageError(
      str("[Loader] the dataset's tensors were written to after the first batch of "
          "epoch ",
          s.epoch,
          ": which batches have the change would depend on the workers\n  Try to "
          "write between epochs, or give the dataset clones"));
}

// --- workers ---

struct BatchPool::Shared {
  struct Slot {
    bool ready = false;
    std::unique_ptr<AnyBatch> batch{};
    std::exception_ptr error{};
  };

  std::mutex mutex;
  std::condition_variable work, result;
  std::vector<Slot> slots;  // batch k waits in slot k % ahead
  std::shared_ptr<const std::function<std::unique_ptr<AnyBatch>(i64)>> make;
  u64 job = 0;  // counts start() and cancel(): results of an older one are dropped
  i64 next = 0, taken = 0, end = 0;
  bool stop = false;
  std::vector<std::thread> threads;

  void run(const ModeCopy& of_caller) {
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
      shared_->threads.emplace_back([s = shared_.get(), copy = ModeCopy()] { s->run(copy); });
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

void BatchPool::start(std::function<std::unique_ptr<AnyBatch>(i64)> make, i64 first, i64 end) {
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

std::unique_ptr<AnyBatch> BatchPool::take() {
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

}  // namespace detail
}  // namespace wt::data
