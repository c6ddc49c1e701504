// The ledger of copies and waits: who says so, and who hears it. Internal.
#pragma once
#include "warptape/core/mode.h"
#include "warptape/core/profile.h"

namespace wt::profiler {

// Copies and waits that watching makes are not the program's.
class UnwatchedTransfers {
 public:
  UnwatchedTransfers() : before_(on_) { on_ = true; }
  ~UnwatchedTransfers() { on_ = before_; }
  UnwatchedTransfers(const UnwatchedTransfers&) = delete;
  UnwatchedTransfers& operator=(const UnwatchedTransfers&) = delete;
  static bool on() { return on_; }

 private:
  static inline constinit thread_local bool on_ = false;
  bool before_;
};

// Around a copy or a wait, for those who profile.
class TransferWatch {
 public:
  TransferWatch(Transfer::Kind kind, Device d, i64 bytes, bool pageable = false)
      : watched_((process_slow.load(std::memory_order_relaxed) & kSlowObserved) &&
                 !UnwatchedTransfers::on()) {
    if (watched_) [[unlikely]]
      begin({.kind = kind, .pageable = pageable, .device = d, .count = 1, .bytes = bytes});
  }
  ~TransferWatch() {
    if (watched_) [[unlikely]]
      end();
  }
  TransferWatch(const TransferWatch&) = delete;
  TransferWatch& operator=(const TransferWatch&) = delete;

 private:
  void begin(const Transfer& t);
  void end() noexcept;

  bool watched_;
  Transfer transfer_{};
  i64 begin_ns_ = 0;
};

class Recorder;
// Told of what ends from now on, until it is struck off.
void hear_transfers(Recorder& r);
void hear_no_transfers(Recorder& r);

}  // namespace wt::profiler
