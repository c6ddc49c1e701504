// Communicators whose ranks are processes, over any Link: the collectives, their thread, the pulse.
// Internal.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "warptape/core/error.h"
#include "warptape/dist/communicator.h"
#include "warptape/dist/link.h"

namespace wt::dist {

struct ProcessOptions {
  const char* backend = "";
  std::chrono::milliseconds deadline = std::chrono::seconds(120);
  // Where the rank 0 of a pulse listens, if its link does not know: always, and where ranks are on
  // several hosts.
  std::string interfaces = {}, far_interfaces = {};
};

// Of a link whose ranks have a pulse already; null for one rank.
std::unique_ptr<Communicator> process_communicator(std::unique_ptr<Link> link,
                                                   std::unique_ptr<Pulse> pulse,
                                                   ProcessOptions options);

// Of what make_link makes, and a pulse that is made over it. `name`: the call, for errors. Throws
// PeerFailure where ranks do not come within the deadline.
std::unique_ptr<Communicator> connect_processes(
    const char* name, const ProcessOptions& options,
    const std::function<std::unique_ptr<Link>(PulseClock::time_point until)>& make_link);

// The failure as the call that meets it throws it, with the user's line.
PeerFailure failure_of(const Failure& f, const char* call, FrameId frame);
// Throws what a rank that did not come is told by: "[name] rank 2 on host what".
[[noreturn]] void throw_absent(const char* name, int rank, const std::string& host,
                               const std::string& what);
// Throws UsageError for a deadline below 1 ms.
void check_deadline(const char* name, std::chrono::milliseconds deadline);

}  // namespace wt::dist
