// The pulse between the processes of a job: who is alive, at which step, and in which call.
// Internal.
//
// A star of TCP connections with rank 0 in the middle (dist/pulse_door.h makes them). Every
// rank sends a frame of 32 bytes some times a second, from a thread of its own, so that a rank in a
// long kernel is not silent. Rank 0 finds out which rank failed and tells all:
//   died     its connection ended without a farewell; noticed at once
//   silent   nothing came for the deadline: a stopped process, a cut network
//   late     others have waited for it in a call for the deadline, and it is not in that call
//   aborted  it said so itself, with a reason
// The others watch rank 0 alone. The first failure counts and stays.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "warptape/dist/pulse_door.h"

namespace wt::dist {

struct Failure {
  int rank = -1;  // -1: no single one
  i64 step = -1;
  std::string host, reason;
};

// One message; `text` bytes follow.
struct PulseFrame {
  enum Kind : u8 { beat, failure, overdue, leave };
  u32 magic = 0x57545031;
  u32 text = 0;
  i32 rank = -1;  // whom it is about
  u8 kind = beat;
  u8 busy = 0;  // the sender is in the call `call`, not behind it
  u16 zero = 0;
  i64 step = -1;
  i64 call = 0;
};
static_assert(sizeof(PulseFrame) == 32);
constexpr u32 kMostPulseText = 1024;

class Pulse {
 public:
  // hosts: the name of each rank's. links: what PulseDoor::admit gave (rank 0), or the one socket
  // that knock() gave.
  Pulse(int rank, std::vector<std::string> hosts, std::vector<Socket> links,
        std::chrono::milliseconds deadline);
  ~Pulse();
  Pulse(const Pulse&) = delete;

  void set_deadline(std::chrono::milliseconds d) { deadline_ms_ = d.count(); }
  std::chrono::milliseconds deadline() const { return std::chrono::milliseconds(deadline_ms_); }
  void at_step(i64 step) { step_ = step; }
  i64 step() const { return step_; }
  // What `rank` said otherwise of its step, later than in its last beat perhaps.
  void heard_step(int rank, i64 step) {
    steps_[size_t(rank)].store(step, std::memory_order_relaxed);
  }
  // The collectives, numbered from 1: this rank has begun one, and has ended it.
  void enter(i64 call);
  void leave() { busy_ = false; }
  // This rank calls nothing any more. Its end is no failure then, unless others wait for it.
  void farewell();

  bool failed() const { return failed_.load(std::memory_order_acquire); }
  std::optional<Failure> failure() const;
  // Tells all ranks that `rank` failed, unless one has already; on return the message is on its way
  // and failed() is true. step: -1 asks rank 0's knowledge.
  void fail(int rank, i64 step, const std::string& reason) noexcept;
  // This rank has waited for its deadline in `what`, its collective `call` or for rank `peer` alone
  // (-1: for all). Whom it waits for is found out, and failed() is true on return.
  void overdue(i64 call, int peer, const std::string& what);

 private:
  struct Peer {
    Socket link;
    std::string in, out;  // parts of frames
    PulseClock::time_point heard;
    i64 step = -1, call = 0;
    bool busy = false, left = false;
  };
  struct Question {
    i64 call;
    int peer;
    i64 step;  // of who asks
    std::string what;
    PulseClock::time_point asked, decide;
  };

  int size() const { return int(hosts_.size()); }
  std::chrono::milliseconds interval() const;
  std::chrono::milliseconds silence() const;
  PulseFrame frame(PulseFrame::Kind kind) const;
  void run();
  void read(int rank);
  bool take(int rank, const PulseFrame& f, const std::string& text);
  void ended(int rank);
  void post(int rank, PulseFrame f, const std::string& text);
  void post_all(const PulseFrame& f, const std::string& text);
  void flush(Peer& p);
  void settle(Failure f);
  void watch(PulseClock::time_point now);
  void watch_left();
  void decide(PulseClock::time_point now);
  void ask(Question q);

  const int rank_;
  const std::vector<std::string> hosts_;
  std::vector<std::atomic<i64>> steps_;
  std::atomic<i64> deadline_ms_, step_{-1}, call_{0};
  std::atomic<bool> busy_{false}, failed_{false};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Peer> peers_;  // rank 0: by rank, itself without a link; others: rank 0 alone
  std::optional<Failure> failure_;
  std::optional<Question> question_;
  bool ending_ = false;
  Socket bell_;  // an eventfd: run() looks up
  std::thread thread_;
};

}  // namespace wt::dist
