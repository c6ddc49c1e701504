// Bytes between the processes of a job, by MPI calls that never block. Internal.
//
// Every wait polls MPI_Test and looks at the pulse and the clock in between: MPI itself waits for
// ever for a rank that is gone.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "warptape/dist/link.h"

namespace wt::dist {

// MPI is there for this process. Throws NotAvailable, UsageError.
void start_mpi();
// In MPI's own words, on one line; before it is started, too.
std::string mpi_words();
// A rank has failed: MPI_Finalize would wait for it.
void abandon_mpi();

class MpiLink : public Link {
 public:
  // Of all processes; collective.
  explicit MpiLink(PulseClock::time_point deadline);
  // Of these ranks of `all`, in their order; they alone call it. label: none is under way twice.
  MpiLink(const MpiLink& all, const std::vector<int>& members, int label,
          PulseClock::time_point deadline);
  ~MpiLink() override;

  void gather(const void* mine, void* all, int bytes) override;
  void share(void* data, int bytes) override;
  void exchange(const void* out, i64 out_bytes, int to, void* in, i64 in_bytes, int from,
                const Arrived& arrived, Lane lane) override;
  void relay(void* data, i64 bytes, int from, std::span<const int> to) override;
  void post(int to, const void* label, const void* data, i64 bytes) override;
  void read_label(int from, void* label) override;
  bool posted() override;
  bool all_posted() const override { return letters_.empty(); }
  void wait_posted() override;
  std::unique_ptr<Link> group(const std::vector<int>& members, int label,
                              PulseClock::time_point until) const override;
  void abandon() override { abandon_mpi(); }

 private:
  struct Calls;  // requests, in MPI's terms
  struct Letter;
  void wait(Calls& c, size_t first, size_t count);

  std::unique_ptr<Calls> lanes_;
  std::vector<std::unique_ptr<Letter>> letters_;
};

}  // namespace wt::dist
