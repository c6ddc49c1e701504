// Bytes that go from the host to a device, counted on the way.
#pragma once
#include "warptape/core/device.h"
#include "warptape/core/types.h"

namespace wt::bench {

// From now on copies to devices of this kind are counted, for the rest of the process. Streams made
// before are forgotten: call it first.
void count_copies(Device d);
// Of all of them, from every thread. 0 on cpu, where nothing is sent.
i64 copied_to_device();

}  // namespace wt::bench
