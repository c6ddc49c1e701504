// What was under way when, in a world of local ranks: which chunk went from whom to whom, who added
// what up, which call it was for. Drawn as lanes, one a link and one a rank, it shows the rings and
// trees, and how much of them a backward hides.
#pragma once
#include <mutex>
#include <vector>

#include "warptape/dist/communicator.h"

namespace wt::dist {

// Something that a rank did, and when.
struct TimelineEvent {
  // What it was.
  enum class What : u8 {
    call,    // of `rank`, from when its turn came to its end
    wait,    // of `rank`, in the beginning of a call: until every other rank had come
    send,    // a chunk, `rank` to `peer`: from when the link was free to when it was there
    reduce,  // `rank` adds (or compares) a chunk
  };
  What what = What::call;                 // call, wait, send or reduce
  Call::Kind kind = Call::Kind::barrier;  // of the call
  int rank = 0;                           // who did it
  int peer = -1;                          // of a send
  i64 call = 0;                           // the call's number, the same on all ranks; 0 the first
  i64 chunk = 0;  // of the call's sends (or reductions) of this rank to this peer, from 0
  i64 bytes = 0;  // of the chunk; of a call: of its tensor
  i64 begin = 0;  // ns since the timeline was made
  i64 end = 0;    // ns, at least `begin`
};
// The event's name: "send".
WT_API const char* to_string(TimelineEvent::What w);

// The events of a world since it was made, or since the last clear(). Any thread may call it.
class WT_API Timeline {
 public:
  // What times are taken by.
  using Clock = std::chrono::steady_clock;
  // Adds `e` with these times in place of its own.
  void add(TimelineEvent e, Clock::time_point begin, Clock::time_point end);
  // All events so far, in the order of their beginning.
  std::vector<TimelineEvent> events() const;
  // Forgets all events; times go on from when the timeline was made.
  void clear();

 private:
  const Clock::time_point start_ = Clock::now();
  mutable std::mutex mutex_;
  std::vector<TimelineEvent> events_;
};

}  // namespace wt::dist
