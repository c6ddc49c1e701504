#include "streams.h"

#include <deque>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/async_copy.h"
#include "warptape/core/factories.h"

namespace streams {

using namespace wt;

namespace {
struct Slot {
  Tensor host, batch;
  float* memory;
  Event copied, computed;
  Slot(i64 n, Device device)
      : host(pin(empty({n}, {.dtype = DType::f32}), device)),
        batch(empty({n}, {.dtype = DType::f32, .device = device})),
        memory(host.mutable_data<float>()),
        copied(device),
        computed(device) {}
};
}  // namespace

void feed(Job& job, Device device, int buffers) {
  const Stream computes = Stream::current(device), copies(device);
  copies.wait(computes);  // the buffers' memory may be what earlier work there still reads
  std::deque<Slot> slots;
  for (int k = 0; k < buffers; ++k) slots.emplace_back(job.size(), device);
  for (i64 i = 0; i < job.batches(); ++i) {
    Slot& s = slots[size_t(i % buffers)];
    s.copied.synchronize();  // the host's buffer is read no more
    job.fill(i, s.memory);
    copies.wait(s.computed);  // the device's buffer is read no more
    copy_to(s.batch, s.host, copies);
    {
      const StreamScope on(copies);
      s.copied.record();
    }
    computes.wait(s.copied);  // the batch is there
    job.compute(i, s.batch);
    s.computed.record();
  }
  computes.synchronize();
}

Tensor beside(const Branch& left, const Branch& right, const Tensor& x) {
  const Stream here = Stream::current(x.device()), side(x.device());
  side.wait(here);  // x
  const Tensor a = [&] {
    const StreamScope on(side);
    return left(x);
  }();
  const Tensor b = right(x);
  here.wait(side);  // a
  return a + b;
}

}  // namespace streams
