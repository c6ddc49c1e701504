// The thread beside a communicator of NCCL's: it looks at the clock of what was queued, at NCCL's
// asynchronous errors and at what `control` has heard, and aborts NCCL when one of them fails.
// Internal.
#pragma once
#include <condition_variable>
#include <deque>
#include <thread>
#include <vector>

#include "warptape/core/stream.h"
#include "warptape/dist/nccl/nccl_calls.h"
#include "warptape/dist/nccl/nccl_comm.h"

namespace wt::dist {

// An event of the device's, given back at the end. core/stream.h's Event is refused inside a graph,
// where events of a capture are just what is wanted.
class NcclEvent {
 public:
  // Takes an event of the device's backend.
  explicit NcclEvent(Device d)
      : backend_(stream_backend(d)), device_(d), event_(backend_->take_event(d, false)) {}
  ~NcclEvent() { backend_->give_event(device_, event_, false); }
  NcclEvent(const NcclEvent&) = delete;
  NcclEvent& operator=(const NcclEvent&) = delete;
  // Marks what is queued on `stream` so far.
  void record(void* stream) { backend_->record(device_, event_, stream); }
  // Whether what was marked has finished; waits for nothing.
  bool done() const { return backend_->event_done(device_, event_); }
  // What is queued on `stream` from now on starts after it.
  void before(void* stream) const { backend_->stream_after(device_, stream, event_); }

 private:
  const StreamBackend* backend_;
  Device device_;
  void* event_;
};

// What was queued as one launch.
struct NcclLaunched {
  NcclCallNote first;                              // of its calls, for messages
  size_t calls = 1;                                // 0: a graph with calls in it
  std::vector<std::shared_ptr<NcclEvent>> begins;  // of the current stream: then its turn may come
  std::shared_ptr<NcclEvent> end;                  // done when all of it has finished
  std::chrono::milliseconds deadline{};            // from `since` to `end`
  // Since when the device has had nothing else to wait for; the other ranks' time runs from there.
  std::optional<std::chrono::steady_clock::time_point> since = {};
};

// The thread beside a communicator, which looks every 10 ms at its clock, its errors and `control`.
class NcclWatch {
 public:
  // Starts the thread; what it finds first goes to `failure`. All three outlive it.
  NcclWatch(NcclComm& comm, Communicator& control, std::shared_ptr<NcclFailure> failure);
  ~NcclWatch();  // aborts NCCL first, where there was a failure
  NcclWatch(const NcclWatch&) = delete;
  NcclWatch& operator=(const NcclWatch&) = delete;

  // Watches one more launch, behind those before it.
  void add(NcclLaunched l);
  // Whether all that was added has finished. Any thread.
  bool idle();
  // Waits until idle() or a failure, at most so long; whether it is idle.
  bool wait_idle(std::chrono::milliseconds limit);
  // Gives up, on all ranks, for a reason that this rank has found; `where`: the user's line or 0.
  void fail(const char* operation, const std::string& reason, FrameId where);

 private:
  void run();
  void look();
  // The launch that has waited for too long, if one has.
  std::optional<NcclLaunched> scan();

  NcclComm& comm_;
  Communicator& control_;
  const std::shared_ptr<NcclFailure> failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<NcclLaunched> launched_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace wt::dist
