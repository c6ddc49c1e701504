// The device error mailbox: how a kernel reports a bad label or index without killing the context.
//
// A kernel that meets a bad value raises the record (the first one wins), then reads index 0 or
// skips the write, so memory stays safe. The next natural wait of the host throws IndexError with
// the details; until then every optimizer step on the device skips itself (a step is a
// transaction). No STL: kernels include this.
#pragma once
#include "warptape/core/device_type.h"
#include "warptape/core/types.h"

namespace wt {

// What went wrong; decides the wording.
enum class MailboxCode : i32 {
  none = 0,
  index_out_of_range = 1,
  label_out_of_range = 2,
  token_out_of_range = 3,
  pixel_out_of_range = 4  // outside [0, 1]: `value` has the bits of the float, `limit` is 1
};

// One a device, in its own memory.
struct MailboxRecord {
  i32 raised;    // MailboxCode; written by compare-and-swap from 0
  u32 op_id;     // which operator and line: mailbox_source()
  i64 position;  // flat position of the bad value in its tensor
  i64 value;
  i64 limit;  // valid values are [0, limit)
};

struct OpInfo;
// The number that stands for an operator in a record.
u32 mailbox_op_id(const OpInfo& info);
// That number with the user's line, a FrameId.
u32 mailbox_source(u32 op_id, u32 at);
// Copies the record; true when it is raised. Does not clear it.
bool read_mailbox(Device d, MailboxRecord& record);
// The record of a device, allocated at first use; device memory on simt and cuda.
MailboxRecord* mailbox_of(Device d);
// Throws IndexError (UsageError: a pixel) for a raised record and clears it; waits for the device
// first. Called wherever the host reads device memory, and by checkpoint and step waits.
WT_API void check_mailbox(Device d);
// Lowers the flag without throwing (after a failed step was handled).
void clear_mailbox(Device d);
// The address of the raised flag: nonzero makes steps skip. Device memory.
const i32* mailbox_flag(Device d);

namespace detail {
// Before the memory of all devices of a kind goes as a whole.
void forget_mailboxes(DeviceKind k);
}  // namespace detail

}  // namespace wt
