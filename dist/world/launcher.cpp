#include "warptape/dist/launcher.h"

#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "warptape/core/str.h"

namespace wt::dist {

namespace {

// The first of these variables that has a number; -1: none has.
template <size_t N>
int number_of(const char* const (&names)[N]) {
  for (const char* name : names) {
    const char* const text = std::getenv(name);
    int v = -1;
    if (text && std::from_chars(text, text + std::strlen(text), v).ec == std::errc() && v >= 0)
      return v;
  }
  return -1;
}

}  // namespace

bool launched_by_mpi() {
  // Open MPI, MPICH and Intel MPI, MVAPICH2, PMIx
  constexpr const char* kRanks[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK",
                                    "PMIX_RANK"};
  if (number_of(kRanks) >= 0) return true;
  // A shell of salloc or sbatch has Slurm's variables too, and is no rank: it has no step.
  constexpr const char* kTask[] = {"SLURM_PROCID"};
  constexpr const char* kTasks[] = {"SLURM_STEP_NUM_TASKS"};
  return number_of(kTask) >= 0 && number_of(kTasks) > 1;
}

int launcher_local_rank() {
  constexpr const char* kNames[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                    "MV2_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"};
  return launched_by_mpi() ? number_of(kNames) : -1;
}

int launcher_local_size() {
  constexpr const char* kNames[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                                    "MV2_COMM_WORLD_LOCAL_SIZE"};
  return launched_by_mpi() ? number_of(kNames) : -1;
}

int launcher_size() {
  constexpr const char* kNames[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
                                    "SLURM_STEP_NUM_TASKS"};
  return launched_by_mpi() ? number_of(kNames) : -1;
}

std::string host_name() {
  char name[64] = {};
  return ::gethostname(name, sizeof name - 1) == 0 && name[0] ? name : "localhost";
}

std::string host_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return str(host_name(), " ", boot);
}

std::string network_identity() {
  struct stat s {};
  const bool known = ::stat("/proc/self/ns/net", &s) == 0;
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return str(boot.empty() ? host_name() : boot, " ", known ? s.st_ino : 0);
}

}  // namespace wt::dist
