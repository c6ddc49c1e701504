// How the contracts of kernels/run_saved.h are made of what their headers say. Internal to it.
#pragma once
#include <map>
#include <memory>
#include <string_view>

#include "warptape/kernels/dispatch/run_erased.h"
#include "warptape/kernels/run_saved.h"

namespace wt::detail {

// An absent view, or one of the shape of `of`, whose elements have its dtype.
inline bool like(const View& v, const View& of) {
  return v && of && v.dtype() == of.dtype() && same_shape(*v.geometry, *of.geometry);
}
// `v` can be read at every place of `of`.
inline bool broadcasts(const View& v, const View& of) {
  const int missing = of.ndim() - v.ndim();
  if (missing < 0) return false;
  for (int i = 0; i < v.ndim(); ++i)
    if (v.size(i) != of.size(i + missing) && v.size(i) != 1) return false;
  return true;
}

// What is the same for all saved launches.
class SavedLaunch : public AnyLaunch {
 public:
  // `initial`: where the arguments are copied from.
  SavedLaunch(const ErasedContract& c, const void* initial);
  const char* contract() const override { return contract_.name; }
  void check(const Device& d, const OpInfo* op) const override;
  void run(const Launch& l) const override;

 protected:
  void* args() const { return args_.get(); }

 private:
  const ErasedContract& contract_;
  std::unique_ptr<char[]> args_;
};

// A contract that can be saved has, in namespace wt:
//   saved_fields(Args&, LaunchFields&)      its scalars
//   saved_fields_wrong(const Args&)         if operands' lengths are made of them; null: they are
//   sound saved_operands_wrong(const Args&)       null: no kernel leaves the operands
// Its row, the type of the arguments erased:
struct SavedContract {
  const ErasedContract* contract;
  const void* initial;  // default arguments
  void (*fields)(void* args, LaunchFields& f);
  void (*operands)(void* args, LaunchOperands& o);
  const char* (*fields_wrong)(const void* args);  // null: no lengths are made of them
  const char* (*operands_wrong)(const void* args);
  void (*report_to)(void* args, MailboxRecord* mailbox, u32 op_id);  // null: reports nothing
};
template <class Args, class List>
struct SavedRow {
  static constexpr Args kInitial{};
  static Args& of(void* args) { return *static_cast<Args*>(args); }
  static const Args& of(const void* args) { return *static_cast<const Args*>(args); }
  static void fields(void* args, LaunchFields& f) { saved_fields(of(args), f); }
  static void operands(void* args, LaunchOperands& o) { List{}(of(args), o); }
  static const char* fields_wrong(const void* args) { return saved_fields_wrong(of(args)); }
  static const char* operands_wrong(const void* args) { return saved_operands_wrong(of(args)); }
  static void report_to(void* args, MailboxRecord* mailbox, u32 op_id) {
    of(args).mailbox = mailbox;
    of(args).op_id = op_id;
  }
  static consteval SavedContract made() {
    SavedContract row{&ContractTable<Args>::erased,
                      &kInitial,
                      fields,
                      operands,
                      nullptr,
                      operands_wrong,
                      nullptr};
    if constexpr (requires(const Args& a) { saved_fields_wrong(a); })
      row.fields_wrong = fields_wrong;
    if constexpr (requires(Args & a) { a.mailbox; }) row.report_to = report_to;
    return row;
  }
  static constexpr SavedContract kRow = made();
};

struct SavedLists {
  struct Entry {
    const void* row;
    std::unique_ptr<AnyLaunch> (*make)(const void* row, const void* args);
  };
  std::map<std::string_view, Entry> by_contract;
  // Takes the lines of kernels/dispatch/run_operands.h; those without saved_fields() cannot be
  // saved.
  template <class Args, class List>
  void add(List) {
    if constexpr (requires(Args & a, LaunchFields & f) { saved_fields(a, f); })
      add(SavedRow<Args, List>::kRow);
  }
  void add(const SavedContract& row);
};
void add_saved_pointwise(SavedLists& to);

}  // namespace wt::detail
