#include "warptape/dist/init.h"

#include <stdlib.h>

#include <map>
#include <optional>

#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/dist/launcher.h"
#include "warptape/dist/spawn.h"
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
                                      "SLURM_LOCALID"};

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
