// What you write in streams.cpp. The lab's checks call feed() and beside(); copy_to() is given.
#pragma once
#include <functional>

#include "warptape/core/stream.h"
#include "warptape/core/tensor.h"

namespace streams {

using wt::Device;
using wt::i64;
using wt::Stream;
using wt::Tensor;

// --- given ---

// Queues a copy on `stream` and returns at once, as cudaMemcpyAsync does. When it runs it reads the
// floats of `host` (of pin(), core/async_copy.h: UsageError for other memory) and writes those of
// `device`. Nobody waits for anything, and nobody guards either tensor: that is for you to do.
void copy_to(const Tensor& device, const Tensor& host, const Stream& stream);

// Batches that the host makes one after another, and work on them.
class Job {
 public:
  virtual ~Job() = default;
  virtual i64 batches() const = 0;
  virtual i64 size() const = 0;  // floats in a batch
  // The host writes batch i, which takes it a while: size() floats.
  virtual void fill(i64 i, float* host) = 0;
  // Queues the work on batch i on the current stream. When it runs it reads `batch`, [size()] on
  // the device.
  virtual void compute(i64 i, const Tensor& batch) = 0;
};

// --- yours ---

// Every batch of the job is filled, copied and computed on, in order, in `buffers` pinned and as
// many device buffers (1 or more), which are used in turn. Copies have a stream of their own: the
// copy of a batch waits for what it needs and for nothing else, and so does the host. Returns when
// everything has run.
void feed(Job& job, Device device, int buffers);

// left(x) + right(x), of which left is queued on a stream beside the current one and right on the
// current one. x may be the result of work that is still queued on the current stream; the result
// is used there. The host waits for nothing.
using Branch = std::function<Tensor(const Tensor& x)>;
Tensor beside(const Branch& left, const Branch& right, const Tensor& x);

}  // namespace streams
