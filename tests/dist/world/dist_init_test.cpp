#include "warptape/dist/init.h"

#include <stdlib.h>

#include <map>
#include <optional>

#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/dist/launcher.h"
#include "warptape/dist/mpi.h"
#include "warptape/dist/spawn.h"
#include "warptape/dist/tcp.h"
#include "warptape/tests/dist/tcp/tcp_threads.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/values.h"

using namespace wt;
using namespace std::chrono_literals;
using dist::GpusOfRank;

namespace {

constexpr const char* kVariables[] = {"OMPI_COMM_WORLD_RANK",
                                      "OMPI_COMM_WORLD_SIZE",
                                      "OMPI_COMM_WORLD_LOCAL_RANK",
                                      "OMPI_COMM_WORLD_LOCAL_SIZE",
                                      "PMI_RANK",
                                      "PMI_SIZE",
                                      "PMIX_RANK",
                                      "MPI_LOCALRANKID",
                                      "MPI_LOCALNRANKS",
                                      "MV2_COMM_WORLD_RANK",
                                      "MV2_COMM_WORLD_LOCAL_RANK",
                                      "SLURM_PROCID",
                                      "SLURM_NTASKS",
                                      "SLURM_STEP_NUM_TASKS",
                                      "SLURM_LOCALID",
                                      "RANK",
                                      "WORLD_SIZE",
                                      "LOCAL_RANK",
                                      "LOCAL_WORLD_SIZE",
                                      "MASTER_ADDR",
                                      "MASTER_PORT",
                                      "TORCHELASTIC_RUN_ID",
                                      "TORCHELASTIC_RESTART_COUNT",
                                      "TORCHELASTIC_USE_AGENT_STORE"};

// The environment of a process that a launcher started, for a test.
class Launched {
 public:
  explicit Launched(const std::map<std::string, std::string>& values) {
    for (const char* name : kVariables) {
      const char* const v = std::getenv(name);
      if (v) before_[name] = v;
      ::unsetenv(name);
    }
    for (const auto& [name, value] : values) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Launched() {
    for (const char* name : kVariables) ::unsetenv(name);
    for (const auto& [name, value] : before_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  Launched(const Launched&) = delete;

 private:
  std::map<std::string, std::string> before_;
};

}  // namespace

TEST_CASE("dist::init alone is a world of one") {
  const Launched alone({});
  CHECK(!dist::launched_by_mpi());
  CHECK(dist::local_rank() == 0);
  CHECK(dist::local_size() == 1);
  const auto comm = dist::init({.deadline = 7s});
  CHECK(comm->size() == 1);
  CHECK(comm->rank() == 0);
  CHECK(comm->deadline() == 7s);
  const Tensor t = full({3}, 2.0);
  comm->all_reduce(t, dist::ReduceOp::mean);
  CHECK(values(t) == Values{2, 2, 2});
}

TEST_CASE("dist::init: what launchers say of a process") {
  {
    const Launched mpirun({{"OMPI_COMM_WORLD_RANK", "5"},
                           {"OMPI_COMM_WORLD_SIZE", "8"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}});
    CHECK(dist::launched_by_mpi());
    CHECK(dist::local_rank() == 1);
    CHECK(dist::local_size() == 4);
    CHECK_THROWS_AS(dist::init({.backend = dist::Backend::local}), UsageError);
  }
  {
    const Launched hydra({{"PMI_RANK", "0"}, {"MPI_LOCALRANKID", "0"}});
    CHECK(dist::launched_by_mpi());
    CHECK(dist::local_rank() == 0);
    CHECK(dist::local_size() == -1);
  }
  {
    const Launched srun(
        {{"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_LOCALID", "3"}});
    CHECK(dist::launched_by_mpi());
    CHECK(dist::local_rank() == 3);
  }
  {  // the shell of a job of four tasks, which no srun has started yet
    const Launched shell({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "0"}});
    CHECK(!dist::launched_by_mpi());
    CHECK(dist::init()->size() == 1);
  }
  const Launched nonsense({{"OMPI_COMM_WORLD_RANK", "-1"}, {"PMI_RANK", "x"}});
  CHECK(!dist::launched_by_mpi());
}

TEST_CASE("dist::init: torchrun's variables") {
  const std::map<std::string, std::string> four = {
      {"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}};
  const auto with = [&](std::map<std::string, std::string> more) {
    more.insert(four.begin(), four.end());
    return more;
  };
  {
    const Launched by(with({{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}}));
    CHECK(dist::launcher() == dist::Launcher::torchrun);
    CHECK(dist::local_rank() == 1);
    CHECK(dist::local_size() == 2);
    CHECK(dist::launcher_size() == 8);
    const dist::TcpOptions o = dist::torchrun_options({});
    CHECK(o.rank == 3);
    CHECK(o.world_size == 8);
    CHECK(o.address == "node0:29500");
    CHECK(o.ports == 1);
    CHECK(o.job == "");
    CHECK_THROWS_AS(dist::init({.backend = dist::Backend::local}), UsageError);
  }
  {  // its own store has the port
    const Launched by(with({{"MASTER_ADDR", "::1"},
                            {"TORCHELASTIC_RUN_ID", std::string(100, 'x')},
                            {"TORCHELASTIC_RESTART_COUNT", "2"},
                            {"TORCHELASTIC_USE_AGENT_STORE", "True"}}));
    const dist::TcpOptions o = dist::torchrun_options({});
    CHECK(o.address == "[::1]:29501");
    CHECK(o.ports == 8);
    CHECK(o.job == std::string(48, 'x') + ".29500");  // restarts are counted by each agent
    CHECK(dist::torchrun_options({.job = "mine"}).job == "mine");
    CHECK(dist::local_rank() == -1);
  }
  {  // there is no port behind the store's
    const Launched by(with({{"MASTER_PORT", "65535"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}}));
    CHECK(mentions(message_of([] { dist::init(); }),
                   "MASTER_PORT must be a number from 1 to 65534 (torchrun's store has it, the "
                   "ranks meet behind it), got '65535'"));
  }
  // The inner one of two launchers.
  const std::map<std::string, std::string> srun = {{"SLURM_PROCID", "3"},
                                                   {"SLURM_STEP_NUM_TASKS", "4"}};
  {
    auto both = with(srun);
    const Launched by(both);
    CHECK((dist::launcher() == dist::Launcher::mpi) == !dist::mpi_library().empty());
  }
  {
    auto both = with(srun);
    both["TORCHELASTIC_RUN_ID"] = "a";
    const Launched by(both);
    CHECK(dist::launcher() == dist::Launcher::torchrun);
  }
  {  // words that anybody may have taken
    const Launched by({{"RANK", "3"}, {"WORLD_SIZE", "1"}});
    CHECK(dist::launcher() == dist::Launcher::none);
    CHECK(dist::init()->size() == 1);
  }
  const Launched by({{"RANK", "x"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "70000"}});
  CHECK(message_of([] { dist::init(); }) ==
        "UsageError: [init] of torchrun's variables RANK must be a number from 0 to 1048576, got "
        "'x'; MASTER_PORT must be a number from 1 to 65535, got '70000'; MASTER_ADDR is not "
        "set\n  Try unset RANK WORLD_SIZE, where this is the only process");
}

TEST_CASE("dist::init: a world at an address, by options and by variables") {
  const wt::u16 port = wt_test::free_port();
  const Launched by({{"RANK", "1"},
                     {"WORLD_SIZE", "2"},
                     {"MASTER_ADDR", "127.0.0.1"},
                     {"MASTER_PORT", str(int(port))}});
  double sums[2] = {};
  const auto run = [&](dist::InitOptions o) {
    o.deadline = 60s;
    const auto comm = dist::init(o);
    const Tensor t = full({1}, double(comm->rank() + 1));
    comm->all_reduce(t);
    sums[comm->rank()] = std::string(comm->backend()) == "tcp" ? t.item<double>() : -1;
  };
  std::thread first([&] { run({.rank = 0, .world_size = 2, .address = wt_test::loopback(port)}); });
  run({});
  first.join();
  CHECK(sums[0] == 3);
  CHECK(sums[1] == 3);
  const Launched alone({});
  CHECK_THROWS_AS(dist::init({.backend = dist::Backend::local, .rank = 0, .world_size = 1}),
                  UsageError);
  CHECK_THROWS_AS(dist::init({.rank = 0, .world_size = 2}), UsageError);
  CHECK_THROWS_AS(dist::init({.backend = dist::Backend::tcp}), UsageError);
  CHECK(dist::init({.rank = 0, .world_size = 1})->size() == 1);
}

TEST_CASE("dist::init: each variable is read where its option is missing, and only there") {
  const std::string port = str(int(wt_test::free_port()));
  const auto sum_of_two = [](const dist::InitOptions& a, const dist::InitOptions& b) {
    double sums[2] = {};
    const auto run = [&](dist::InitOptions o) {
      o.deadline = 60s;
      const auto comm = dist::init(o);
      const Tensor t = full({1}, double(comm->rank() + 1));
      comm->all_reduce(t);
      sums[comm->rank()] = t.item<double>();
    };
    std::thread other([&] { run(b); });
    run(a);
    other.join();
    return sums[0] == 3 && sums[1] == 3;
  };
  {  // a script of Slurm's says where, the program says who
    const Launched by({{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}, {"RANK", "x"}});
    CHECK(sum_of_two({.rank = 0, .world_size = 2}, {.rank = 1, .world_size = 2}));
    CHECK(mentions(message_of([] { dist::init({.rank = 0}); }),
                   "UsageError: [init] of torchrun's variables WORLD_SIZE is not set\n  Try the "
                   "options rank, world_size and address, each in place of its own"));
  }
  {  // the other half
    const Launched by({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "x"}});
    const std::string at = "127.0.0.1:" + port;
    CHECK(sum_of_two({.address = at}, {.rank = 1, .address = at}));
    CHECK(mentions(message_of([] { dist::init({.rank = 1}); }),
                   "variables MASTER_PORT must be a number from 1 to 65535, got 'x'; MASTER_ADDR "
                   "is not set"));
  }
  const Launched one({{"RANK", "0"}, {"MASTER_PORT", "x"}});
  CHECK(dist::init({.world_size = 1})->size() == 1);  // which meets nobody
}

TEST_CASE("dist::init: two of torchrun's jobs on a host, whose ports overlap, do not mix") {
  const int port = wt_test::free_port();
  const auto options = [&](int job, int rank) {
    const Launched by({{"RANK", str(rank)},
                       {"WORLD_SIZE", "2"},
                       {"MASTER_ADDR", "127.0.0.1"},
                       {"MASTER_PORT", str(port + job)},
                       {"TORCHELASTIC_RUN_ID", "none"},
                       {"TORCHELASTIC_RESTART_COUNT", str(rank)},
                       {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
    dist::TcpOptions o = dist::torchrun_options({});
    o.deadline = 60s;
    return o;
  };
  // Rank 1 of the first job finds rank 0 of the second one, alone for a while.
  const dist::TcpOptions all[] = {options(1, 0), options(0, 1), options(0, 0), options(1, 1)};
  double sums[4] = {};
  thread_local int self = 0;
  const auto ends = wt_test::tcp_ranks(
      4,
      [&](int i) {
        self = i;
        if (i > 1) std::this_thread::sleep_for(300ms);
        return all[i];
      },
      [&](dist::Communicator& comm) {
        const Tensor t = full({1}, self == 1 || self == 2 ? 1.0 : 10.0);
        comm.all_reduce(t);
        sums[self] = t.item<double>();
      });
  wt_test::check_quiet(ends);
  CHECK(Values(sums, sums + 4) == Values{20, 2, 2, 20});
}

TEST_CASE("dist::init: ranks find out who shares their host") {
  dist::spawn(3, [](dist::Communicator& comm) {
    const dist::LocalPlace place = dist::local_place(comm);
    if (place.rank != comm.rank() || place.size != 3) throw InternalError("not my place");
  });
}

TEST_CASE("dist::init: a GPU a rank") {
  // Two hosts of two GPUs; ranks by turns.
  const GpusOfRank two[] = {{1, 9, 2}, {2, 9, 2}, {1, 9, 2}, {2, 9, 2}};
  CHECK(dist::choose_gpu(two, 4, 0) == 0);
  CHECK(dist::choose_gpu(two, 4, 1) == 0);
  CHECK(dist::choose_gpu(two, 4, 2) == 1);
  CHECK(dist::choose_gpu(two, 4, 3) == 1);
  // The launcher shows each rank one of its own.
  const GpusOfRank own[] = {{1, 7, 1}, {1, 8, 1}};
  CHECK(dist::choose_gpu(own, 2, 0) == 0);
  CHECK(dist::choose_gpu(own, 2, 1) == 0);
  // None anywhere.
  const GpusOfRank none[] = {{1, 9, 0}, {1, 9, 0}};
  CHECK(dist::choose_gpu(none, 2, 1) == -1);
  // Too few, and none on one host: all ranks throw, those with enough, too.
  const GpusOfRank few[] = {{1, 9, 2}, {1, 9, 2}, {1, 9, 2}};
  CHECK_THROWS_AS(dist::choose_gpu(few, 3, 0), PlacementError);
  const GpusOfRank uneven[] = {{1, 9, 1}, {2, 9, 0}};
  CHECK_THROWS_AS(dist::choose_gpu(uneven, 2, 0), PlacementError);
  try {
    dist::choose_gpu(few, 3, 1);
  } catch (const PlacementError& e) {
    CHECK(std::string(e.what()) ==
          "PlacementError: [device_for_rank] a GPU a rank is needed: 3 ranks and 2 GPUs on the "
          "host of rank 0\n  Try fewer ranks a host (mpirun --map-by ppr:2:node), or the device "
          "cpu");
  }
}

TEST_CASE("dist::init: a backend that is not there is named") {
  const Launched alone({});
  CHECK_THROWS_AS(dist::init({.backend = dist::Backend::nccl}), NotAvailable);
}
