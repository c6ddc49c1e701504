#include "warptape/kernels/cpu/threads.h"

#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "warptape/core/thread_object.h"
#include "warptape/kernels/cpu/isa.h"

namespace wt {
namespace {

// About as long as the small kernels between two products of a training step take.
constexpr int kSpins = 4'000;

void relax() {
#if WT_X86
  _mm_pause();
#endif
}

// This thread is inside a task.
constinit thread_local bool in_job = false;

// One call of parallel().
struct Job {
  void (*call)(void*, int, int);
  void* context;
  int threads, tasks;
  std::atomic<int> next{0};     // the first task that nobody has taken
  std::atomic<int> helpers{0};  // inside work()

  void work(int worker) {
    in_job = true;
    for (int i; (i = next.fetch_add(1, std::memory_order_relaxed)) < tasks;)
      call(context, i, worker);
    in_job = false;
  }
};

// The pool is over: static destructors that come later run their tasks themselves.
constinit std::atomic<bool> ended{false};

class Pool {
 public:
  ~Pool() {
    ended = true;
    // A forked child has this object but not its threads: waiting for them would never end well.
    if (::getpid() != owner_) {
      detail::keep_for_ever(new std::vector<std::thread>(std::move(helpers_)));
      return;
    }
    stop_ = true;
    announce();
    for (std::thread& t : helpers_) t.join();
  }

  void run(Job& job) {
    const std::unique_lock<std::mutex> mine(caller_, std::try_to_lock);
    if (!mine) return job.work(0);  // another thread's turn
    while (int(helpers_.size()) < job.threads - 1) {
      const int worker = int(helpers_.size()) + 1;
      helpers_.emplace_back([this, worker, seen = round_.load()] { help(worker, seen); });
    }
    set_job(&job);
    announce();
    job.work(0);
    set_job(nullptr);  // from here on nobody can join
    while (job.helpers.load(std::memory_order_acquire) != 0) relax();
  }

 private:
  void announce() {
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
  }
  void set_job(Job* job) {
    const std::lock_guard<std::mutex> lock(job_mutex_);
    job_ = job;
  }
  // Joins the present call; null when there is none or it has workers enough.
  Job* join(int worker) {
    const std::lock_guard<std::mutex> lock(job_mutex_);
    if (!job_ || worker >= job_->threads) return nullptr;
    job_->helpers.fetch_add(1, std::memory_order_relaxed);
    return job_;
  }
  void help(int worker, unsigned seen) {
    for (;;) {
      for (int i = 0; i < kSpins && round_.load(std::memory_order_acquire) == seen; ++i) relax();
      round_.wait(seen, std::memory_order_acquire);
      seen = round_.load(std::memory_order_acquire);
      if (stop_) return;
      if (Job* job = join(worker)) {
        job->work(worker);
        job->helpers.fetch_sub(1, std::memory_order_release);
      }
    }
  }

  const pid_t owner_ = ::getpid();
  std::mutex caller_;
  std::vector<std::thread> helpers_;
  std::atomic<unsigned> round_{0};  // changes with every call
  std::atomic<bool> stop_{false};
  std::mutex job_mutex_;
  Job* job_ = nullptr;
};

}  // namespace

void detail::run_in_pool(int threads, int tasks, void (*call)(void*, int, int), void* context) {
  if (in_job || ended.load(std::memory_order_relaxed)) {
    for (int i = 0; i < tasks; ++i) call(context, i, 0);
    return;
  }
  static Pool pool;
  Job job{call, context, threads, tasks};
  pool.run(job);
}

}  // namespace wt
