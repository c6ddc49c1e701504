// A rank of a job in which one rank fails: a hidden case that tests/dist/mpi/mpi_test.sh starts
// under mpirun, and tests/dist/tcp/tcp_test.sh as processes of their own. WT_FAULT=how,
// WT_FAULT_RANK, WT_FAULT_CALL, WT_FAULT_DEADLINE (ms), WT_FAULT_FILE: where the failing rank
// leaves the time. WT_FAULT_GROUP=1: in a group of all, whose ranks are reversed; the failing one
// is the job's. Each survivor prints a line and exits with PeerFailure's code.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/dist/init.h"
#include "warptape/tests/support/catch.h"

using namespace wt;
using std::chrono::milliseconds;

namespace {

std::string setting(const char* name, const char* unset) {
  const char* const v = std::getenv(name);
  return v ? v : unset;
}

i64 now_ms() {
  return std::chrono::duration_cast<milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void leave_time() { std::ofstream(setting("WT_FAULT_FILE", "/dev/null")) << now_ms() << std::endl; }

i64 since_fault() {
  i64 then = now_ms();
  std::ifstream(setting("WT_FAULT_FILE", "/dev/null")) >> then;
  return now_ms() - then;
}

struct Broken {};

// What the failing rank does instead of its call; true: it makes the call all the same.
bool fail_by(const std::string& how, dist::Communicator& comm, milliseconds deadline) {
  const Tensor t = zeros({100});
  leave_time();
  if (how == "kill") ::raise(SIGKILL);
  if (how == "exit") ::_exit(3);
  if (how == "hang") ::raise(SIGSTOP);
  if (how == "late") std::this_thread::sleep_for(deadline + milliseconds(2500));
  if (how == "abort") comm.abort("no more disk");
  if (how == "throw") throw Broken();
  if (how == "kind") comm.all_gather(zeros({100 * comm.size()}), t);
  if (how == "op") comm.all_reduce(t, dist::ReduceOp::max);
  if (how == "dtype") comm.all_reduce(zeros({100}, {.dtype = DType::i32}));
  if (how == "count") comm.all_reduce(zeros({101}));
  if (how == "letter") {
    comm.send(t, (comm.rank() + 1) % comm.size());
    while (!comm.failed()) std::this_thread::sleep_for(milliseconds(1));  // or it would have left
  }
  if (how == "leave") return false;
  return how == "late" || how == "abort" || how == "hang";
}

// The others' calls, by number: small and large, in the wait of which the failure falls.
void call(dist::Communicator& comm, i64 i) {
  if (i % 4 == 1) {
    const Tensor all = zeros({comm.size() * 300000});
    return comm.all_gather(all, zeros({300000}));
  }
  comm.all_reduce(zeros({i % 4 == 3 ? 700000 : 100}));
}

void work(dist::Communicator& comm, int rank_of_job) {
  const std::string how = setting("WT_FAULT", "none");
  const int rank = std::stoi(setting("WT_FAULT_RANK", "1"));
  const i64 at = std::stoll(setting("WT_FAULT_CALL", "0"));
  for (i64 i = 0; i < at + 60; ++i) {
    if (i == 20) {
      std::printf("RANK %d works\n", rank_of_job);
      std::fflush(stdout);
    }
    comm.at_step(i);
    if (i == at && rank_of_job == rank && how != "none" && !fail_by(how, comm, comm.deadline()))
      return;
    if (how == "letter" && i == at && comm.rank() == (rank + 1) % comm.size())
      comm.recv(zeros({99}), rank);
    else
      call(comm, i);
  }
}

}  // namespace

TEST_CASE("ranks: one of them fails", "[.][rank_fault]") {
  const milliseconds deadline(std::stoll(setting("WT_FAULT_DEADLINE", "60000")));
  int rank = -1;
  try {
    // Long enough for a slow machine to start; the calls have the deadline.
    const auto comm = dist::init({.deadline = milliseconds(60000)});
    rank = comm->rank();
    comm->barrier();
    comm->set_deadline(deadline);
    const bool grouped = setting("WT_FAULT_GROUP", "0") == "1";
    const auto group = grouped ? comm->split(0, -rank) : nullptr;
    work(group ? *group : *comm, rank);
  } catch (const PeerFailure& e) {
    const i64 ms = since_fault();
    std::printf("RANK %d failed=%d step=%lld ms=%lld %s\n", rank, e.rank, e.last_step,
                static_cast<long long>(ms), e.what());
    std::fflush(stdout);
    std::exit(e.exit_code());
  } catch (const Broken&) {
    std::printf("RANK %d broken\n", rank);
    std::fflush(stdout);
    std::exit(1);
  }
  std::printf("RANK %d done\n", rank);
}
