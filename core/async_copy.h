// Copies between host and device that the host does not wait for.
//
//   Tensor host = pin(batch, device);        // once: a cpu tensor in page-locked memory
//   Tensor x = copy_async(host, device);     // returns at once; operators on x queue behind it
//   Tensor loss = copy_async(y, Device::cpu());
//   ...                                      // more work is queued
//   loss.item();                             // waits for that copy only
//
// A cpu tensor that a device is copying from or to carries the copy's event: every use of it by the
// library (data(), item(), operators, and its release) waits for the copy. So nothing is read too
// early, overwritten too early or reused too early. Pointers taken from data() before the copy was
// queued are the caller's to guard.
#pragma once
#include "warptape/core/tensor.h"

namespace wt {

// x on `d`, queued on the current stream of the cuda device involved.
//
// To cuda: from page-locked memory (pin) without a detour; else x's bytes are copied aside first,
// and x is free on return. To cpu: the result lies in page-locked memory and waits at first use.
// Devices that have no queue (cpu, simt) copy at once. The result takes no part in the graph; x
// itself is returned when it is on `d` already. Throws OutOfMemory, NotAvailable, PlacementError.
WT_API Tensor copy_async(const Tensor& x, Device d, Frame at = Frame::here());

// A contiguous cpu copy of x in memory that `d` can copy from and to directly; plain memory where
// `d` has no queue. Throws OutOfMemory.
WT_API Tensor pin(const Tensor& x, Device d, Frame at = Frame::here());
WT_API bool is_pinned(const Tensor& x);

}  // namespace wt
