#include "warptape/kernels/dispatch/run_saved_lists.h"

#include <cstring>

namespace wt::detail {

SavedLaunch::SavedLaunch(const ErasedContract& c, const void* initial)
    : contract_(c), args_(new char[c.args_size]) {
  std::memcpy(args_.get(), initial, c.args_size);
}
void SavedLaunch::check(const Device& d, const OpInfo* op) const {
  (void)choose_erased(contract_, args(), d, op);
}
void SavedLaunch::run(const Launch& l) const { run_erased(contract_, args(), l); }

namespace {
class LaunchOf final : public SavedLaunch {
 public:
  LaunchOf(const SavedContract& row, const void* args)
      : SavedLaunch(*row.contract, args ? args : row.initial), row_(row) {}
  void fields(LaunchFields& f) override { row_.fields(args(), f); }
  void operands(LaunchOperands& o) override { row_.operands(args(), o); }
  const char* why_not_fields() const override {
    return row_.fields_wrong ? row_.fields_wrong(args()) : nullptr;
  }
  const char* why_not() const override {
    const char* why = why_not_fields();
    return why ? why : row_.operands_wrong(args());
  }
  void report_to(MailboxRecord* mailbox, u32 op_id) override {
    if (row_.report_to) row_.report_to(args(), mailbox, op_id);
  }

 private:
  const SavedContract& row_;
};
}  // namespace

void SavedLists::add(const SavedContract& row) {
  by_contract[row.contract->name] = {
      &row, [](const void* of, const void* args) -> std::unique_ptr<AnyLaunch> {
        return std::make_unique<LaunchOf>(*static_cast<const SavedContract*>(of), args);
      }};
}

}  // namespace wt::detail
