// The threads of a Loader. Internal.
#pragma once
#include <functional>
#include <memory>

#include "warptape/data/loader.h"

namespace wt::data::detail {

// Of the thread that calls: a worker's number in its pool, -1 for others.
int worker_number();

// Threads that make numbered batches ahead and give them out in order. For one thread, but for what
// its own threads do. In a process that was forked off later its threads are missing: start(),
// take(), running() and cancel() throw UsageError there.
class BatchPool {
 public:
  // Each works in a copy of this thread's mode (core/mode.h), which forks the generator, without
  // recording and out of an InferenceMode. At most `ahead` batches wait.
  BatchPool(int workers, int ahead);
  ~BatchPool();  // joins
  BatchPool(const BatchPool&) = delete;
  BatchPool& operator=(const BatchPool&) = delete;

  // From now on take() gives make(first), make(first + 1), ... make(end - 1). What is being made
  // for an earlier call is thrown away when it is done.
  void start(std::function<Owned<AnyBatch>(i64)> make, i64 first, i64 end);
  // Waits for the next one. Rethrows what its make() threw; then the pool is idle until start().
  Owned<AnyBatch> take();
  bool running() const;
  void cancel();

 private:
  struct Shared;
  void check_process() const;
  void join() noexcept;
  std::unique_ptr<Shared> shared_;
  const i64 owner_;  // the process
};

}  // namespace wt::data::detail
