#include "warptape/dist/nccl/nccl_comm.h"

#include <condition_variable>
#include <system_error>
#include <thread>

namespace wt::dist {

bool NcclFailure::set(const PeerFailure& e) {
  const std::lock_guard lock(mutex_);
  if (seen()) return false;
  what_ = e;
  seen_.store(true, std::memory_order_release);
  return true;
}

void NcclFailure::rethrow() const { throw PeerFailure(*what_); }

void check_control(Communicator& control) {
  if (!control.failed()) return;
  Call none;
  none.number = -1;
  control.start(none);  // throws it, before anything else is done
  throw PeerFailure("a rank has failed");
}

std::string seconds_text(std::chrono::milliseconds d) { return str(double(d.count()) / 1e3, " s"); }

int NcclComm::begin(int size, const NcclUniqueId& id, int rank) {
  NcclConfig config;
  config.blocking = 0;
  const std::lock_guard lock(mutex_);
  return api.comm_init(&comm_, size, id, rank, &config);
}

int NcclComm::async_error() {
  if (!comm_) return kNcclSuccess;
  int result = kNcclSuccess;
  const int code = api.comm_async_error(comm_, &result);
  return code == kNcclSuccess ? result : code;
}

int NcclComm::settled(int result, const std::function<bool()>& go_on) {
  // A call is handed to a thread of NCCL's, which is ready in microseconds or, when connections are
  // made, waits for the other ranks.
  std::chrono::microseconds pause{1};
  while (result == kNcclInProgress && go_on()) {
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(1000));
    result = async_error();
  }
  return result;
}

std::string NcclComm::describe(const char* call, int result) {
  const char* more = api.last_error(comm_);
  std::string text = str(call, ": ", api.error_text(result));
  if (more && *more) text += str(" (", more, ")");
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';  // one line
  return text;
}

// ncclCommAbort and ncclCommDestroy have been seen to wait for ever (for a proxy thread, for a
// CUDA context that is broken).
bool NcclComm::within_limit(int (*call)(void* comm), void* comm) noexcept {
  struct Done {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
  };
  try {
    const auto shared = std::make_shared<Done>();
    std::thread helper([shared, call, comm] {
      call(comm);
      const std::lock_guard lock(shared->mutex);
      shared->done = true;
      shared->changed.notify_all();
    });
    std::unique_lock lock(shared->mutex);
    if (shared->changed.wait_for(lock, give_up_, [&] { return shared->done; })) {
      lock.unlock();
      helper.join();
      return true;
    }
    helper.detach();
  } catch (const std::exception&) {  // no memory, or no thread
  }
  left_behind_ = true;
  return false;
}

void NcclComm::abort() noexcept {
  // A call of another thread that polls lets go; one that is stuck inside NCCL is what aborting
  // from beside is for.
  const bool locked = mutex_.try_lock_for(std::chrono::seconds(1));
  void* comm = std::exchange(comm_, nullptr);
  if (locked) mutex_.unlock();
  if (comm) within_limit(api.comm_abort, comm);
}

void NcclComm::close() noexcept {
  void* comm = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!comm_) return;
    const auto until = std::chrono::steady_clock::now() + give_up_;
    const int result =
        settled(api.comm_finalize(comm_), [&] { return std::chrono::steady_clock::now() < until; });
    if (result == kNcclSuccess) comm = std::exchange(comm_, nullptr);
  }
  if (comm)
    within_limit(api.comm_destroy, comm);
  else
    abort();
}

}  // namespace wt::dist
