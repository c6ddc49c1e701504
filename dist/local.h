// Ranks that are threads of one process.
//
//   auto world = dist::local_world(4);              // a communicator a rank
//   std::thread t([&] { world[1]->barrier(); });    // each for a thread of its own
//
// dist/spawn.h starts the threads too. Tensors are of cpu and simt. What was begun runs on a thread
// of the communicator's own, beside the rank's; with one rank everything is done at once. Work that
// a device has queued (simt with WT_SIMT_STREAMS=lazy) is waited for when a call begins.
//
// One rank's end while others wait for it, an abort, calls that differ and a passed deadline make
// all of them throw PeerFailure.
#pragma once
#include <chrono>
#include <memory>
#include <vector>

#include "warptape/dist/communicator.h"

namespace wt::dist {

// Who adds what to what in a reduction, and who passes it on. The order is fixed by the algorithm,
// the number of ranks and the size, so that the bits are the same in every run.
enum class Algorithm : u8 {
  automatic,  // tree up to 64 KiB, ring above
  ring,   // each rank reduces a part; 2(n-1)/n of the bytes over each link, 2(n-1) messages long
  tree,   // binomial; all bytes over each link, 2 log2(n) messages long
  chain,  // rank by rank: ((g0 + g1) + g2) + ..., as one process adds up the parts in turn
};
WT_API const char* to_string(Algorithm a);

struct LocalOptions {
  Algorithm algorithm = Algorithm::automatic;
  std::chrono::milliseconds deadline = std::chrono::seconds(120);
};

// The communicators of n ranks. Throws UsageError for n < 1. Each ends when it is destroyed; what
// others wait for it then fails.
WT_API std::vector<std::unique_ptr<Communicator>> local_world(int n, LocalOptions options = {},
                                                              Frame at = Frame::here());

}  // namespace wt::dist
