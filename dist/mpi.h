// Ranks that are processes, started by mpirun or srun.
//
//   auto comm = dist::mpi_world();     // mpirun -n 4 program
//
// Tensors are of cpu and simt. What was begun runs on a thread of the communicator's own, beside
// the rank's; work that a device has queued (simt with WT_SIMT_STREAMS=lazy) is waited for when a
// call begins. MPI moves bytes from rank to rank, and warptape adds them up, in an order that the
// number of ranks and the size fix: the bits are the same on every rank, in every run and with
// every MPI.
//
// Before any data each collective exchanges 256 bytes a rank: what is called (ranks that differ are
// named on all of them), and the data itself where that is not larger than 224 bytes.
//
// Beside MPI, whose calls hang when a peer is gone, the ranks keep a TCP connection to rank 0 each
// (the pulse): a rank that died, hangs, comes too late or cannot be reached is named to all others
// within 5 s of its death, or of the deadline. What MPI had begun is then left alone, and its
// MPI_Finalize is not called.
#pragma once
#include <chrono>
#include <memory>
#include <string>

#include "warptape/dist/communicator.h"

namespace wt::dist {

// How a rank joins the job.
struct MpiOptions {
  // The communicator's first deadline(); the ranks have to come within it too. At least 1 ms.
  std::chrono::milliseconds deadline = std::chrono::seconds(120);
  // Where rank 0 listens while the job starts: interfaces, addresses or IPv4 subnets, separated by
  // commas ("eth0", "10.0.0.0/8"). Empty: what Open MPI is told in OMPI_MCA_btl_tcp_if_include,
  // else every address of the host; the loopback alone where all ranks are on one host.
  std::string interfaces = {};
};

// Makes the communicator of all ranks of the job, of which the calling process is one. All
// processes call it together. MPI is started by the first call, with MPI_THREAD_MULTIPLE, and
// finalized when the process ends with status 0, unless the program does both itself. Throws
// NotAvailable (this build has no MPI, or MPI has no threads), UsageError (options), PeerFailure
// (ranks that did not come within the deadline).
WT_API std::unique_ptr<Communicator> mpi_world(MpiOptions options = {}, Frame at = Frame::here());

// The MPI that this build has, in its own words: "Open MPI v4.1.4, ..."; empty where this build has
// none.
WT_API std::string mpi_library();

}  // namespace wt::dist
