// Ranks that are processes, started by nobody together: no launcher, no MPI.
//
//   auto comm = dist::tcp_world({.rank = 1, .world_size = 4, .address = "node0:29500"});
//
// dist::init() does it for the variables that torchrun sets (dist/init.h). Tensors, threads,
// collectives, their order of adding and the pulse are those of the backend mpi (dist/mpi.h); the
// bytes go over two TCP connections between any two ranks: 2 (n - 1) descriptors a rank and
// communicator. For GPUs it is what NCCL starts with, as control().
//
// Rank 0 listens at all addresses that the name has on its host (an address is one); at all of the
// host's where these are the loopback's alone and the name is not, as a host's own name in its own
// table; with `interfaces` at those that they name alone; and until all ranks are there. Each rank
// listens for the others for that moment too, where it reached rank 0 from. A rank that does not
// come, comes twice, says another world size or has another version of warptape ends the job with
// PeerFailure that names it on all ranks; what is no rank of this job is turned away. Nothing is
// encrypted (SECURITY.md).
#pragma once
#include <chrono>
#include <memory>
#include <string>

#include "warptape/dist/communicator.h"

namespace wt::dist {

// Where the ranks of a world over TCP meet.
struct TcpOptions {
  int rank = -1, world_size = -1;  // this process is `rank` of `world_size`; both must be given
  // Where rank 0 is: "node0:29500", "192.0.2.7:29500", "[2001:db8::7]:29500". Its name may be known
  // later than it is first asked for (10 s), and rank 0 may come later than the others.
  std::string address = {};
  // How long a rank waits for the others, here and in each call.
  std::chrono::milliseconds deadline = std::chrono::seconds(120);
  // Where ranks listen, instead: interfaces, addresses or IPv4 subnets of theirs, separated by
  // commas ("eth0", "10.0.0.0/8", "0.0.0.0/0"); for an address that is a forwarded one.
  std::string interfaces = {};
  // What the processes of this job say in their greeting, up to 63 bytes: those that say something
  // else are turned away.
  std::string job = {};
  // Rank 0 takes the first of so many ports that is free; the others look for it at all of them. 1
  // to 64.
  int ports = 1;
};

// The communicator of the calling process in its world; may be called again, for another world.
// Waits for all ranks. Throws UsageError (options; an address that is none of this host; a port in
// use; who listens there is no rank 0), PeerFailure (ranks that did not come within the deadline,
// or do not fit), DeviceError.
WT_API std::unique_ptr<Communicator> tcp_world(TcpOptions options, Frame at = Frame::here());

}  // namespace wt::dist
