#include "warptape/dist/mpi/mpi_link.h"

#include "warptape/config.h"

#if WARPTAPE_HAS_MPI
// Not the C++ interface that MPI 3 dropped, whose symbols nobody links.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "warptape/core/error.h"

namespace wt::dist {

using std::chrono::microseconds;

namespace {

enum Tag : int { kData = 1, kLabels = 2 };

std::atomic<bool> abandoned{false};

void check(int code) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Stopped{Stopped::error, str("MPI says: ", std::string(text, size_t(length)))};
}

// How long to wait before the next look: whoever waits for microseconds is served in microseconds,
// and whoever waits for long leaves the core to others.
class Pause {
 public:
  void operator()() {
    const auto waited = PulseClock::now() - begun_;
    if (waited < microseconds(200))
      ::sched_yield();
    else
      std::this_thread::sleep_for(waited < std::chrono::milliseconds(20) ? microseconds(20)
                                                                         : microseconds(300));
  }
  void again() { begun_ = PulseClock::now(); }

 private:
  PulseClock::time_point begun_ = PulseClock::now();
};

// MPI_Finalize waits for all ranks. A process that ends by an error leaves at once instead, and
// mpirun ends the others; one that waits too long for them, too.
void finalize_at_exit(int status, void*) {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized || abandoned || status != 0) return;
  std::thread([] {
    ::sleep(10);
    ::_exit(7);
  }).detach();
  MPI_Finalize();
}

}  // namespace

void abandon_mpi() { abandoned = true; }

std::string mpi_words() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string words(text, size_t(length));
  return words.substr(0, words.find('\n'));
}

void start_mpi() {
  int begun = 0, ended = 0, threads = MPI_THREAD_SINGLE;
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  if (ended) throw UsageError("[mpi_world] MPI has been finalized, and cannot be started again");
  if (begun) {
    MPI_Query_thread(&threads);
  } else {
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &threads) != MPI_SUCCESS)
      throw NotAvailable("[mpi_world] MPI_Init_thread failed");
    ::on_exit(finalize_at_exit, nullptr);
  }
  if (threads < MPI_THREAD_MULTIPLE)
    throw NotAvailable(
        str("[mpi_world] MPI must allow calls from several threads: ", "MPI_THREAD_MULTIPLE is ",
            int(MPI_THREAD_MULTIPLE), ", it gives ", threads));
  // No handler of MPI's may end the process before our exception does.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
}

struct MpiLink::Calls {
  MPI_Comm comm[2] = {MPI_COMM_NULL, MPI_COMM_NULL};  // by lane
  std::vector<MPI_Request> requests;
};

struct MpiLink::Letter {
  char label[MpiLink::kLabel];
  std::vector<char> bytes;
  std::vector<MPI_Request> requests;
};

MpiLink::MpiLink(PulseClock::time_point deadline) : lanes_(std::make_unique<Calls>()) {
  deadline_ = deadline;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
  check(MPI_Comm_size(MPI_COMM_WORLD, &size_));
  for (MPI_Comm& lane : lanes_->comm) {
    lanes_->requests.assign(1, MPI_REQUEST_NULL);
    check(MPI_Comm_idup(MPI_COMM_WORLD, &lane, lanes_->requests.data()));
    wait(*lanes_, 0, 1);
    MPI_Comm_set_errhandler(lane, MPI_ERRORS_RETURN);
  }
}

// MPI has no call for this that does not wait, and a rank may die in it: so it waits on a thread of
// its own, which is left there then.
MpiLink::MpiLink(const MpiLink& all, const std::vector<int>& members, int label,
                 PulseClock::time_point deadline)
    : lanes_(std::make_unique<Calls>()) {
  pulse_ = all.pulse_;
  deadline_ = deadline;
  struct Making {
    std::vector<int> members;
    MPI_Comm from[2], made[2] = {MPI_COMM_NULL, MPI_COMM_NULL};
    int error = MPI_SUCCESS;
    std::atomic<bool> done{false};
  };
  const auto making = std::make_shared<Making>();
  making->members = members;
  std::copy_n(all.lanes_->comm, 2, making->from);
  std::thread([making, label] {
    for (int lane = 0; lane < 2 && making->error == MPI_SUCCESS; ++lane) {
      MPI_Group everyone = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
      MPI_Comm_group(making->from[lane], &everyone);
      MPI_Group_incl(everyone, int(making->members.size()), making->members.data(), &some);
      making->error = MPI_Comm_create_group(making->from[lane], some, label, &making->made[lane]);
      MPI_Group_free(&some);
      MPI_Group_free(&everyone);
    }
    making->done = true;
  }).detach();
  Pause pause;
  while (!making->done) {
    if (pulse_ && pulse_->failed()) throw Stopped{Stopped::failed, ""};
    if (PulseClock::now() > deadline_) throw Stopped{Stopped::late, ""};
    pause();
  }
  check(making->error);
  std::copy_n(making->made, 2, lanes_->comm);
  for (const MPI_Comm lane : making->made) MPI_Comm_set_errhandler(lane, MPI_ERRORS_RETURN);
  check(MPI_Comm_rank(making->made[0], &rank_));
  check(MPI_Comm_size(making->made[0], &size_));
  pulse_ = nullptr;  // its own is set later
}

// The communicators stay until MPI_Finalize: freeing them is collective, and may wait.
MpiLink::~MpiLink() = default;

std::unique_ptr<Link> MpiLink::group(const std::vector<int>& members, int label,
                                     PulseClock::time_point until) const {
  return std::make_unique<MpiLink>(*this, members, label, until);
}

