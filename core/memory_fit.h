// How much memory a computation will take, and the largest batch that leaves room, found on the
// meta device: shapes are computed, no tensor gets bytes and nothing fails.
//
//   struct Job { Net net; optim::Adam opt{net}; TrainStep step{net, opt}; };
//   const auto steps = [&](i64 batch) {        // made anew each time, on the meta device
//     Job job;
//     for (int i = 0; i < 2; ++i) job.step(empty({batch, 784}), ...);
//   };
//   memory::predict(Device::cuda(0), [&] { steps(256); }).peak;
//   memory::fit_batch(steps, {.bytes = i64{16} << 30, .device = Device::cuda(0)}).batch;
#pragma once
#include <functional>

#include "warptape/core/memory.h"

namespace wt::memory {

// The highest level of memory while `f` runs on d's meta device, which is the default device
// meanwhile: what `f` makes without a `.device` lies there. Tensors that were on the meta device
// before do not count. The generator is afterwards as before. Rethrows what `f` throws, as an
// operator that needs values does (item(), nonzero).
struct Prediction {
  i64 peak = 0;
  i64 by_category[kNumCategories]{};  // at the peak; they add up to it
};
WT_API Prediction predict(Device d, const std::function<void()>& f);

struct FitOptions {
  i64 bytes = 0;  // that there are
  Device device = Device::best();
  i64 most = i64{1} << 20;  // the largest batch to look at
};
struct BatchFit {
  i64 batch = 0;  // the largest that fits; 0: not even one sample does
  i64 bytes = 0;  // its predicted peak; of one sample where none fits
};
// The largest batch whose peak under predict() is at most `bytes`. `steps` makes the model and some
// training steps (two: the second has the optimizer's state and the first one's gradients). The
// peak is taken to grow with the batch. Throws UsageError for bytes or `most` below 1.
WT_API BatchFit fit_batch(const std::function<void(i64 batch)>& steps, const FitOptions& options);
// The same by any prediction: bytes that a batch takes.
WT_API BatchFit fit_batch_by(const std::function<i64(i64 batch)>& bytes_of, i64 bytes, i64 most);

}  // namespace wt::memory
