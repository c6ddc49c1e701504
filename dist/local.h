// Ranks that are threads of one process.
//
//   auto world = dist::local_world(4);              // a communicator a rank
//   std::thread t([&] { world[1]->barrier(); });    // each for a thread of its own
//
// dist/spawn.h starts the threads too. Tensors are of cpu and simt. What was begun runs on a thread
// of the communicator's own, beside the rank's, and what is waited for at once in the rank's; with
// one rank everything is done at once. What is small (32 KiB, the larger tensor) is carried out for
// all by the last rank to come, with the same bits: a rank sleeps once. A timeline, modelled links
// or an algorithm that is asked for have it sent in messages. Work that
// a device has queued (simt with WT_SIMT_STREAMS=lazy) is waited for when a call begins.
//
// One rank's end while others wait for it, an abort, calls that differ and a passed deadline make
// all of them throw PeerFailure.
#pragma once
#include <chrono>
#include <memory>
#include <vector>

#include "warptape/dist/communicator.h"
#include "warptape/dist/timeline.h"

namespace wt::dist {

// Who adds what to what in a reduction, and who passes it on. The order is fixed by the algorithm,
// the number of ranks and the size, so that the bits are the same in every run. n ranks, a message
// being a chunk of at most 256 KiB; dist/local/local_algorithms.cpp has them in full.
enum class Algorithm : u8 {
  automatic,  // tree up to 32 KiB, ring above; of two ranks in memory always tree
  ring,   // part by part: 2(n-1)/n of the bytes over each link, 2(n-1) messages one after another
  tree,   // in pairs: all bytes over each link, about 2 log2(n) messages one after another
  chain,  // rank by rank: ((g0 + g1) + g2) + ..., as one process adds up its parts in turn
};
// The algorithm's name: "ring".
WT_API const char* to_string(Algorithm a);

// How ranks that are threads exchange bytes.
struct LocalOptions {
  Algorithm algorithm = Algorithm::automatic;  // who sends what to whom
  // How long a rank waits for the others in one call.
  std::chrono::milliseconds deadline = std::chrono::seconds(120);
  // A model of the links, one a direction between any two ranks: a message of b bytes holds its
  // link for b / bandwidth and is there `latency` after that. It is really waited for, by the
  // communicators' threads and on no processor, so that what overlaps with it shows in the time.
  std::chrono::nanoseconds latency{0};
  double bandwidth = 0;  // bytes a second; 0: as fast as memory is
  // Where what happens is written down; null: nowhere, at no cost.
  std::shared_ptr<Timeline> timeline = nullptr;
};

// The communicators of n ranks. Each ends when it is destroyed, after what it has begun; what
// others wait for it then fails. Throws UsageError for n < 1, for a negative latency or bandwidth.
WT_API std::vector<std::unique_ptr<Communicator>> local_world(int n, LocalOptions options = {});

}  // namespace wt::dist
