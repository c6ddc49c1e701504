// Bytes between the processes of a job, as the backends of processes (mpi, tcp) move them.
// Internal.
//
// Nothing waits for ever: each wait ends by what it waits for, by a failure that the pulse knows
// of, or at the deadline. One thread at a time, but for group().
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "warptape/dist/pulse.h"

namespace wt::dist {

// What a wait ends by, if not by what it waited for.
struct Stopped {
  enum Why : u8 {
    failed,
    late,
    error
  } why;  // the pulse has a failure; the deadline; the transport
  std::string text;
};

class Link {
 public:
  enum class Lane : u8 { collectives, letters };
  static constexpr i64 kPart = 512 << 10;  // bytes a part of a message; of whole elements
  static constexpr int kLabel = 32;
  // Called for each part of what arrives, in order.
  using Arrived = std::function<void(i64 offset, i64 bytes)>;

  Link() = default;
  Link(const Link&) = delete;
  virtual ~Link() = default;
  int rank() const { return rank_; }
  int size() const { return size_; }

  void set_pulse(const Pulse* p) { pulse_ = p; }
  // For the waits from now on.
  void set_deadline(PulseClock::time_point d) { deadline_ = d; }

  // all: size() blocks of `bytes`, that of each rank. bytes: the same on all ranks.
  virtual void gather(const void* mine, void* all, int bytes) = 0;
  // From rank 0 to all.
  virtual void share(void* data, int bytes) = 0;
  // Sends to rank `to` and receives from rank `from` at once; 0 bytes: not at all. In parts, so
  // that `arrived` works on one while the next is under way.
  virtual void exchange(const void* out, i64 out_bytes, int to, void* in, i64 in_bytes, int from,
                        const Arrived& arrived = {}, Lane lane = Lane::collectives) = 0;
  // Receives from rank `from` (-1: has it) and passes on to the ranks `to` what has arrived.
  virtual void relay(void* data, i64 bytes, int from, std::span<const int> to) = 0;

  // A copy of the bytes goes to rank `to`, with a label of kLabel bytes before it, while others are
  // served. read_label and exchange(.., Lane::letters) receive it.
  virtual void post(int to, const void* label, const void* data, i64 bytes) = 0;
  virtual void read_label(int from, void* label) = 0;
  // Whether all that was posted has gone; moves it on.
  virtual bool posted() = 0;
  virtual bool all_posted() const = 0;
  virtual void wait_posted() = 0;

  // A link of these ranks, in their order; they alone call it, each on the thread that makes the
  // calls of this one, while none of them is under way. label: none is in use twice at once.
  virtual std::unique_ptr<Link> group(const std::vector<int>& members, int label,
                                      PulseClock::time_point until) const = 0;
  // Where the others reach this rank, as numbers; empty: nobody knows yet.
  virtual std::vector<std::string> addresses() const { return {}; }
  // A rank has failed: what would wait for it at the end of the process must not.
  virtual void abandon() {}

 protected:
  const Pulse* pulse_ = nullptr;
  PulseClock::time_point deadline_;
  int rank_ = 0, size_ = 1;
};

}  // namespace wt::dist
