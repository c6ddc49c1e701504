// Tensors of several slices: what vmap() computes on (autograd/vmap.h).
//
// A sliced tensor looks like one of its slices: shape, strides and all checks of operators are
// those of a slice. Its storage has room for one slice for each index of the levels of vmap() that
// it is mapped over, one after another, the outermost level first. So operators and their
// derivatives need no second form:
//   - what an operator allocates has as many slices as its operands together (SliceScope),
//   - `run` launches for all slices of what the arguments point into
//   (kernels/dispatch/run_slices.h),
//   - what would read values on the host, or write slices into a tensor that has none, throws.
// A level is open while its vmap() runs the user's function; backward walks meet closed ones.
#pragma once
#include "warptape/core/storage.h"
#include "warptape/core/tensor_impl.h"

namespace wt::detail {

inline constexpr int kMaxSliceLevels = 4;  // of nested vmap()

// One level that a storage is sliced by.
struct SliceAxis {
  u64 level;  // numbers grow: inner levels have higher ones
  i64 count;  // slices
  i64 step;   // bytes from one slice to the next
  u64 since;  // number of the newest node when the level was opened: later ones are inside
};
struct SliceAxes {
  SliceAxis axis[kMaxSliceLevels];  // outermost first
  int n = 0;

  const SliceAxis* find(u64 level) const {
    for (int i = 0; i < n; ++i)
      if (axis[i].level == level) return &axis[i];
    return nullptr;
  }
  const SliceAxis* begin() const { return axis; }
  const SliceAxis* end() const { return axis + n; }
  // Adds the levels that this does not have yet; steps are meaningless then. Throws UsageError for
  // more than kMaxSliceLevels.
  void merge(const SliceAxis& a);
  void merge(const SliceAxes& o) {
    for (const SliceAxis& a : o) merge(a);
  }
};

// Null: an ordinary tensor.
const SliceAxes* slices_of(const Storage* s);
inline const SliceAxes* slices_of(const TensorImpl* p) { return slices_of(p->storage); }
// Of the sliced storage whose first slice `p` points into; null: of none.
const SliceAxes* slices_at(const void* p);

// What is allocated in the scope has slices of these levels.
class SliceScope {
 public:
  explicit SliceScope(const SliceAxes& axes);
  ~SliceScope();
  SliceScope(const SliceScope&) = delete;
  SliceScope& operator=(const SliceScope&) = delete;
};
// The two halves of a scope, for OpScope. Neither throws but for memory.
void push_slices(const SliceAxes& axes);
void pop_slices() noexcept;
// What allocate() makes while pushed axes are in force.
Storage* allocate_sliced(Device d, i64 bytes);

// vmap's draws of random numbers: refused, or the same ones in every slice.
enum class SliceDraws : u8 { refused, same };

// An open level of this thread.
class SliceLevel {
 public:
  // Throws UsageError when too many are open.
  SliceLevel(i64 count, SliceDraws draws);
  ~SliceLevel();
  SliceLevel(const SliceLevel&) = delete;
  SliceLevel& operator=(const SliceLevel&) = delete;
  const SliceAxis& axis() const { return axis_; }
  SliceDraws draws() const { return draws_; }

 private:
  friend bool is_open_level(u64 level);
  SliceAxis axis_;
  SliceLevel* outer_;
  u32 slow_before_;
  SliceDraws draws_;
};
bool is_open_level(u64 level);
// Throws UsageError if a vmap() that refuses draws is open.
void check_slice_draws();

// A level whose axis is visible while it lives, in the geometry of a launch: to slice, and to join.
class VisibleLevel {
 public:
  explicit VisibleLevel(u64 level);
  ~VisibleLevel();
  VisibleLevel(const VisibleLevel&) = delete;
  VisibleLevel& operator=(const VisibleLevel&) = delete;

 private:
  u64 before_;
};
u64 visible_level();  // 0: none

// All slices of p, with an axis for each level in front: a view without a graph, for an `Unsliced`
// scope, in which addresses in slices mean nothing.
TensorImpl* every_slice(const TensorImpl* p);
class Unsliced {
 public:
  Unsliced();
  ~Unsliced();
  Unsliced(const Unsliced&) = delete;
  Unsliced& operator=(const Unsliced&) = delete;

 private:
  u32 slow_before_;
};

// Throws UsageError for a sliced tensor: `what` would read or move values of one slice.
void refuse_slices(const char* what, const TensorImpl* p, Frame at);

}  // namespace wt::detail
