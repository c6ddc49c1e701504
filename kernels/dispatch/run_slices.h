// Launches for sliced tensors (core/slices.h): one for all slices where the contract has a rule,
// else one a slice. Host code only.
//
// A contract has a rule when its axes can be more than the operator sees:
//   - it begins with kSliceViews views, which all may get leading axes; shift_axes(n), if there,
//     moves the axes that it names; kSliceBroadcast says that views broadcast to the first one;
//   - or add_slices(s) does it, and says whether it could.
#pragma once
#include <vector>

#include "warptape/core/slices.h"
#include "warptape/kernels/contract.h"

namespace wt::detail {

// Whether a word of the arguments looks like an address in a sliced tensor (prepare_launch looks
// for blocks of memory in the same way), not counting a level that is visible. What an old address
// has left in padding may look like one too: SlicedLaunch finds out.
WT_COLD bool points_into_slices(const void* args, size_t bytes);

// The levels of what a launch touches (kernels/dispatch/run_operands.h), and the loop over their
// slices. While it lives, launches and allocations know nothing of slices.
class SlicedLaunch {
 public:
  // `args` are read alone. Throws UsageError where a result has fewer slices than what it is made
  // of, NotAvailable for a contract that nobody has said the operands of.
  SlicedLaunch(void* args, size_t bytes, const OpInfo* op, const char* contract);

  int levels() const { return axes_.n; }
  i64 count(int k) const { return axes_.axis[k].count; }
  // Bytes from a slice of level k to the next one, of what `data` points to; 0: it has one slice.
  i64 step(const void* data, int k) const;
  // v with an axis for each level in front of its own, which first become `ndim`; into `g`. False:
  // too many dimensions.
  bool lead(View& v, Geometry& g, int ndim) const;
  // Says, once an operator and process, that it is launched once a slice.
  void tell_of_loop() const;

  // One slice after the other: move() puts its addresses into a copy of the arguments.
  bool first();
  bool next();
  void move(void* copy) const;

 private:
  struct Pointer {
    size_t at;  // byte in the arguments
    i64 step[kMaxSliceLevels];
  };
  void check_written(const void* out) const;
  const char* name() const { return op_ ? op_->name : contract_; }

  SliceAxes axes_;
  std::vector<Pointer> pointers_;
  i64 index_[kMaxSliceLevels] = {};
  const OpInfo* op_;
  const char* contract_;
  Unsliced unsliced_;
};

template <class Args>
bool lead_slices(Args& a, const SlicedLaunch& s) {
  if constexpr (requires { a.add_slices(s); }) {
    return a.add_slices(s);
  } else if constexpr (requires { Args::kSliceViews; }) {
    // The geometries live as long as the launch, which does not keep them.
    static thread_local Geometry geometries[Args::kSliceViews];
    View* const views = reinterpret_cast<View*>(&a);
    for (int i = 0; i < Args::kSliceViews; ++i) {
      const int ndim = Args::kSliceBroadcast ? views[0].ndim() - (i ? s.levels() : 0)
                       : views[i]            ? views[i].ndim()
                                             : 0;
      if (views[i] && !s.lead(views[i], geometries[i], ndim)) return false;
    }
    if constexpr (requires { a.shift_axes(1); }) a.shift_axes(s.levels());
    return true;
  } else {
    return false;
  }
}

}  // namespace wt::detail
