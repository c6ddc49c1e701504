// What is queued on all devices, as a graph of operations, and when it runs: when something waits
// for it, or by the seed's choice at a call; nothing runs on its own. Any operation whose
// predecessors are over may be next, so that an order the program forgot to ask for is soon broken.
#pragma once
#include "device/op.h"

namespace emu {

// Queues the operation behind `after` (done ones count for the clocks). Fills in everything but
// device, lane, work and stream; `knows` is what is over besides: the host's knowledge, or nothing.
void submit(const OpRef& op, std::vector<OpRef> after);

// Runs until the operation is done; the host knows it then.
void wait_for(const OpRef& op);
// As a query does: may run something it needs. True: it is done, and the host knows it.
bool poll(const OpRef& op);
// At the end of calls: by the seed's choice some operations run, in `eager` mode all.
void progress();

// The operations that have not run, in the order they were queued.
const std::vector<OpRef>& pending();

u64 newest_serial();
// Null: it is long gone.
const QueuedOp* recent_op(u64 serial);

// The modelled time of the host, in nanoseconds.
double host_time();
void spend_host_time(double nanoseconds);

}  // namespace emu
