// The clock behind LoaderStats. Internal.
#pragma once
#include <atomic>

#include "warptape/data/loader_stats.h"

namespace wt::data::detail {

enum class LoaderStage : u8 { next, dataset, collate, pin, worker_wait, copy };

// Shared by a loader and its workers.
class LoaderTimes {
 public:
  LoaderTimes() { reset(); }
  void add(LoaderStage s, i64 ns) { ns_[int(s)].fetch_add(ns, std::memory_order_relaxed); }
  void add_bytes(i64 n) { bytes_.fetch_add(n, std::memory_order_relaxed); }
  void add_batch() { batches_.fetch_add(1, std::memory_order_relaxed); }
  void reset();
  LoaderStats stats() const;

 private:
  std::atomic<i64> ns_[6]{}, bytes_{0}, batches_{0}, begin_{0};
};

// Adds the time of its scope to a stage. A timer of the dataset leaves out what CollateTimers
// (data/samples.h) of its thread measured, and adds that to `collate`.
class StageTimer {
 public:
  StageTimer(LoaderTimes& t, LoaderStage s);
  ~StageTimer();
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;

 private:
  LoaderTimes& times_;
  const LoaderStage stage_;
  const i64 begin_, collated_;
};

}  // namespace wt::data::detail
