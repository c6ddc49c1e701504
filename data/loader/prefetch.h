// Batches on their way to a device: page-locked copies made where the batch is made, and a stream
// beside the caller's on which they travel. The Loader's `.device`.
//
// Buffers are never written again while somebody has them: page-locked blocks come from a ring that
// hands a block out when its copy is done (core/memory/pinned.h), and each batch has device memory
// of its own, which the device's allocator takes back when the batch is gone and used up on every
// stream. In a loop that keeps no batch two of each are in use. Internal.
#pragma once
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <typeinfo>

#include "warptape/core/tensor.h"
#include "warptape/data/loader.h"
#include "warptape/data/loader/loader_times.h"

namespace wt::data::detail {

// For one thread, but for pin().
class DevicePrefetch {
 public:
  // Throws NotAvailable where the device cannot be used. Without `pin_memory` on a device with
  // queues it hands out a warning, once a process: copies from pageable memory are not
  // asynchronous.
  DevicePrefetch(Device d, bool pin_memory, std::shared_ptr<LoaderTimes> times);
  ~DevicePrefetch();
  // Moves the tensors into page-locked memory, if that helps the device. From any thread.
  void pin(std::span<Tensor* const> batch) const;
  // Queues their copies: the tensors become the device's.
  void upload(std::span<Tensor* const> batch);
  // What the caller queues from now on, on its current stream, starts after all uploads.
  void wait() const;

 private:
  struct Side;
  Device device_;
  bool pins_;
  std::shared_ptr<LoaderTimes> times_;
  std::unique_ptr<Side> side_;  // null: work has finished when it is queued
};

// The batch behind the caller's, on its way to the device.
struct BatchAhead {
  i64 number = -1;  // -1: none
  Owned<AnyBatch> item{};
  std::exception_ptr error{};
};
// Batch k on the device, with the copy of batch k + 1 queued behind it; what that one throws is for
// the call that asks for it. fetch(k) gives the batches in order, null behind the last; `refetch`
// is called where it has to give one again.
Owned<AnyBatch> next_on_device(DevicePrefetch& to, const BatchMaker& set, i64 k, BatchAhead& ahead,
                               const std::function<Owned<AnyBatch>(i64)>& fetch,
                               const std::function<void()>& refetch);

std::vector<Tensor*> tensors_of(const BatchMaker& set, AnyBatch& item);

[[noreturn]] WT_COLD void no_tensors_to_move(const std::type_info& batch);

}  // namespace wt::data::detail
