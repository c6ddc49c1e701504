// What you write in async.cpp. The lab's checks call these functions and nothing else.
#pragma once
#include <functional>
#include <vector>

#include "warptape/core/device.h"
#include "warptape/core/tensor.h"

namespace honest {

using wt::Device;
using wt::i64;
using wt::Tensor;

// --- 1. Time ---

// Seconds since some moment, as any clock of the host gives them.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual double now() = 0;
};

// Calls work() `warm_up` times, then `runs` times; work() queues something on the current stream of
// `device`. Returns the seconds that one of the latter takes, from queueing the first to the end of
// the last, divided by `runs`. The clock is read twice. The host waits once before the first
// reading and once before the second.
double seconds_per_run(const std::function<void()>& work, Device device, int warm_up, int runs,
                       Clock& clock);

// --- 2. A loop that tells its loss ---

// Calls step() `steps` times. It queues a training step and returns the loss, one f32 on the
// device; it may give the same tensor each time, written anew. Returns the mean loss of each
// `every` steps, of the last window over as many as there are (`every` is 1 or more). The host
// waits at most once a window.
std::vector<double> mean_losses(const std::function<Tensor()>& step, int steps, int every);

// --- 3. Whose error is it? ---

// Calls the launches in order, each of which queues something on the current stream of `device`. At
// most one of them is faulty: kernels report what they met, and the host hears of it (wt::Error)
// by a later wait. Returns its index, -1 if all are well. Errors of work that was queued before
// this call are dropped: they say nothing about the launches.
i64 culprit(const std::vector<std::function<void()>>& launches, Device device);

}  // namespace honest
