// Batches on their way to a device: page-locked copies made where the batch is made, and a stream
// beside the caller's on which they travel. The Loader's `.device`.
//
// Buffers are never written again while somebody has them: page-locked blocks come from a ring that
// hands a block out when its copy is done (core/pinned.h), and each batch has device memory of its
// own, which the device's allocator takes back when the batch is gone and used up on every stream.
// In a loop that keeps no batch two of each are in use.
#pragma once
#include <memory>
#include <span>
#include <typeinfo>

#include "warptape/core/tensor.h"
#include "warptape/data/loader_stats.h"

namespace wt::data::detail {

// For one thread, but for pin().
class WT_API DevicePrefetch {
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

[[noreturn]] WT_COLD WT_API void no_tensors_to_move(const std::type_info& batch);

}  // namespace wt::data::detail
