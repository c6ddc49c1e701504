// Calls of backends whose collectives the host carries out (local, mpi, tcp), as nodes of a
// graph (core/graph.h). Internal.
#pragma once
#include "warptape/dist/communicator.h"

namespace wt::dist {

// The call belongs into the graph that this thread records. Throws UsageError for what none can
// hold: a barrier, memory of another device than the graph's.
bool goes_into_graph(const Call& call);

// Two nodes: each replay begins the call when it comes to the first one, and waits where the Work
// was waited for, so that it runs beside what lies between them. The communicator outlives the
// graph. Only inside of a capture; the Work is waited for there.
Work record_call(Communicator& comm, const Call& call);

// Throws UsageError inside of a capture: a call that was begun outside of it is waited for.
void refuse_wait_in_graph();

}  // namespace wt::dist
