// How the contracts of kernels/run_saved.h are made of what their headers say. Internal to it.
#pragma once
#include <map>
#include <string>

#include "warptape/kernels/run.h"
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

// A contract that can be saved has, in namespace wt:
//   saved_fields(Args&, LaunchFields&)      its scalars
//   saved_fields_wrong(const Args&)         if operands' lengths are made of them; null: they are
//   sound saved_operands_wrong(const Args&)       null: no kernel leaves the operands
template <class Args, class List>
class LaunchOf final : public AnyLaunch {
 public:
  explicit LaunchOf(const void* args) {
    if (args) args_ = *static_cast<const Args*>(args);
  }
  const char* contract() const override { return ContractTable<Args>::kName; }
  void fields(LaunchFields& f) override { saved_fields(args_, f); }
  void operands(LaunchOperands& o) override { List{}(args_, o); }
  const char* why_not_fields() const override {
    if constexpr (requires { saved_fields_wrong(args_); })
      return saved_fields_wrong(args_);
    else
      return nullptr;
  }
  const char* why_not() const override {
    const char* why = why_not_fields();
    return why ? why : saved_operands_wrong(args_);
  }
  void report_to(MailboxRecord* mailbox, u32 op_id) override {
    if constexpr (requires { args_.mailbox; }) {
      args_.mailbox = mailbox;
      args_.op_id = op_id;
    }
  }
  void check(const Device& d, const OpInfo* op) const override { (void)choose(args_, d, op); }
  void run(const Launch& l) const override { wt::run(args_, l); }

 private:
  Args args_{};
};

using MakeLaunch = std::unique_ptr<AnyLaunch> (*)(const void* args);
struct SavedLists {
  std::map<std::string, MakeLaunch, std::less<>> by_contract;
  // Takes the lines of kernels/dispatch/run_operands.h; those without saved_fields() cannot be
  // saved.
  template <class Args, class List>
  void add(List) {
    if constexpr (requires(Args & a, LaunchFields & f) { saved_fields(a, f); })
      by_contract[ContractTable<Args>::kName] = [](const void* args) -> std::unique_ptr<AnyLaunch> {
        return std::make_unique<LaunchOf<Args, List>>(args);
      };
  }
};
void add_saved_pointwise(SavedLists& to);
void add_saved_pointwise_binary(SavedLists& to);  // a file each: the compiler takes long enough

}  // namespace wt::detail
