// A record of a thread's own in every device's mailbox. Internal.
//
// Threads share a device's mailbox: whichever waits for the device next throws what any of them has
// met. Ranks that are threads of one process must not: a bad label is the error of the rank whose
// kernel met it, and its step alone is to be refused. So dist::spawn gives each rank a lane: the
// mailbox_of(), mailbox_flag() and check_mailbox() of its thread are another record of the same
// memory. Lane 0 is the common one.
#pragma once
#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt::detail {

// All records of a device lie in one block, so that a lane costs no memory. Threads that ask for a
// lane when all are taken share lane 0.
inline constexpr u32 kMailboxLanes = 64;

u32 mailbox_lane();
// For threads that work for another one (ModeCopy does it).
void set_mailbox_lane(u32 lane);

// A lane for this thread while the scope lasts; afterwards nothing is raised in it.
class WT_GUARD MailboxLane {
 public:
  [[nodiscard]] MailboxLane();
  ~MailboxLane();
  MailboxLane(const MailboxLane&) = delete;
  MailboxLane& operator=(const MailboxLane&) = delete;

 private:
  u32 before_;
};

// check_mailbox() of every device that has one: what was met and never waited for. Waits for them.
WT_API void check_all_mailboxes();

}  // namespace wt::detail
