// The process's place among others, whoever started it.
//
//   auto comm = dist::init();                          // mpirun, srun, torchrun, or alone
//   const Device d = dist::device_for_rank(*comm);     // a GPU of its own, or the cpu
//
//   auto comm = dist::init({.rank = 1, .world_size = 4, .address = "node0:29500"});  // by nobody
//
// The same program runs alone (a world of one, which needs no library), on several processes of one
// host and on many hosts. For ranks that are threads there is dist/spawn.h.
#pragma once
#include <chrono>
#include <memory>
#include <string>

#include "warptape/dist/communicator.h"

namespace wt::dist {

// What moves bytes between the ranks.
enum class Backend : u8 {
  automatic,  // under mpirun or srun mpi, else with an address or torchrun's variables tcp, else
              // local
  mpi,        // processes; tensors of cpu and simt (dist/mpi.h)
  local,      // a world of one
  nccl,       // a GPU a rank, with the first that applies of the others as control() (dist/nccl.h)
  tcp,        // processes, without MPI; tensors of cpu and simt (dist/tcp.h)
};
// The backend's name: "tcp".
WT_API const char* to_string(Backend b);

// How the processes of a job find each other.
struct InitOptions {
  Backend backend = Backend::automatic;  // what moves bytes
  // How long a rank waits for the others, here and in each call.
  std::chrono::milliseconds deadline = std::chrono::seconds(120);
  std::string interfaces = {};  // where ranks listen, as MpiOptions and TcpOptions have them
  // The place in a world over TCP, as TcpOptions has it: `rank` of `world_size`. Those that are not
  // given are those of RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which torchrun sets (or a
  // person, for each process).
  int rank = -1, world_size = -1;
  std::string address = {};  // where rank 0 is: "node0:29500"
  std::string job = {};      // what all processes of this job say, up to 63 bytes
};

// The communicator of this process in its job. All processes of a job call it together. Throws
// NotAvailable where mpirun or srun started several processes and this build has no MPI, and for
// `nccl` where there is no GPU, UsageError for `local` in a job of several, for a rank and an
// address of another backend than tcp, and what mpi_world and tcp_world throw.
WT_API std::unique_ptr<Communicator> init(InitOptions options = {}, Frame at = Frame::here());

// This process's number among the job's on this host, as the launcher says: before init(), and
// without asking anybody. 0 where there is no launcher; -1: it does not say.
WT_API int local_rank();
// The number of the job's processes on this host, as the launcher says. 1 where there is no
// launcher; -1: it does not say.
WT_API int local_size();

// A rank's place among the ranks of its host.
struct LocalPlace {
  int rank = 0, size = 1;  // number `rank` of `size`
};
// The place on the host as the ranks themselves find out, by its name and boot. All ranks call it.
WT_API LocalPlace local_place(Communicator& comm);

// The device that this rank's tensors belong on: cuda of its own by its place on the host, so that
// no two ranks share one unasked; cpu where no rank's host has any. A launcher that shows each rank
// its own GPUs alone (CUDA_VISIBLE_DEVICES, srun --gpus-per-task) is understood: it is the first of
// them. All ranks call it. Throws PlacementError on all ranks where a host has fewer GPUs than
// ranks.
WT_API Device device_for_rank(Communicator& comm, Frame at = Frame::here());

// --- internal ---
// What a rank knows of its GPUs.
struct GpusOfRank {
  i64 host = 0;     // the same for ranks of one host
  i64 visible = 0;  // the same for ranks that are shown the same list
  i64 count = 0;    // GPUs that the rank is shown
};
// The GPU's index for rank `rank`, -1 for the cpu; throws as device_for_rank().
WT_API int choose_gpu(const GpusOfRank* ranks, int size, int rank);

}  // namespace wt::dist
