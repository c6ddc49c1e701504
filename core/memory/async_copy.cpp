#include "warptape/core/async_copy.h"

#include <cstring>

#include "warptape/core/error.h"
#include "warptape/core/graph/graph_capture.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/memory/pinned.h"
#include "warptape/core/profile/transfers.h"
#include "warptape/core/slices.h"

namespace wt {
namespace {

void release_pinned(void* block) { give_pinned(static_cast<PinnedBlock*>(block)); }

PinnedBlock* block_of(const TensorImpl* p) {
  return static_cast<PinnedBlock*>(adopted_argument(p->storage, release_pinned));
}

// A contiguous tensor over `storage`, which it takes over.
Tensor tensor_over(Storage* storage, const Geometry& like, Device d) {
  TensorImpl* p = new_impl();
  set_contiguous(p->geometry, like.shape, like.ndim, like.dtype);
  p->key = tensor_key(like.dtype, d);
  p->storage = storage;
  p->data = storage->data;
  p->cell = &storage->cell;
  return Tensor(p);
}

// Values undefined; not for empty tensors.
Tensor empty_pinned(const Geometry& like, Device d) {
  const i64 bytes = bytes_for(like.numel, like.dtype);
  PinnedBlock* block = take_pinned(d, bytes);
  block->visible = true;
  Storage* s = nullptr;
  try {
    s = adopt_memory(Device::cpu(), block->data, bytes, release_pinned, block);
    return tensor_over(s, like, Device::cpu());
  } catch (...) {
    if (s)
      release(s);
    else
      give_pinned(block);
    throw;
  }
}

bool has_queue(Device d) { return stream_backend(d) != nullptr; }

}  // namespace

namespace detail {
void wait_for_host_access(const TensorImpl* p) {
  if (PinnedBlock* b = block_of(p)) b->wait();
}
}  // namespace detail

bool is_pinned(const Tensor& x) {
  if (!x.defined()) detail::use_of_undefined();
  return block_of(x.impl()) != nullptr;
}

Tensor pin(const Tensor& x, Device d, Frame at) {
  const NoGrad no_grad;
  const FrameScope frame(at);
  if (x.defined()) detail::refuse_slices("pin", x.impl(), at);
  const Tensor dense = x.to(Device::cpu(), at).contiguous(MemoryFormat::contiguous, at);
  if (!has_queue(d) || dense.numel() == 0) return dense.clone();
  detail::wait_for_host_access(dense.impl());
  Tensor y = empty_pinned(dense.impl()->geometry, d);
  std::memcpy(y.impl()->data, dense.impl()->data, size_t(y.impl()->storage->bytes));
  return y;
}

Tensor copy_async(const Tensor& x, Device d, Frame at) {
  const NoGrad no_grad;
  const FrameScope frame(at);
  const Device from = x.device();
  if (from == d) return x;
  detail::refuse_slices("copy_async", x.impl(), at);
  const bool plain =
      from.is_meta || d.is_meta || x.numel() == 0 ||
      !((from == Device::cpu() && has_queue(d)) || (d == Device::cpu() && has_queue(from)));
  if (plain) return x.detach().to(d, at);
  detail::not_in_a_graph("copy_async", "it copies between the device and host memory", at);
  const Tensor dense = x.contiguous(MemoryFormat::contiguous, at);
  const Geometry& g = dense.impl()->geometry;
  const i64 bytes = bytes_for(g.numel, g.dtype);
  if (d == Device::cpu()) {
    Tensor y = empty_pinned(g, from);
    const Stream stream = Stream::current(from);
    const profiler::TransferWatch watch(profiler::Transfer::Kind::to_host, from, bytes);
    stream_backend(from)->to_host(y.impl()->data, from, dense.impl()->data, bytes, stream.native());
    block_of(y.impl())->mark_busy(from, stream);
    return y;
  }
  Tensor y = tensor_over(allocate(d, bytes), g, d);
  PinnedBlock* block = block_of(dense.impl());
  if (!block) {
    detail::wait_for_host_access(dense.impl());
    copy_bytes(y.impl()->data, d, dense.impl()->data, from, bytes);
    return y;
  }
  // A host tensor that is still being written by another copy is read after it, on the device.
  const Stream stream = Stream::current(d);
  if (block->busy.load(std::memory_order_acquire)) stream.wait(block->event);
  const profiler::TransferWatch watch(profiler::Transfer::Kind::to_device, d, bytes);
  stream_backend(d)->from_host(y.impl()->data, d, dense.impl()->data, bytes, stream.native());
  block->mark_busy(d, stream);
  return y;
}

}  // namespace wt
