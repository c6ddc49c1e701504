// What operators with labels or indices share: where their kernel reports a bad one. Internal.
#pragma once
#include "warptape/autograd/op_scope.h"
#include "warptape/core/mailbox.h"

namespace wt {

// On the cpu, whose kernels have run when `run` returns, the record is the operator's own and
// throw_if_raised() throws before anything is attached. On other devices it is the device's
// mailbox, and the next wait of the host throws.
class BadIndexReport {
 public:
  WT_HOT BadIndexReport(const OpScope& s, u32 op_id)
      : on_host_(s.device() == Device::cpu()),
        record_(on_host_ ? &own_ : mailbox_of(s.device())),
        op_id_(on_host_ ? op_id : mailbox_source(op_id, intern_frame(s.frame()))) {}
  MailboxRecord* record() { return record_; }
  u32 op_id() const { return op_id_; }
  // On the cpu, what was wrong; null: nothing.
  const MailboxRecord* raised() const { return own_.raised ? &own_ : nullptr; }
  // `what` names the value ("label"), `one` a place in a 1-d list ("sample"), `list` the operand
  // that holds it.
  WT_HOT void throw_if_raised(const OpScope& s, const char* what, const char* one, int list) const {
    if (own_.raised) [[unlikely]]
      raise(s, what, one, list);
  }

 private:
  [[noreturn]] WT_COLD void raise(const OpScope& s, const char* what, const char* one,
                                  int list) const;

  MailboxRecord own_{};
  bool on_host_;
  MailboxRecord* record_;
  u32 op_id_;
};

}  // namespace wt
