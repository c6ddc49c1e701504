// Work of the host as a node of a graph, as cudaLaunchHostFunc is one. Internal.
//
// What a device cannot do itself (the collectives of ranks whose memory the host sends) is done by
// the host when a replay comes to it: after the nodes before it, and before those behind it.
#pragma once
#include <functional>

#include "warptape/core/device.h"

namespace wt::detail {

// `work` becomes the next node of the graph of `d` that this thread records. Each
// replay runs it on the thread that replays, and throws what it throws: the nodes behind it do not
// run then. False: nothing is recorded for `d`, or graphs of its kind have no such nodes (cuda).
bool record_host_work(Device d, std::function<void()> work);

// Set by the runtime of a device kind.
using RecordHostWork = void (*)(std::function<void()> work, void* stream);
void set_graph_host_work(DeviceKind k, RecordHostWork f);

}  // namespace wt::detail
