// A whole training step, and what an operator costs to queue.
#pragma once
#include "warptape/bench/gpu/measure.h"

namespace wt::bench {

// mlp_small: 784-512-512-10, ReLU, cross-entropy, batch 128, SGD; the numbers and the check of
// bench/peers. At least 20 steps of warm-up, then windows of `window_s` of wall time, the device
// waited for at their ends.
Row mlp_small_step(Device d, double window_s, int windows);
// add of one element: host time an operator, without and with a gradient recorded.
std::vector<Row> dispatch_rows(Device d);

}  // namespace wt::bench
