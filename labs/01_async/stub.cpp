// Lab 1: launches are asynchronous. page.md says what is asked, async.h what each function
// promises.
#include "async.h"

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/core/stream.h"

namespace honest {

using namespace wt;

double seconds_per_run(const std::function<void()>& work, Device device, int warm_up, int runs,
                       Clock& clock) {
  (void)device;
  (void)warm_up;
  const double begin = clock.now();
  for (int i = 0; i < runs; ++i) work();
  return (clock.now() - begin) / runs;  // yours: what does this measure?
}

std::vector<double> mean_losses(const std::function<Tensor()>& step, int steps, int every) {
  std::vector<double> all;
  double sum = 0;
  for (int i = 0; i < steps; ++i) {
    sum += step().item();  // yours: this waits in each step, and forgets the last window
    if ((i + 1) % every == 0) {
      all.push_back(sum / every);
      sum = 0;
    }
  }
  return all;
}

i64 culprit(const std::vector<std::function<void()>>& launches, Device device) {
  (void)device;
  for (size_t i = 0; i < launches.size(); ++i) launches[i]();
  return -1;  // yours
}

}  // namespace honest
