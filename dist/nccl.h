// The backend `nccl`: a GPU a rank, over NVIDIA's library, which is looked for when the program
// runs
// (`wt info` says which one was found; NCCL 2.18 or later).
//
//   auto comm = dist::nccl_communicator(control, Device::cuda(local_rank));
//   comm->all_reduce(gradients, dist::ReduceOp::mean);   // the host goes on at once
//
// Calls run on a stream of the communicator's own, after what was queued on the current stream when
// they began. Work::wait() makes the current stream wait; the host waits in barrier() alone. So a
// rank that fails is heard of by the next call, by done(), or by barrier(): a thread beside watches
// the clock, NCCL's asynchronous errors and `control`. Then kernels that wait for the lost rank are
// aborted (ncclCommAbort), so that a host that waits for the device goes on, and throws at its next
// call.
//
// Sends and receives that follow each other are one group, which begins at the first wait() or
// done() of one of them, at the next collective, or at barrier(): two ranks that send to each other
// begin both (start_send, start_recv) and wait then. A send that is waited for first, on both
// sides, never ends unless NCCL's own buffers hold it.
//
// Values: sums of f16 and bf16 are NCCL's. The order of a sum is fixed for a topology, a size and a
// version of NCCL; it is not that of the backend `local`.
//
// In a graph (core/graph.h) calls are nodes of it: each Work is waited for inside. All ranks
// capture the same calls, or none of them does. replay() watches the clock of a replay, what it
// computes included; of one that is launched without it nobody does. A rank that dies or gives up
// is heard of all the same.
//
// Environment: NCCL_* is NCCL's own and passed through. WT_NCCL=FILE takes that library,
// WT_NCCL=off none.
#pragma once
#include <chrono>
#include <memory>
#include <string>

#include "warptape/dist/communicator.h"

namespace wt::dist {

// How nccl_communicator() connects, watches and gives up.
struct NcclOptions {
  // Two ranks on one GPU are refused, unless this is set or NCCL_MULTI_RANK_GPU_ENABLE=1: NCCL
  // itself takes them from 2.30 on, and with that variable alone.
  bool share_device = false;
  // A world of one rank asks NCCL too; else it needs none.
  bool always = false;
  // Ranks compare what each collective is (kind, dtype, count) over `control` before it begins, and
  // a difference is a PeerFailure that names both. The host waits for the others at every call.
  bool check_calls = false;
  // The first deadline(); making the communicator has it too.
  std::chrono::milliseconds deadline = std::chrono::seconds(120);
  // How long ncclCommAbort and ncclCommDestroy may take. Then their thread is left behind.
  std::chrono::milliseconds give_up = std::chrono::seconds(10);
};

// Connects the ranks of `control` by NCCL: every one calls it, with a cuda device of its own.
// `control` outlives the result, gets its deadlines, and nobody else calls it meanwhile. Waits for
// all. Throws NotAvailable (no NCCL, one too old or of another version, or no such cuda device, on
// some rank), PlacementError (not a cuda device), UsageError (two ranks on one), DeviceError (NCCL
// cannot connect), PeerFailure.
WT_API std::unique_ptr<Communicator> nccl_communicator(Communicator& control, Device device,
                                                       const NcclOptions& options = {});

// Connects in the same way, with a control that the result keeps.
WT_API std::unique_ptr<Communicator> nccl_communicator(std::unique_ptr<Communicator> control,
                                                       Device device,
                                                       const NcclOptions& options = {});

// One line for a log: NCCL's version and file. NCCL has no call that tells which transport it
// took; it writes that to its own log under NCCL_DEBUG=INFO, and the line says so.
WT_API std::string describe_transport(const Communicator& nccl);

}  // namespace wt::dist
