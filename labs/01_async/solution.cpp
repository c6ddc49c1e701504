#include "async.h"

#include <algorithm>
#include <optional>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/async_copy.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/core/stream.h"

namespace honest {

using namespace wt;

double seconds_per_run(const std::function<void()>& work, Device device, int warm_up, int runs,
                       Clock& clock) {
  const Stream stream = Stream::current(device);
  for (int i = 0; i < warm_up; ++i) work();
  stream.synchronize();  // what was queued before is not what is measured
  const double begin = clock.now();
  for (int i = 0; i < runs; ++i) work();
  stream.synchronize();  // not the queueing: the work
  return (clock.now() - begin) / runs;
}

// Sums are made where the losses are. A window's mean comes to the host while the next window is
// under way, and is looked at when that one has been queued.
std::vector<double> mean_losses(const std::function<Tensor()>& step, int steps, int every) {
  const NoGrad no_grad;
  std::vector<double> all;
  std::optional<Tensor> on_its_way;
  Tensor sum;
  for (int i = 0; i < steps; ++i) {
    const Tensor loss = step().detach();
    sum = i % every == 0 ? loss.clone() : sum + loss;
    if ((i + 1) % every != 0 && i + 1 != steps) continue;
    const int count = i % every + 1;
    const Tensor mean = copy_async(sum / double(count), Device::cpu());
    if (on_its_way) all.push_back(on_its_way->item());
    on_its_way = mean;
  }
  if (on_its_way) all.push_back(on_its_way->item());
  return all;
}

i64 culprit(const std::vector<std::function<void()>>& launches, Device device) {
  const Stream stream = Stream::current(device);
  const auto fails = [&](const std::function<void()>& f) {
    try {
      f();
      stream.synchronize();
    } catch (const Error&) {
      return true;
    }
    return false;
  };
  (void)fails([] {});  // what came before
  for (size_t i = 0; i < launches.size(); ++i)
    if (fails(launches[i])) return i64(i);
  return -1;
}

}  // namespace honest
