// A CUDA runtime without a GPU, for the host side of the cuda device. While one exists, cuda:0 (and
// more) is there: memory is the host's, streams are queues whose work runs when somebody waits for
// it or the test says run(). So what is read, reused or freed too early shows. Threads may share
// it; the current device, the last error and a capture are a thread's own.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "warptape/kernels/cuda/api.h"

namespace wt_test {

class FakeCuda {
 public:
  struct Mark {  // of an event, one a record
    void* stream;
    bool passed = false;
    bool captured = false;  // recorded into a graph
  };
  // Work of a library's. While `ready` says no, the stream is stuck at it.
  struct Kernel {
    std::function<void()> run;
    std::function<bool()> ready;
  };

  explicit FakeCuda(int devices = 1, size_t memory = size_t{1} << 30);
  ~FakeCuda();

  // Runs what is queued on one stream (null: the default one), and what that waits for.
  void run(void* stream);
  void run_all();
  size_t queued(void* stream) const;
  size_t queued() const;

  // The device works by itself: who asks whether something is done makes what can run, run.
  bool works = false;
  // Queues what `make` makes: now, or at each launch of the graph that the stream's work goes into.
  void queue(void* stream, std::function<Kernel()> make);
  // Held through every call; recursive.
  std::recursive_mutex& mutex() { return mutex_; }
  // The one that exists.
  static FakeCuda& in_use();
  void check_range(const void* p, size_t bytes, const char* what);

  // While set: hears "record e1 s1" and "s1 after e1" when they are asked for.
  std::function<void(const std::string&)> heard;
  // While set: hears each launch of a graph of so many nodes, inside of it.
  std::function<void(size_t nodes)> launching;
  // "s1", in the order of being made; "default".
  std::string name_of(void* stream_or_event);

  // From now on `call` (a member of CudaApi, "copy") returns `code`; 0 ends it.
  void fail(const std::string& call, int code) { failing_[call] = code; }
  // How often a call was made; "waited": how often the host had to wait for an event.
  int calls(const std::string& call) const;
  size_t device_bytes() const { return device_bytes_; }
  // What the code under test did wrong: freed memory in use, copied outside live memory, ...
  const std::vector<std::string>& violations() const { return violations_; }

  // Code that is loaded: `kernels` says what it may have, by parameters' bytes and what it does
  // with pointers to its arguments when it runs. Code that begins with what `refuses` has is not
  // loaded.
  struct Code {
    std::vector<size_t> parameters;
    std::function<void(const std::vector<const void*>&)> run;
  };
  std::map<std::string, Code> kernels;
  std::string refuses;
  std::vector<std::string> launched;  // "scale (4,1,1) (256,1,1) 0 s1"

  const wt::CudaApi& api() const;
  int driver_version = 13000, runtime_version = 13000;
  int major = 9, minor = 0;
  void* driver_function = nullptr;  // what the driver has, whatever the name
  wt::i64 shared_bytes = 227 * 1024;
  int device() const;  // the current one, of this thread
  bool capturing() const { return !captures_.empty(); }

 private:
  struct Work {
    std::function<void()> run;
    std::shared_ptr<Mark> waits_for;
    std::function<bool()> ready = nullptr;
    std::function<Kernel()> make = nullptr;  // of the two
    const void* from = nullptr;
    const void* to = nullptr;
    size_t bytes = 0;
  };
  struct Stream {
    std::deque<Work> work;
    bool running = false;
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
    // Streams that joined it, and whether it has waited for all that they were given since.
    std::map<void*, bool> joined = {};
    bool holds(void* s) const { return s == stream || joined.count(s); }
  };
  struct FakeGraph {
    std::vector<Work> work;
  };
  friend struct FakeCalls;
  int enter(const char* call);
  int spoil(const char* call);
  void complain(std::string text) { violations_.push_back(std::move(text)); }
  // A device's default stream has a queue of its own.
  void* queue_of(void* stream) const;
  Capture* own_capture();
  Capture* capture_of(void* stream);
  void push(void* stream, Work w);

  int devices_;
  std::vector<char> defaults_;  // places that stand for default streams
  size_t limit_;
  size_t device_bytes_ = 0;
  std::map<const char*, size_t> device_memory_, host_memory_;
  std::map<void*, Stream> streams_;
  std::set<void*> made_streams_;
  std::map<void*, std::unique_ptr<FakeEvent>> events_;
  std::map<std::thread::id, std::unique_ptr<Capture>> captures_;
  std::map<void*, std::unique_ptr<FakeGraph>> graphs_;  // and those made ready
  std::map<std::string, int> failing_, calls_;
  std::vector<std::string> violations_;
  double clock_ms_ = 0;
  std::map<void*, std::string> names_;
  std::recursive_mutex mutex_;
  void* before_ = nullptr;  // the state that was set aside
};

}  // namespace wt_test
