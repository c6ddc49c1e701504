// One communicator of NCCL's, and how to get rid of it. Internal.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "warptape/core/error.h"
#include "warptape/dist/communicator.h"
#include "warptape/dist/nccl/nccl_api.h"

namespace wt::dist {

// The first failure that this rank has seen: shared by a communicator, its thread and what it
// began.
class NcclFailure {
 public:
  // False: there is one already.
  bool set(const PeerFailure& e);
  bool seen() const { return seen_.load(std::memory_order_acquire); }
  void check() const {  // throws it
    if (seen()) [[unlikely]]
      rethrow();
  }

 private:
  [[noreturn]] WT_COLD void rethrow() const;
  std::mutex mutex_;
  std::atomic<bool> seen_{false};
  std::optional<PeerFailure> what_;  // set before seen_
};

// Throws what `control` has seen, if anything; waits for nobody. Any thread.
void check_control(Communicator& control);

// "120 s", "0.25 s".
std::string seconds_text(std::chrono::milliseconds d);

// Calls of NCCL that name one communicator are made one at a time: under mutex(). None of them
// blocks (the communicator is made with blocking = 0), but those that take it down may.
class NcclComm {
 public:
  NcclComm(const NcclApi& api, std::chrono::milliseconds give_up) : api(api), give_up_(give_up) {}
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;
  ~NcclComm() { abort(); }  // nothing to do after close()

  const NcclApi& api;
  void* get() const { return comm_; }
  std::timed_mutex& mutex() { return mutex_; }

  // Both: what the call came to, kNcclInProgress too.
  int begin(int size, const NcclUniqueId& id, int rank);
  int async_error();  // success once there is no communicator any more
  // Asks while the answer is kNcclInProgress and `go_on` is true. The caller has mutex().
  int settled(int result, const std::function<bool()>& go_on);
  // "ncclAllReduce: unhandled system error (Call to connect ... failed)".
  std::string describe(const char* call, int result);

  // Stops what runs and frees it. Any thread; a call under way has a second to notice.
  void abort() noexcept;
  // Lets what runs finish, and frees it; aborts what does not finish.
  void close() noexcept;
  // A thread was left behind inside NCCL: what it may still use must not be used again.
  bool left_behind() const { return left_behind_; }

 private:
  bool within_limit(int (*call)(void* comm), void* comm) noexcept;

  const std::chrono::milliseconds give_up_;
  std::timed_mutex mutex_;
  void* comm_ = nullptr;
  std::atomic<bool> left_behind_{false};
};

}  // namespace wt::dist
