// A program that is run with limits: it ends, whatever it does, and takes nobody with it. Internal.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "warptape/core/types.h"

namespace wt::confined {

struct Limits {
  double cpu_seconds = 60;
  i64 memory = i64{1} << 30;      // bytes that are resident; looked at while it is waited for
  i64 address_space = 0;          // bytes; 0: no limit
  i64 file_bytes = i64{1} << 20;  // of each file that it writes, its standard output too
  bool confined = false;          // sandbox.h
};

struct Ended {
  enum class How { exited, killed, late, memory } how = How::exited;
  int code = 0;  // exit code, or the signal
};

using Clock = std::chrono::steady_clock;

// A process group of its own. The destructor ends it.
class Process {
 public:
  struct Start {
    std::vector<std::string> command{};  // the program's path, then its arguments
    std::vector<std::string> environment{};
    std::string folder{};  // where it runs
    bool pipes = false;    // to its descriptor 3, from its descriptor 4
    Limits limits{};
  };
  // OutOfMemory if there is no process to be had, CheckpointError where its folder cannot be had,
  // NotAvailable where it cannot be confined or executed.
  explicit Process(const Start& start);
  ~Process();
  Process(const Process&) = delete;

  // False: it has ended, or closed its end, or the time is over, or it takes too much memory.
  bool send(const void* from, size_t bytes, Clock::time_point deadline);
  bool receive(void* to, size_t bytes, Clock::time_point deadline);
  // What it has written to stdout and stderr so far. It lies in memory: where there is no room in a
  // folder this has to be said.
  std::string output() const;
  // Waits for its end until the deadline, then ends it.
  Ended wait(Clock::time_point deadline);

 private:
  enum class Trouble : int { files, sandbox, program };
  void prepare(const Start& start, int in, int out, int trouble) const;
  [[noreturn]] static void say_trouble(int fd, Trouble t);
  void throw_trouble(const Start& start, int said);
  bool ready(int fd, short events, Clock::time_point deadline);
  bool too_large() const;
  bool reap(bool block);
  void kill();

  Limits limits_;
  pid_t pid_ = -1;  // -1: it has been waited for
  int to_ = -1, from_ = -1, output_ = -1;
  Ended ended_;
  bool late_ = false, large_ = false;
};

// While it lives, other processes of the user cannot look into the memory of this one: the right
// results are in it.
class HiddenMemory {
 public:
  HiddenMemory();
  ~HiddenMemory();
  HiddenMemory(const HiddenMemory&) = delete;

 private:
  int before_;
};

}  // namespace wt::confined
