// Bytes between the processes of a job, by MPI calls that never block. Internal.
//
// Every wait polls MPI_Test and looks at the pulse and the clock in between: MPI itself waits for
// ever for a rank that is gone. One thread at a time.
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
  enum Why : u8 { failed, late, error } why;  // the pulse has a failure; the deadline; MPI's error
  std::string text;
};

// MPI is there for this process. Throws NotAvailable, UsageError.
void start_mpi();
// In MPI's own words, on one line; before it is started, too.
std::string mpi_words();
// A rank has failed: MPI_Finalize would wait for it.
void abandon_mpi();

class MpiLink {
 public:
  enum class Lane : u8 { collectives, letters };
  // Called for each part of what arrives, in order.
  using Arrived = std::function<void(i64 offset, i64 bytes)>;

  // Of all processes; collective.
  explicit MpiLink(PulseClock::time_point deadline);
  // Of these ranks of `all`, in their order; they alone call it. label: none is under way twice.
  MpiLink(const MpiLink& all, const std::vector<int>& members, int label,
          PulseClock::time_point deadline);
  ~MpiLink();
  MpiLink(const MpiLink&) = delete;
  int rank() const { return rank_; }
  int size() const { return size_; }

  void set_pulse(const Pulse* p) { pulse_ = p; }
  // For the waits from now on.
  void set_deadline(PulseClock::time_point d) { deadline_ = d; }

  // all: size() blocks of `bytes`, that of each rank. bytes: the same on all ranks.
  void gather(const void* mine, void* all, int bytes);
  // From rank 0 to all.
  void share(void* data, int bytes);
  // Sends to rank `to` and receives from rank `from` at once; 0 bytes: not at all. In parts, so
  // that `arrived` works on one while the next is under way.
  void exchange(const void* out, i64 out_bytes, int to, void* in, i64 in_bytes, int from,
                const Arrived& arrived = {}, Lane lane = Lane::collectives);
  // Receives from rank `from` (-1: has it) and passes on to the ranks `to` what has arrived.
  void relay(void* data, i64 bytes, int from, std::span<const int> to);

  // A copy of the bytes goes to rank `to`, with a label of 32 bytes before it, while others are
  // served. read_label and exchange(.., Lane::letters) receive it.
  void post(int to, const void* label, const void* data, i64 bytes);
  void read_label(int from, void* label);
  // Whether all that was posted has gone; moves it on.
  bool posted();
  bool all_posted() const { return letters_.empty(); }
  void wait_posted();

 private:
  struct Calls;  // requests, in MPI's terms
  struct Letter;
  void wait(Calls& c, size_t first, size_t count);

  const Pulse* pulse_ = nullptr;
  PulseClock::time_point deadline_;
  int rank_ = 0, size_ = 1;
  std::unique_ptr<Calls> lanes_;
  std::vector<std::unique_ptr<Letter>> letters_;
};

}  // namespace wt::dist
