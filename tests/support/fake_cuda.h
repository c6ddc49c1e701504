// A CUDA runtime without a GPU, for the host side of the cuda device. While one exists, cuda:0 (and
// more) is there: memory is the host's, streams are queues whose work runs when somebody waits for
// it or the test says run(). So what is read, reused or freed too early shows.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "warptape/kernels/cuda/api.h"

namespace wt_test {

class FakeCuda {
 public:
  struct Mark {  // of an event, one a record
    void* stream;
    bool passed = false;
  };

  explicit FakeCuda(int devices = 1, size_t memory = size_t{1} << 30);
  ~FakeCuda();

  // Runs what is queued on one stream (null: the default one), and what that waits for.
  void run(void* stream);
  void run_all();
  size_t queued(void* stream) const;
  size_t queued() const;

  // From now on `call` (a member of CudaApi, "copy") returns `code`; 0 ends it.
  void fail(const std::string& call, int code) { failing_[call] = code; }
  // How often a call was made; "waited": how often the host had to wait for an event.
  int calls(const std::string& call) const;
  size_t device_bytes() const { return device_bytes_; }
  // What the code under test did wrong: freed memory in use, copied outside live memory, ...
  const std::vector<std::string>& violations() const { return violations_; }

  const wt::CudaApi& api() const;
  int driver_version = 13000, runtime_version = 13000;
  int major = 9, minor = 0;
  void* driver_function = nullptr;  // what the driver has, whatever the name
  wt::i64 shared_bytes = 227 * 1024;
  int device() const { return current_; }  // the current one
  bool capturing() const { return capture_ != nullptr; }

 private:
  struct Work {
    std::function<void()> run;
    std::shared_ptr<Mark> waits_for;
    const void* from = nullptr;
    const void* to = nullptr;
    size_t bytes = 0;
  };
  struct Stream {
    std::deque<Work> work;
  };
  struct FakeEvent {
    bool timing;
    std::shared_ptr<Mark> mark;
    double ms = 0;
  };
  // A stream's work while it is captured: it goes here and does not run.
  struct Capture {
    void* stream;
    std::vector<Work> work;
    bool spoiled = false;
  };
  struct FakeGraph {
    std::vector<Work> work;
  };
  friend struct FakeCalls;
  int enter(const char* call);
  int spoil(const char* call);
  void complain(std::string text) { violations_.push_back(std::move(text)); }
  void check_range(const void* p, size_t bytes, const char* what);
  void push(void* stream, Work w) {
    if (capture_ && stream == capture_->stream)
      capture_->work.push_back(std::move(w));
    else
      streams_[stream].work.push_back(std::move(w));
  }

  int devices_;
  size_t limit_;
  size_t device_bytes_ = 0;
  std::map<const char*, size_t> device_memory_, host_memory_;
  std::map<void*, Stream> streams_;
  std::set<void*> made_streams_;
  std::map<void*, std::unique_ptr<FakeEvent>> events_;
  std::unique_ptr<Capture> capture_;
  std::map<void*, std::unique_ptr<FakeGraph>> graphs_;  // and those made ready
  std::map<std::string, int> failing_, calls_;
  std::vector<std::string> violations_;
  double clock_ms_ = 0;
  int current_ = 0;
  int last_error_ = 0;
  void* before_ = nullptr;  // the state that was set aside
};

}  // namespace wt_test
