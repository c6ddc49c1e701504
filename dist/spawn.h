// Ranks as threads of this process, with no launcher.
//
//   dist::spawn(4, [](dist::Communicator& comm) {
//     manual_seed(7);                              // the same weights on every rank
//     Net net;
//     optim::Sgd opt{net, {.lr = 0.1}};
//     dist::DataParallel ranks{net, opt, comm};
//     ...
//   });
#pragma once
#include <functional>
#include <memory>

#include "warptape/dist/local.h"

namespace wt::dist {

// Which communicators spawn() makes.
struct SpawnOptions {
  LocalOptions local = {};  // of the world whose ranks the threads are
  // Makes what fn gets in the place of the local communicator, on the rank's thread: one with
  // faults around it (dist/fault.h), or another backend that meets through it. Empty: that itself.
  std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator> local)> wrap = {};
};

// Calls fn on `ranks` threads at once and returns when all have ended; with one rank on the calling
// thread. Each begins in the caller's mode (default device and dtype, autocast, variants, ...) and
// with the caller's random state, dropout's rank beside it: they draw the same numbers, but for
// dropout. The caller goes on with rank 0's random state, as if it had called fn itself.
//
// A bad label or index is met by one rank: of several, each has a mailbox of its own
// (core/mailbox.h) on every device, threads that it starts with a ModeCopy (a loader's) share it,
// and what it holds when fn returns is thrown.
//
// What fn throws on one rank ends the calls of the others, and is thrown here when all have ended:
// the first one, with its type, not the PeerFailure of those that waited for it; an error of the
// library says which rank it was. Throws UsageError for ranks < 1.
WT_API void spawn(int ranks, const std::function<void(Communicator&)>& fn,
                  SpawnOptions options = {});

}  // namespace wt::dist