void MpiLink::wait(Calls& c, size_t first, size_t count) {
  Pause pause;
  for (int looks = 0;; ++looks) {
    int done = 0;
    if (pulse_ && pulse_->failed()) throw Stopped{Stopped::failed, ""};
    check(MPI_Testall(int(count), c.requests.data() + first, &done, MPI_STATUSES_IGNORE));
    if (done) return;
    if (looks % 16 == 15 && PulseClock::now() > deadline_) throw Stopped{Stopped::late, ""};
    if (!letters_.empty()) posted();
    pause();
  }
}

void MpiLink::gather(const void* mine, void* all, int bytes) {
  lanes_->requests.assign(1, MPI_REQUEST_NULL);
  check(MPI_Iallgather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, lanes_->comm[0],
                       lanes_->requests.data()));
  wait(*lanes_, 0, 1);
}

void MpiLink::share(void* data, int bytes) {
  lanes_->requests.assign(1, MPI_REQUEST_NULL);
  check(MPI_Ibcast(data, bytes, MPI_BYTE, 0, lanes_->comm[0], lanes_->requests.data()));
  wait(*lanes_, 0, 1);
}

void MpiLink::exchange(const void* out, i64 out_bytes, int to, void* in, i64 in_bytes, int from,
                       const Arrived& arrived, Lane lane) {
  const MPI_Comm comm = lanes_->comm[int(lane)];
  std::vector<MPI_Request>& r = lanes_->requests;
  const size_t parts = size_t((in_bytes + kPart - 1) / kPart);
  r.assign(parts + size_t((out_bytes + kPart - 1) / kPart), MPI_REQUEST_NULL);
  size_t next = 0;
  for (i64 at = 0; at < in_bytes; at += kPart)
    check(MPI_Irecv(static_cast<char*>(in) + at, int(std::min(kPart, in_bytes - at)), MPI_BYTE,
                    from, kData, comm, &r[next++]));
  for (i64 at = 0; at < out_bytes; at += kPart)
    check(MPI_Isend(static_cast<const char*>(out) + at, int(std::min(kPart, out_bytes - at)),
                    MPI_BYTE, to, kData, comm, &r[next++]));
  for (size_t p = 0; p < parts; ++p) {
    wait(*lanes_, p, 1);
    const i64 at = i64(p) * kPart;
    if (arrived) arrived(at, std::min(kPart, in_bytes - at));
  }
  wait(*lanes_, parts, r.size() - parts);
}

void MpiLink::relay(void* data, i64 bytes, int from, std::span<const int> to) {
  std::vector<MPI_Request>& r = lanes_->requests;
  const size_t parts = from < 0 ? 0 : size_t((bytes + kPart - 1) / kPart);
  r.assign(parts, MPI_REQUEST_NULL);
  const auto part = [&](i64 at) { return static_cast<char*>(data) + at; };
  for (size_t p = 0; p < parts; ++p) {
    const i64 at = i64(p) * kPart;
    check(MPI_Irecv(part(at), int(std::min(kPart, bytes - at)), MPI_BYTE, from, kData,
                    lanes_->comm[0], &r[p]));
  }
  for (i64 at = 0; at < bytes; at += kPart) {
    if (parts) wait(*lanes_, size_t(at / kPart), 1);
    for (const int rank : to) {
      r.push_back(MPI_REQUEST_NULL);
      check(MPI_Isend(part(at), int(std::min(kPart, bytes - at)), MPI_BYTE, rank, kData,
                      lanes_->comm[0], &r.back()));
    }
  }
  wait(*lanes_, parts, r.size() - parts);
}

void MpiLink::post(int to, const void* label, const void* data, i64 bytes) {
  auto letter = std::make_unique<Letter>();
  std::memcpy(letter->label, label, kLabel);
  letter->bytes.assign(static_cast<const char*>(data), static_cast<const char*>(data) + bytes);
  std::vector<MPI_Request>& r = letter->requests;
  r.assign(1 + size_t((bytes + kPart - 1) / kPart), MPI_REQUEST_NULL);
  const MPI_Comm comm = lanes_->comm[int(Lane::letters)];
  check(MPI_Isend(letter->label, kLabel, MPI_BYTE, to, kLabels, comm, r.data()));
  size_t next = 1;
  for (i64 at = 0; at < bytes; at += kPart)
    check(MPI_Isend(letter->bytes.data() + at, int(std::min(kPart, bytes - at)), MPI_BYTE, to,
                    kData, comm, &r[next++]));
  letters_.push_back(std::move(letter));
}

void MpiLink::read_label(int from, void* label) {
  lanes_->requests.assign(1, MPI_REQUEST_NULL);
  check(MPI_Irecv(label, kLabel, MPI_BYTE, from, kLabels, lanes_->comm[int(Lane::letters)],
                  lanes_->requests.data()));
  wait(*lanes_, 0, 1);
}

bool MpiLink::posted() {
  std::erase_if(letters_, [](const std::unique_ptr<Letter>& l) {
    int done = 0;
    check(MPI_Testall(int(l->requests.size()), l->requests.data(), &done, MPI_STATUSES_IGNORE));
    return done != 0;
  });
  return letters_.empty();
}

void MpiLink::wait_posted() {
  Pause pause;
  while (!posted()) {
    if (pulse_ && pulse_->failed()) throw Stopped{Stopped::failed, ""};
    if (PulseClock::now() > deadline_) throw Stopped{Stopped::late, ""};
    pause();
  }
}

}  // namespace wt::dist
#endif
