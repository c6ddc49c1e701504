#include "warptape/dist/launcher.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "warptape/core/error.h"
#include "warptape/core/input_file.h"
#include "warptape/dist/mpi.h"
#include "warptape/dist/tcp.h"

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

namespace {

const char* set_or_null(const char* name) {
  const char* const text = std::getenv(name);
  return text && *text ? text : nullptr;
}

// RANK alone is a word that anybody may have taken.
bool has_torchrun_variables() {
  if (!set_or_null("RANK") || !set_or_null("WORLD_SIZE")) return false;
  return set_or_null("MASTER_ADDR") || set_or_null("MASTER_PORT") ||
         std::strcmp(set_or_null("WORLD_SIZE"), "1") != 0;
}

}  // namespace

Launcher launcher() {
  const bool mpi = launched_by_mpi();
  if (!has_torchrun_variables()) return mpi ? Launcher::mpi : Launcher::none;
  if (!mpi || set_or_null("TORCHELASTIC_RUN_ID") || mpi_library().empty())
    return Launcher::torchrun;
  return Launcher::mpi;
}

namespace {

// Numbers and words of variables, and all that is wrong with them.
class Variables {
 public:
  int number(const char* name, int least, int most, const char* why = "") {
    const char* const text = set_or_null(name);
    if (!text) {
      missing(name);
      return -1;
    }
    int v = -1;
    const char* const end = text + std::strlen(text);
    const auto [last, error] = std::from_chars(text, end, v);
    if (error != std::errc() || last != end || v < least || v > most)
      add(str(name, " must be a number from ", least, " to ", most, why, ", got '", printable(text),
              "'"));
    return v;
  }
  std::string word(const char* name) {
    const char* const text = set_or_null(name);
    if (!text) missing(name);
    return text ? text : "";
  }
  const std::string& wrong() const { return wrong_; }

 private:
  void missing(const char* name) { add(str(name, " is not set")); }
  void add(const std::string& what) { wrong_ += (wrong_.empty() ? "" : "; ") + what; }
  std::string wrong_;
};

// torchrun's own store may have MASTER_PORT: the ranks meet at one of those behind it. Two jobs of
// a host may look at the same ones, and both may be of torchrun's id "none": the store's port,
// which one of them alone has, tells them apart. (MASTER_ADDR may be spelt in two ways, and the
// count of restarts is that of one agent.)
void take_address(TcpOptions& o, Variables& variables) {
  constexpr int kPorts = 8;
  const char* const store = set_or_null("TORCHELASTIC_USE_AGENT_STORE");
  const bool behind = store && std::strcmp(store, "True") == 0;
  const int port =
      variables.number("MASTER_PORT", 1, behind ? 65534 : 65535,
                       behind ? " (torchrun's store has it, the ranks meet behind it)" : "");
  const std::string host = variables.word("MASTER_ADDR");
  const bool v6 = host.find(':') != host.npos && host[0] != '[';
  o.address = str(v6 ? "[" : "", host, v6 ? "]:" : ":", behind ? port + 1 : port);
  o.ports = behind ? std::min(kPorts, 65535 - port) : 1;
  const char* const id = set_or_null("TORCHELASTIC_RUN_ID");
  if (id && o.job.empty()) o.job = str(std::string(id).substr(0, 48), ".", port);
}

}  // namespace

TcpOptions torchrun_options(TcpOptions o) {
  const bool told = o.rank >= 0 || o.world_size >= 0 || !o.address.empty();
  constexpr int kMost = 1 << 20;
  Variables variables;
  if (o.rank < 0) o.rank = variables.number("RANK", 0, kMost);
  if (o.world_size < 0) o.world_size = variables.number("WORLD_SIZE", 1, kMost);
  if (o.address.empty() && o.world_size != 1) take_address(o, variables);
  if (!variables.wrong().empty())
    throw UsageError(
        str("[init] of torchrun's variables ", variables.wrong(),
            told ? "\n  Try the options rank, world_size and address, each in place of its own"
                 : "\n  Try unset RANK WORLD_SIZE, where this is the only process"));
  return o;
}

int launcher_local_rank() {
  constexpr const char* kNames[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                    "MV2_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"};
  constexpr const char* kTorchrun[] = {"LOCAL_RANK"};
  const Launcher by = launcher();
  return by == Launcher::none ? -1 : by == Launcher::mpi ? number_of(kNames) : number_of(kTorchrun);
}

int launcher_local_size() {
  constexpr const char* kNames[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                                    "MV2_COMM_WORLD_LOCAL_SIZE"};
  constexpr const char* kTorchrun[] = {"LOCAL_WORLD_SIZE"};
  const Launcher by = launcher();
  return by == Launcher::none ? -1 : by == Launcher::mpi ? number_of(kNames) : number_of(kTorchrun);
}

int launcher_size() {
  constexpr const char* kNames[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
                                    "SLURM_STEP_NUM_TASKS"};
  constexpr const char* kTorchrun[] = {"WORLD_SIZE"};
  const Launcher by = launcher();
  return by == Launcher::none ? -1 : by == Launcher::mpi ? number_of(kNames) : number_of(kTorchrun);
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
