// Lab 3: streams, events, and a pipeline of two buffers. page.md says what is asked, streams.h what
// each function promises.
#include "streams.h"

#include <vector>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/async_copy.h"
#include "warptape/core/factories.h"

namespace streams {

using namespace wt;

void feed(Job& job, Device device, int buffers) {
  (void)buffers;  // yours: this is right, with one buffer and a wait for all in every turn
  const Tensor host = pin(empty({job.size()}, {.dtype = DType::f32}), device);
  const Tensor batch = empty({job.size()}, {.dtype = DType::f32, .device = device});
  float* const memory = host.mutable_data<float>();
  const Stream stream = Stream::current(device);
  for (i64 i = 0; i < job.batches(); ++i) {
    job.fill(i, memory);
    copy_to(batch, host, stream);
    job.compute(i, batch);
    stream.synchronize();
  }
}

Tensor beside(const Branch& left, const Branch& right, const Tensor& x) {
  return left(x) + right(x);  // yours: both are on the current stream
}

}  // namespace streams
